// The record of operations behind Tensor::backward().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "headway/autograd.h"
#include "headway/tensor.h"

namespace headway::inline v0 {

namespace internal {
class Node;
}

// The gradient state of a tensor. Leaves hold the accumulated sum; results point at the operation that made them.
class GradientRecord {
 public:
  Shape shape;
  DType dtype = DType::float32;
  // Held by whoever reads or changes `sum`, and while it grows: threads may share a leaf.
  std::mutex mutex;
  Tensor sum;                            // of a leaf: what backward() has accumulated
  std::shared_ptr<internal::Node> node;  // of a result: the operation that made it; null for a leaf
  int output = 0;                        // of a result: which of the operation's outputs it is
};

namespace internal {

using Tensors = std::vector<Tensor>;

// One call of a backward function: the gradients of an operation's outputs, and which inputs need theirs.
struct BackwardCall {
  Tensors d_outputs;  // undefined where zero
  std::vector<bool> wanted;
  Tensors sums;  // gradients of the inputs accumulated so far, where they are uniquely owned; undefined: none

  const Tensor& d_output(std::size_t index = 0) const { return d_outputs[index]; }
  bool wants(std::size_t input) const { return wanted[input]; }
  // Takes the accumulated gradient of an input, dense, to be returned as its gradient with this operation's part added;
  // undefined where there is none. If it is not taken, the returned gradient is added to it afterwards.
  Tensor take_sum(std::size_t input) { return std::exchange(sums[input], Tensor()); }
};

// Returns the gradients of the inputs, in the order of record()'s inputs; undefined ones count as zero. At least one of
// d_outputs is defined, and each defined one has its output's shape and dtype. The function may move from d_outputs,
// and may write into one for which is_uniquely_owned() is true.
using BackwardFunction = std::function<Tensors(BackwardCall&)>;

// True when operations are recorded and the tensor requires a gradient; false for an undefined tensor.
bool needs_gradient(const Tensor& tensor);

template <typename... More>
bool needs_gradient(const Tensor& first, const More&... more) {
  return needs_gradient(first) || (needs_gradient(more) || ...);
}

// Records that `outputs` (new tensors of this operation) were computed from `inputs` (undefined ones have no gradient).
// Call it only where needs_gradient(inputs...). The function must hold tensors as Saved, to avoid a reference cycle.
void record(const char* name, const Tensors& inputs, const Tensors& outputs, BackwardFunction backward);

// A tensor saved for the backward pass, which cannot be used after a change in place.
class Saved {
 public:
  Saved() = default;
  Saved(const char* operation, const Tensor& tensor);

  bool defined() const { return tensor_.defined(); }
  // The tensor without its record; throws where it has been changed since.
  const Tensor& get() const;

 private:
  const char* operation_ = "";
  Tensor tensor_;
  std::uint64_t version_ = 0;
};

// Reports, while a backward pass still runs, which leaves have their whole gradient: while it lives, the first
// backward() that this thread calls reports every leaf once, as soon as all operations that used it have been passed.
// The function may take the gradient away.
class GradientWatch {
 public:
  GradientWatch(const Tensors& leaves, std::function<void(std::size_t leaf)> complete);
  ~GradientWatch();
  GradientWatch(const GradientWatch&) = delete;
  GradientWatch& operator=(const GradientWatch&) = delete;

 private:
  friend class CompleteLeaves;
  std::vector<const GradientRecord*> leaves_;
  std::function<void(std::size_t)> complete_;
};

// True when no other handle or view shares this tensor's memory, so that it may be overwritten.
bool is_uniquely_owned(const Tensor& tensor);

// Throws where a tensor that requires a gradient is about to be changed in place while operations are recorded.
void check_change_in_place(const char* function, const Tensor& tensor);

// The sum of x over the dimensions that were broadcast from `shape`: the gradient of expand(). Sums are taken in
// float64, in an order that follows from the shapes.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace internal
}  // namespace headway::inline v0
