// Recording operations, and the backward pass through them.
#include "core/autograd.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "base/check.h"
#include "core/device_memory.h"
#include "core/tensor_impl.h"

namespace headway::inline v0 {

namespace internal {

// One recorded operation.
class Node {
 public:
  ~Node();

  const char* name = "";
  std::uint64_t sequence = 0;                           // later operations have larger ones
  std::vector<std::shared_ptr<GradientRecord>> inputs;  // null where no gradient is needed
  std::vector<std::pair<Shape, DType>> outputs;
  BackwardFunction backward;  // empty once the record was freed
};

namespace {

thread_local bool recording = true;

std::uint64_t next_sequence() {
  static std::atomic<std::uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

// The gradient that a leaf keeps: the tensor itself where it is uniquely owned, else a copy.
Tensor own(Tensor gradient) {
  return is_uniquely_owned(gradient) && gradient.is_contiguous() ? std::move(gradient) : gradient.clone();
}

// Adds `more` to `sum`, in place where the sum is uniquely owned.
void accumulate(Tensor& sum, Tensor more) {
  if (!sum.defined()) {
    sum = std::move(more);
    return;
  }
  if (!is_uniquely_owned(sum) || !sum.is_contiguous()) {
    if (is_uniquely_owned(more) && more.is_contiguous()) {
      std::swap(sum, more);
    } else {
      sum = sum.clone();
    }
  }
  more = more.contiguous();
  const std::int64_t count = sum.element_count();
  if (count > 0) memory_of(sum.device()).accumulate(sum.dtype(), count, sum.raw_data(), more.raw_data());
}

// The backward pass: gradients of the results whose operations have not run yet.
class Walk {
 public:
  explicit Walk(bool retain_graph) : retain_graph_(retain_graph) {}

  // Passes a gradient to the operation that made the tensor, or adds it to the leaf's.
  void deliver(GradientRecord& record, Tensor gradient) {
    if (!record.node) {
      if (record.sum.defined()) {
        accumulate(record.sum, std::move(gradient));
        bump_version(record.sum);
      } else {
        record.sum = own(std::move(gradient));
      }
      return;
    }
    auto [place, added] = pending_.try_emplace(record.node.get());
    if (added) {
      place->second.resize(record.node->outputs.size());
      heap_.push_back(record.node);
      std::push_heap(heap_.begin(), heap_.end(), later);
    }
    accumulate(place->second[static_cast<std::size_t>(record.output)], std::move(gradient));
  }

  // Runs the operations from the last recorded to the first, so that every user of a result runs before its producer.
  void run() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const std::shared_ptr<Node> node = std::move(heap_.back());
      heap_.pop_back();
      step(*node);
    }
  }

 private:
  static bool later(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) {
    return a->sequence < b->sequence;
  }

  // The gradient of a result so far, taken out where it may be overwritten; undefined otherwise.
  Tensor take_pending(const GradientRecord& record) {
    const auto place = record.node ? pending_.find(record.node.get()) : pending_.end();
    if (place == pending_.end()) return {};
    Tensor& sum = place->second[static_cast<std::size_t>(record.output)];
    if (!sum.defined() || !is_uniquely_owned(sum) || !sum.is_contiguous()) return {};
    return std::exchange(sum, Tensor());
  }

  void step(Node& node) {
    check(static_cast<bool>(node.backward), "backward: the record of ", node.name,
          " was freed by an earlier backward; pass retain_graph to go through it again");
    BackwardCall call;
    const auto place = pending_.find(&node);
    call.d_outputs = std::move(place->second);
    pending_.erase(place);
    for (const auto& input : node.inputs) {
      call.wanted.push_back(input != nullptr);
      call.sums.push_back(input ? take_pending(*input) : Tensor());
    }
    Tensors gradients = node.backward(call);
    if (!retain_graph_) node.backward = nullptr;
    call.d_outputs.clear();  // so that an input's gradient may be the only owner of this memory
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      GradientRecord* input = node.inputs[i].get();
      if (call.sums[i].defined()) deliver(*input, std::exchange(call.sums[i], Tensor()));
      if (!input || i >= gradients.size() || !gradients[i].defined()) continue;
      check(gradients[i].shape() == input->shape && gradients[i].dtype() == input->dtype, node.name,
            ": the gradient of input ", i, " is ", gradients[i], ", expected ", input->dtype, input->shape);
      deliver(*input, std::exchange(gradients[i], Tensor()));
    }
  }

  bool retain_graph_;
  std::unordered_map<Node*, Tensors> pending_;
  std::vector<std::shared_ptr<Node>> heap_;
};

}  // namespace

// A long chain of operations would otherwise be destroyed by as many nested calls.
Node::~Node() {
  std::vector<std::shared_ptr<Node>> last;
  const auto collect = [&last](Node& node) {
    for (auto& input : node.inputs) {
      if (input && input.use_count() == 1 && input->node && input->node.use_count() == 1) {
        last.push_back(std::move(input->node));
      }
    }
    node.inputs.clear();
  };
  collect(*this);
  while (!last.empty()) {
    const std::shared_ptr<Node> node = std::move(last.back());
    last.pop_back();
    collect(*node);
  }
}

