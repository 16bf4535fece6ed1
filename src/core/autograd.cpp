// Recording operations, and the backward pass through them.
#include "core/autograd.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

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
  BackwardFunction backward;

  std::mutex mutex;              // of the following two, and of the end of `backward`
  int users = 0;                 // threads that run `backward`
  bool freed = false;            // by a backward pass that retains nothing; the last user empties `backward`
  std::shared_ptr<Node> behind;  // the next in a list of nodes to destroy
};

namespace {

thread_local bool recording = true;
thread_local GradientWatch* watch_of_thread = nullptr;

std::uint64_t next_sequence() {
  static std::atomic<std::uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

// One use of a node's function. Several threads may go through the same record where all retain it; of those that do
// not, one frees it and the others get an error.
class NodeUse {
 public:
  NodeUse(Node& node, bool frees) : node_(node), frees_(frees) {
    const std::lock_guard lock(node.mutex);
    check(!node.freed, "backward: the record of ", node.name,
          " was freed by an earlier backward; pass retain_graph to go through it again");
    node.freed = frees;
    ++node.users;
  }
  ~NodeUse() {
    BackwardFunction unused;  // destroyed after the lock is released
    const std::lock_guard lock(node_.mutex);
    if (frees_ && !finished_) node_.freed = false;
    if (--node_.users == 0 && node_.freed) std::swap(unused, node_.backward);
  }
  NodeUse(const NodeUse&) = delete;
  NodeUse& operator=(const NodeUse&) = delete;

  // The function has returned; without this call the record stays, so that the pass can be repeated.
  void finish() { finished_ = true; }

 private:
  Node& node_;
  bool frees_;
  bool finished_ = false;
};

// Adds the dense `more` to `sum`, in place where the sum is uniquely owned; else one of the arguments is the old sum
// afterwards. Releases no memory, so that a lock may be held.
void add_dense(Tensor& sum, Tensor& more, Tensor& replaced) {
  if (!is_uniquely_owned(sum) || !sum.is_contiguous()) {
    if (is_uniquely_owned(more)) {
      std::swap(sum, more);
      replaced = std::exchange(more, more.contiguous());
    } else {
      replaced = std::exchange(sum, sum.clone());
    }
  }
  const std::int64_t count = sum.element_count();
  if (count > 0) memory_of(sum.device()).accumulate(sum.dtype(), count, sum.raw_data(), more.raw_data());
}

void accumulate(Tensor& sum, Tensor more) {
  if (!sum.defined()) {
    sum = std::move(more);
    return;
  }
  more = more.contiguous();
  Tensor replaced;
  add_dense(sum, more, replaced);
}

// Adds to a leaf's gradient, which other threads may do at the same time. Nothing is released while the lock is held: a
// user's memory may be released by a function that waits for one of those threads.
void accumulate_in_leaf(GradientRecord& leaf, Tensor gradient) {
  // The leaf keeps the tensor itself where it is uniquely owned, else a copy.
  if (!gradient.is_contiguous()) gradient = gradient.contiguous();
  Tensor replaced;
  const std::lock_guard lock(leaf.mutex);
  if (leaf.sum.defined()) {
    add_dense(leaf.sum, gradient, replaced);
    bump_version(leaf.sum);
  } else {
    leaf.sum = is_uniquely_owned(gradient) ? std::move(gradient) : gradient.clone();
  }
}

}  // namespace

// The leaves of a watch in the order in which a backward pass is through with them.
class CompleteLeaves {
 public:
  // Looks for the uses of the leaves among the operations behind `result`. A null watch: nothing is reported.
  CompleteLeaves(GradientWatch* watch, const GradientRecord& result) : watch_(watch) {
    if (watch == nullptr) return;
    std::unordered_map<const GradientRecord*, std::uint64_t> first_use;  // by the operations' numbers
    for (const GradientRecord* leaf : watch->leaves_) first_use.emplace(leaf, kUnused);
    std::unordered_set<const Node*> seen;
    std::vector<const Node*> behind;
    const auto visit = [&](const GradientRecord& record) {
      if (record.node && seen.insert(record.node.get()).second) behind.push_back(record.node.get());
    };
    visit(result);
    while (!behind.empty()) {
      const Node& node = *behind.back();
      behind.pop_back();
      for (const auto& input : node.inputs) {
        if (!input) continue;
        visit(*input);
        const auto leaf = input->node ? first_use.end() : first_use.find(input.get());
        if (leaf != first_use.end()) leaf->second = std::min(leaf->second, node.sequence);
      }
    }
    for (std::size_t i = 0; i < watch->leaves_.size(); ++i) order_.emplace_back(first_use.at(watch->leaves_[i]), i);
    std::stable_sort(order_.begin(), order_.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  }

  // Reports the leaves that no operation up to `sequence` uses; that is the next operation of the pass.
  void report_before(std::uint64_t sequence) {
    while (reported_ < order_.size() && order_[reported_].first > sequence) {
      watch_->complete_(order_[reported_++].second);
    }
  }
  void report_rest() {
    while (reported_ < order_.size()) watch_->complete_(order_[reported_++].second);
  }

 private:
  static constexpr std::uint64_t kUnused = ~std::uint64_t{0};

  GradientWatch* watch_;
  std::vector<std::pair<std::uint64_t, std::size_t>> order_;  // the first operation that used a leaf, and the leaf
  std::size_t reported_ = 0;
};

namespace {

// The backward pass: gradients of the results whose operations have not run yet.
class Walk {
 public:
  Walk(bool retain_graph, GradientWatch* watch, const GradientRecord& result)
      : retain_graph_(retain_graph), complete_(watch, result) {}

