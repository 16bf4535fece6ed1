// Optimizers: their state of each parameter, and one step over all parameters.
#include "headway/optimizer.h"

#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "backend/registry.h"
#include "base/check.h"
#include "core/tensor_impl.h"
#include "headway/autograd.h"
#include "train/optimizer_shares.h"
#include "train/optimizer_state.h"

namespace headway::inline v0 {
namespace internal {

namespace {

constexpr const char* kMaster = "master";  // its name in a state dict

std::int64_t& count_of(const Tensor& tensor) { return *tensor.data<std::int64_t>(); }

void check_not_negative(const char* optimizer, const char* what, double value) {
  check(std::isfinite(value) && value >= 0.0, optimizer, ": ", what, " is ", value, ", expected 0 or more");
}

// Refuses parameters that cannot be trained, or that are listed twice.
class ParameterCheck {
 public:
  explicit ParameterCheck(const char* optimizer) : optimizer_(optimizer) {}

  void operator()(const NamedTensor& parameter) {
    const auto& [name, tensor] = parameter;
    check(tensor.defined(), optimizer_, ": parameter \"", name, "\" is undefined");
    check(tensor.is_leaf(), optimizer_, ": parameter \"", name, "\" (", tensor,
          ") is the result of an operation, expected a leaf");
    check(tensor.requires_grad(), optimizer_, ": parameter \"", name, "\" (", tensor, ") does not require a gradient");
    check(tensor.is_contiguous(), optimizer_, ": parameter \"", name, "\" (", tensor, ") has strides ",
          tensor.strides(), ", expected dense memory");
    check(!tensor.is_read_only(), optimizer_, ": parameter \"", name, "\" (", tensor,
          ") is a view of constant memory, expected one that steps can change");
    if (!device_) device_ = tensor.device();
    check(tensor.device() == *device_, optimizer_, ": parameter \"", name, "\" (", tensor, ") is on ", tensor.device(),
          " and those before it on ", *device_, ", expected one device");
    check(names_.insert(name).second, optimizer_, ": there are two parameters named \"", name, "\"");
    check(tensors_.insert(&TensorImpl::of(tensor)).second, optimizer_, ": parameter \"", name, "\" comes twice");
  }

