// The record of operations behind Tensor::backward().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "headway/autograd.h"
#include "headway/tensor.h"

namespace headway::inline v0 {

namespace internal {
class Node;
}

// What a tensor knows about its gradient. Leaves keep the sum; results of operations point at what made them.
class GradientRecord {
 public:
  Shape shape;
  DType dtype = DType::float32;
  Tensor sum;                            // of a leaf: what backward() added up so far
  std::shared_ptr<internal::Node> node;  // of a result: the operation that made it; null for a leaf
  int output = 0;                        // of a result: which of the operation's outputs it is
};

namespace internal {

using Tensors = std::vector<Tensor>;

// One step back: the gradients of an operation's outputs, and which inputs want theirs.
struct BackwardCall {
  Tensors d_outputs;  // undefined where zero
  std::vector<bool> wanted;
  Tensors sums;  // what other operations gave for the inputs so far, where it is uniquely owned; undefined: nothing

  const Tensor& d_output(std::size_t index = 0) const { return d_outputs[index]; }
  bool wants(std::size_t input) const { return wanted[input]; }
  // The sum so far of an input's gradient, dense, to be given back as its gradient with this operation's part added;
  // undefined where there is none. What is not taken is added to afterwards.
  Tensor take_sum(std::size_t input) { return std::exchange(sums[input], Tensor()); }
};

// Gives the gradients of the inputs, in the order in which record() got them; undefined ones count as zero. At least
// one of d_outputs is defined, and each defined one has its output's shape and dtype. It may take d_outputs over, and
// write into one of which is_sole_owner() is true.
using BackwardFunction = std::function<Tensors(BackwardCall&)>;

// True when operations are recorded and the tensor is one whose gradient is wanted; false for an undefined one.
bool needs_gradient(const Tensor& tensor);

template <typename... More>
bool needs_gradient(const Tensor& first, const More&... more) {
  return needs_gradient(first) || (needs_gradient(more) || ...);
}

// Notes that `outputs` (new tensors of this operation) came from `inputs` (undefined ones have no gradient). Call it
// only where needs_gradient(inputs...). What the function keeps must be Saved, or the tensor would own itself.
void record(const char* name, const Tensors& inputs, const Tensors& outputs, BackwardFunction backward);

// A tensor kept for the backward pass, which refuses to be used after a change in place.
class Saved {
 public:
  Saved() = default;
  Saved(const char* operation, const Tensor& tensor);

  bool defined() const { return tensor_.defined(); }
  // The tensor without its record; throws where it was changed since.
  const Tensor& get() const;

 private:
  const char* operation_ = "";
  Tensor tensor_;
  std::uint64_t version_ = 0;
};

// True when no other handle or view sees this tensor's memory, so that it may be written over.
bool is_sole_owner(const Tensor& tensor);

// Throws where a tensor takes part in gradients and is about to be changed in place while operations are recorded.
void check_change_in_place(const char* function, const Tensor& tensor);

// The sum of x over the dimensions that were broadcast from `shape`: the gradient of expand(). Sums are taken in
// float64, in an order that follows from the shapes.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace internal
}  // namespace headway::inline v0