bool needs_gradient(const Tensor& tensor) { return recording && tensor.defined() && tensor.requires_grad(); }

void record(const char* name, const Tensors& inputs, const Tensors& outputs, BackwardFunction backward) {
  const auto node = std::make_shared<Node>();
  node->name = name;
  node->sequence = next_sequence();
  node->backward = std::move(backward);
  for (const Tensor& input : inputs) {
    node->inputs.push_back(input.defined() ? TensorImpl::of(input).gradient() : nullptr);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    node->outputs.emplace_back();
    if (!outputs[i].defined()) continue;
    node->outputs.back() = {outputs[i].shape(), outputs[i].dtype()};
    auto record = std::make_shared<GradientRecord>();
    record->shape = outputs[i].shape();
    record->dtype = outputs[i].dtype();
    record->node = node;
    record->output = static_cast<int>(i);
    TensorImpl::of(outputs[i]).gradient() = std::move(record);
  }
}

Saved::Saved(const char* operation, const Tensor& tensor)
    : operation_(operation),
      tensor_(tensor.defined() ? tensor.detach() : tensor),
      version_(tensor.defined() ? tensor.version() : 0) {}

const Tensor& Saved::get() const {
  check(!tensor_.defined() || tensor_.version() == version_, operation_, ": a tensor saved for the backward pass, ",
        tensor_, ", was changed in place since");
  return tensor_;
}

bool is_uniquely_owned(const Tensor& tensor) { return TensorImpl::is_uniquely_owned(tensor); }

void check_change_in_place(const char* function, const Tensor& tensor) {
  check(!needs_gradient(tensor), function, ": ", tensor,
        " takes part in gradients and cannot be changed in place; a NoGradGuard allows it");
}

}  // namespace internal

NoGradGuard::NoGradGuard() : previous_(internal::recording) { internal::recording = false; }
NoGradGuard::~NoGradGuard() { internal::recording = previous_; }

bool gradients_enabled() { return internal::recording; }

// ---- members of Tensor ----

bool Tensor::requires_grad() const { return TensorImpl::of(*this).gradient() != nullptr; }

bool Tensor::is_leaf() const {
  const auto& record = TensorImpl::of(*this).gradient();
  return !record || !record->node;
}

Tensor& Tensor::set_requires_grad(bool wanted) {
  internal::check(is_leaf(), "set_requires_grad: ", *this, " is the result of a recorded operation; detach() it first");
  auto& record = TensorImpl::of(*this).gradient();
  if (wanted && !record) {
    internal::check(is_floating(dtype()), "set_requires_grad: ", *this, " has no gradient, expected a floating dtype");
    record = std::make_shared<GradientRecord>();
    record->shape = shape();
    record->dtype = dtype();
  } else if (!wanted) {
    record = nullptr;
  }
  return *this;
}

Tensor Tensor::grad() const {
  const auto& record = TensorImpl::of(*this).gradient();
  return record ? record->sum : Tensor();
}

void Tensor::set_grad(const Tensor& gradient) const {
  const auto& record = TensorImpl::of(*this).gradient();
  internal::check(record != nullptr && is_leaf(), "set_grad: ", *this, " is not a leaf that requires a gradient");
  internal::check(!gradient.defined() || (gradient.shape() == shape() && gradient.dtype() == dtype()),
                  "set_grad: the gradient is ", gradient, ", expected ", *this);
  internal::check(!gradient.defined() || gradient.device() == device(), "set_grad: the gradient is on ",
                  gradient.defined() ? gradient.device() : device(), ", expected ", device());
  record->sum = gradient;
}

Tensor Tensor::detach() const { return TensorImpl::of(*this).view(0, shape(), strides()); }

void Tensor::backward(const Tensor& d_this, bool retain_graph) const {
  internal::check(requires_grad(), "backward: ", *this, " was not computed from a tensor that requires a gradient");
  Tensor gradient = d_this;
  if (gradient.defined()) {
    internal::check(gradient.shape() == shape() && gradient.dtype() == dtype(), "backward: d_this is ", gradient,
                    ", expected ", *this);
    internal::check(gradient.device() == device(), "backward: d_this is on ", gradient.device(), ", expected ",
                    device());
    gradient = gradient.detach();
  } else {
    internal::check(element_count() == 1, "backward: ", *this, " has ", element_count(),
                    " elements, expected one, or a gradient of its shape");
    gradient = full(shape(), 1.0, dtype(), device());
  }
  const NoGradGuard guard;
  internal::Walk walk(retain_graph);
  walk.deliver(*TensorImpl::of(*this).gradient(), std::move(gradient));
  walk.run();
}

}  // namespace headway::inline v0