 private:
  const char* optimizer_;
  std::optional<Device> device_;  // of the first parameter
  std::set<std::string> names_;
  std::set<const TensorImpl*> tensors_;
};

DType state_dtype(const Slot& slot) {
  return slot.parameter.dtype() == DType::float64 ? DType::float64 : DType::float32;
}

// The own elements of a slot as a step sees them.
ParameterSpan span_of(const Slot& slot, const Tensor& gradient) {
  const std::size_t skipped = static_cast<std::size_t>(slot.own.begin) * item_size(slot.parameter.dtype());
  const auto moment = [&slot](std::size_t i) { return i < slot.moments.size() ? slot.moments[i].raw_data() : nullptr; };
  return {.value = static_cast<std::byte*>(slot.parameter.raw_data()) + skipped,
          .master = slot.master.defined() ? static_cast<float*>(slot.master.raw_data()) : nullptr,
          .gradient = gradient.raw_data(),
          .first = moment(0),
          .second = moment(1),
          .largest = moment(2),
          .count = slot.own.count,
          .step = count_of(slot.steps),
          .dtype = slot.parameter.dtype()};
}

// The parameters of a module that require gradients.
std::vector<ParameterGroup> trainable_of(const Module& module) {
  ParameterGroup group;
  for (NamedTensor& parameter : module.named_parameters()) {
    check(parameter.tensor.dtype() != DType::int8, "optimizer: \"", parameter.name, "\" is ", parameter.tensor,
          ", and a module with weights in 8 bits cannot be trained");
    if (parameter.tensor.requires_grad()) group.parameters.push_back(std::move(parameter));
  }
  return {std::move(group)};
}

}  // namespace
}  // namespace internal

Optimizer::State::State(std::vector<ParameterGroup> given, internal::Rule how)
    : rule(std::move(how)), learning_rate(rule.learning_rate) {
  internal::check_not_negative(rule.name, "learning_rate", rule.learning_rate);
  internal::check_not_negative(rule.name, "weight_decay", rule.weight_decay);
  internal::ParameterCheck check_parameter(rule.name);
  for (ParameterGroup& from : given) {
    internal::Group& group = groups.emplace_back();
    group.weight_decay = from.weight_decay.value_or(rule.weight_decay);
    group.learning_rate_factor = from.learning_rate_factor;
    internal::check_not_negative(rule.name, "weight_decay of a group", group.weight_decay);
    internal::check_not_negative(rule.name, "learning_rate_factor of a group", group.learning_rate_factor);
    for (NamedTensor& parameter : from.parameters) {
      check_parameter(parameter);
      group.slots.push_back({.parameter = parameter.tensor,
                             .own = {.begin = 0, .count = parameter.tensor.element_count()},
                             .master = {},
                             .moments = {},
                             .steps = Tensor::zeros({}, DType::int64)});
      parameters.push_back(std::move(parameter));
    }
  }
  internal::check(!parameters.empty(), rule.name, ": there is no parameter that requires a gradient");
}

void Optimizer::State::allocate() {
  if (allocated) return;
  const NoGradGuard guard;
  for_each_slot([this](std::size_t, internal::Slot& slot) {
    const DType dtype = internal::state_dtype(slot);
    const Shape shape = shares ? Shape{slot.own.count} : slot.parameter.shape();
    if (rule.master_weights && item_size(slot.parameter.dtype()) < item_size(dtype)) {
      slot.master = internal::elements(slot.parameter, slot.own).to(dtype).view(shape);
    }
    for (std::size_t i = 0; i < rule.moments.size(); ++i) {
      slot.moments.push_back(Tensor::zeros(shape, dtype, slot.parameter.device()));
    }
  });
  allocated = true;
}

void Optimizer::State::step(const std::vector<Tensor>& gradients, double gradient_factor) {
  internal::check(std::isfinite(gradient_factor), rule.name, ": gradient_factor is ", gradient_factor,
                  ", expected a finite number");
  const NoGradGuard guard;
  allocate();
  internal::Backend& backend = internal::backend_of(parameters.front().tensor);
  std::size_t number = 0;
  for (internal::Group& group : groups) {
    std::vector<internal::ParameterSpan> spans;
    for (internal::Slot& slot : group.slots) {
      const Tensor& gradient = gradients[number++];
      if (!gradient.defined()) continue;
      ++internal::count_of(slot.steps);
      spans.push_back(internal::span_of(slot, gradient));
      internal::bump_version(slot.parameter);
    }
    if (spans.empty()) continue;
    rule.step(backend, spans,
              {.learning_rate = learning_rate * group.learning_rate_factor,
               .weight_decay = group.weight_decay,
               .gradient_factor = gradient_factor});
  }
  ++internal::count_of(steps);
}

// ---- Optimizer ----

Optimizer::Optimizer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Optimizer::~Optimizer() = default;

void Optimizer::step(double gradient_factor) {
  internal::check(!state_->shares, state_->rule.name, ": step: the state is shared out over ranks, expected train()");
  std::vector<Tensor> gradients;
  for (const NamedTensor& parameter : state_->parameters) {
    const Tensor gradient = parameter.tensor.grad();
    gradients.push_back(gradient.defined() ? gradient.contiguous() : gradient);
  }
  state_->step(gradients, gradient_factor);
}

void Optimizer::zero_grad() const {
  for (const NamedTensor& parameter : state_->parameters) {
    if (parameter.tensor.requires_grad()) parameter.tensor.set_grad(Tensor());
  }
}

double Optimizer::learning_rate() const { return state_->learning_rate; }

void Optimizer::set_learning_rate(double rate) {
  internal::check_not_negative(state_->rule.name, "learning_rate", rate);
  state_->learning_rate = rate;
}

std::int64_t Optimizer::steps() const { return internal::count_of(state_->steps); }

const std::vector<NamedTensor>& Optimizer::parameters() const { return state_->parameters; }

StateDict Optimizer::master_weights() const {
  state_->allocate();
  std::vector<internal::StateEntry> masters;
  StateDict weights;
  state_->for_each_slot([&](std::size_t number, const internal::Slot& slot) {
    const std::string& name = state_->parameters[number].name;
    if (slot.master.defined()) {
      masters.push_back({.name = name, .here = slot.master, .shape = slot.parameter.shape(), .parameter = number});
    } else {
      weights.emplace(name, slot.parameter.detach());
    }
  });
  weights.merge(internal::whole_state(*this, masters));
  return weights;
}

void Optimizer::load_master_weights(const StateDict& weights) {
  for (const auto& [name, parameter] : state_->parameters) {
    const auto given = weights.find(name);
    internal::check(given != weights.end(), state_->rule.name, ": load_master_weights: \"", name,
                    "\" is missing, expected ", parameter);
    const Tensor& value = given->second;
    internal::check(value.defined() && value.shape() == parameter.shape() && is_floating(value.dtype()),
                    state_->rule.name, ": load_master_weights: \"", name, "\" is ",
                    value.defined() ? value.describe() : std::string("undefined"), ", expected ", parameter);
  }
  const NoGradGuard guard;
  state_->allocate();
  state_->for_each_slot([&](std::size_t number, internal::Slot& slot) {
    const auto& [name, parameter] = state_->parameters[number];
    Tensor value = weights.at(name);
    if (slot.master.defined()) {
      value = value.to(slot.master.dtype());  // the parameter is the rounded master
      internal::elements(slot.master).copy_from(internal::elements(value, slot.own));
    }
    Tensor(parameter).copy_from(value);
  });
}

StateDict Optimizer::state_dict() const { return internal::whole_state(*this, internal::state_entries(*this)); }

void Optimizer::load_state_dict(const StateDict& values) {
  using internal::check;
  const char* name = state_->rule.name;
  const std::vector<internal::StateEntry> entries = internal::state_entries(*this);
  std::set<std::string> own;
  for (const internal::StateEntry& entry : entries) {
    const std::string& key = *own.insert(entry.name).first;
    const Tensor expected = internal::shape_of(entry);
    const auto given = values.find(key);
    check(given != values.end(), name, ": load_state_dict: \"", key, "\" is missing, expected ", expected);
    const Tensor& value = given->second;
    const bool counts = !is_floating(expected.dtype());
    check(value.defined() && value.shape() == expected.shape() && is_floating(value.dtype()) != counts, name,
          ": load_state_dict: \"", key, "\" is ", value.defined() ? value.describe() : std::string("undefined"),
          ", expected ", expected);
    check(!counts || value.item() >= 0.0, name, ": load_state_dict: \"", key, "\" is ",
          value.element_count() == 1 ? value.item() : 0.0, ", expected 0 or more");
  }
  for (const auto& [key, tensor] : values) {
    check(own.contains(key), name, ": load_state_dict: \"", key, "\" is none of the optimizer's");
  }
  const NoGradGuard guard;
  for (const internal::StateEntry& entry : entries) {
    const internal::ElementRange own = internal::own_range(*this, entry);
    internal::elements(entry.here).copy_from(internal::elements(values.at(entry.name), own));
  }
}

// ---- Sgd, Adam, AdamW ----

namespace internal {
namespace {

Rule sgd_rule(const SgdOptions& options) {
  check_not_negative("Sgd", "momentum", options.momentum);
  check(std::isfinite(options.dampening), "Sgd: dampening is ", options.dampening, ", expected a finite number");
  check(!options.nesterov || (options.momentum > 0.0 && options.dampening == 0.0), "Sgd: nesterov with momentum ",
        options.momentum, " and dampening ", options.dampening, ", expected a momentum and no dampening");
  Rule rule{.name = "Sgd",
            .learning_rate = options.learning_rate,
            .weight_decay = options.weight_decay,
            .master_weights = options.master_weights};
  rule.settings = join_parts("Sgd: momentum ", options.momentum, ", dampening ", options.dampening, ", nesterov ",
                             options.nesterov, ", master_weights ", options.master_weights);
  if (options.momentum > 0.0) rule.moments = {"momentum_buffer"};
  rule.step = [options](Backend& backend, Spans spans, const GroupStep& group) {
    backend.sgd(spans, {.learning_rate = group.learning_rate,
                        .momentum = options.momentum,
                        .dampening = options.dampening,
                        .weight_decay = group.weight_decay,
                        .nesterov = options.nesterov,
                        .gradient_factor = group.gradient_factor});
  };
  return rule;
}

Rule adam_rule(const AdamOptions& options, WeightDecay decay) {
  const bool decoupled = decay == WeightDecay::decoupled;
  constexpr double kDecoupledDefault = 0.01;  // torch's
  Rule rule{.name = decoupled ? "AdamW" : "Adam", .learning_rate = options.learning_rate};
  rule.weight_decay = options.weight_decay.value_or(decoupled ? kDecoupledDefault : 0.0);
  rule.master_weights = options.master_weights;
  check(options.beta1 >= 0.0 && options.beta1 < 1.0, rule.name, ": beta1 is ", options.beta1,
        ", expected 0 to below 1");
  check(options.beta2 >= 0.0 && options.beta2 < 1.0, rule.name, ": beta2 is ", options.beta2,
        ", expected 0 to below 1");
  check_not_negative(rule.name, "epsilon", options.epsilon);
  rule.settings =
      join_parts(rule.name, ": beta1 ", options.beta1, ", beta2 ", options.beta2, ", epsilon ", options.epsilon,
                 ", amsgrad ", options.amsgrad, ", master_weights ", options.master_weights);
  rule.moments = {"exp_avg", "exp_avg_sq"};
  if (options.amsgrad) rule.moments.push_back("max_exp_avg_sq");
  rule.step = [options, decay](Backend& backend, Spans spans, const GroupStep& group) {
    backend.adam(spans, {.learning_rate = group.learning_rate,
                         .beta1 = options.beta1,
                         .beta2 = options.beta2,
                         .epsilon = options.epsilon,
                         .weight_decay = group.weight_decay,
                         .decay = decay,
                         .gradient_factor = group.gradient_factor});
  };
  return rule;
}

}  // namespace
}  // namespace internal

Sgd::Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options)
    : Optimizer(std::make_unique<State>(std::move(groups), internal::sgd_rule(options))) {}
Sgd::Sgd(const Module& module, const SgdOptions& options) : Sgd(internal::trainable_of(module), options) {}

Adam::Adam(std::vector<ParameterGroup> groups, const AdamOptions& options)
    : Optimizer(
          std::make_unique<State>(std::move(groups), internal::adam_rule(options, internal::WeightDecay::added))) {}
Adam::Adam(const Module& module, const AdamOptions& options) : Adam(internal::trainable_of(module), options) {}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamOptions& options)
    : Optimizer(
          std::make_unique<State>(std::move(groups), internal::adam_rule(options, internal::WeightDecay::decoupled))) {}
AdamW::AdamW(const Module& module, const AdamOptions& options) : AdamW(internal::trainable_of(module), options) {}

}  // namespace headway::inline v0