  // Passes a gradient to the operation that made the tensor, or adds it to the leaf's.
  void deliver(GradientRecord& record, Tensor gradient) {
    if (!record.node) return accumulate_in_leaf(record, std::move(gradient));
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
      complete_.report_before(node->sequence);
      step(*node);
    }
    complete_.report_rest();
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
    BackwardCall call;
    Tensors gradients;
    const auto place = pending_.find(&node);
    call.d_outputs = std::move(place->second);
    pending_.erase(place);
    for (const auto& input : node.inputs) {
      call.wanted.push_back(input != nullptr);
      call.sums.push_back(input ? take_pending(*input) : Tensor());
    }
    {
      NodeUse use(node, !retain_graph_);
      gradients = node.backward(call);
      use.finish();
    }
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
  CompleteLeaves complete_;
  std::unordered_map<Node*, Tensors> pending_;
  std::vector<std::shared_ptr<Node>> heap_;
};

}  // namespace

// A long chain of operations would otherwise be destroyed by as many nested calls. The list needs no memory.
Node::~Node() {
  std::shared_ptr<Node> last;
  const auto collect = [&last](Node& node) {
    for (auto& input : node.inputs) {
      if (input && input.use_count() == 1 && input->node && input->node.use_count() == 1) {
        input->node->behind = std::move(last);
        last = std::move(input->node);
      }
    }
    node.inputs.clear();
  };
  collect(*this);
  while (last) {
    const std::shared_ptr<Node> node = std::move(last);
    last = std::move(node->behind);
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

GradientWatch::GradientWatch(const Tensors& leaves, std::function<void(std::size_t)> complete)
    : complete_(std::move(complete)) {
  for (const Tensor& leaf : leaves) leaves_.push_back(TensorImpl::of(leaf).gradient().get());
  watch_of_thread = this;
}

GradientWatch::~GradientWatch() { watch_of_thread = nullptr; }

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
  if (!record) return {};
  const std::lock_guard lock(record->mutex);
  return record->sum;
}

void Tensor::set_grad(const Tensor& gradient) const {
  const auto& record = TensorImpl::of(*this).gradient();
  internal::check(record != nullptr && is_leaf(), "set_grad: ", *this, " is not a leaf that requires a gradient");
  internal::check(!gradient.defined() || (gradient.shape() == shape() && gradient.dtype() == dtype()),
                  "set_grad: the gradient is ", gradient, ", expected ", *this);
  internal::check(!gradient.defined() || gradient.device() == device(), "set_grad: the gradient is on ",
                  gradient.defined() ? gradient.device() : device(), ", expected ", device());
  Tensor replaced = gradient;  // destroyed after the lock is released
  const std::lock_guard lock(record->mutex);
  std::swap(record->sum, replaced);
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
  const auto& record = TensorImpl::of(*this).gradient();
  // A backward pass within this one is not watched.
  internal::Walk walk(retain_graph, std::exchange(internal::watch_of_thread, nullptr), *record);
  walk.deliver(*record, std::move(gradient));
  walk.run();
}

}  // namespace headway::inline v0
