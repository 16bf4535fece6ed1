#include "headway/module.h"

#include <algorithm>

#include "base/check.h"
#include "headway/autograd.h"

namespace headway::inline v0 {

using internal::check;

namespace internal {
namespace {

// Problems of one kind; messages show the first of them.
class ProblemList {
 public:
  explicit ProblemList(const char* kind) : kind_(kind) {}

  void add(const std::string& problem) {
    if (++count_ <= kShown) text_ += (count_ == 1 ? "" : "; ") + problem;
  }
  // The problems after those of another list.
  std::string after(const std::string& others) const {
    if (count_ == 0) return others;
    std::string all = others + (others.empty() ? "" : "; ") + text_;
    if (count_ > kShown) all += "; and " + std::to_string(count_ - kShown) + " more " + kind_;
    return all;
  }

 private:
  static constexpr int kShown = 20;
  const char* kind_;
  int count_ = 0;
  std::string text_;
};

// Weights in 8 bits mix with no other kind of numbers.
bool is_one_kind(DType a, DType b) {
  return is_floating(a) == is_floating(b) && (a == DType::int8) == (b == DType::int8);
}

// Throws an Error that lists all mismatches of `values` with the module's state `own`.
void check_state(const StateDict& own, const StateDict& values, bool strict) {
  ProblemList missing("are missing"), wrong("do not fit"), unexpected("are none of the module's");
  for (const auto& [name, tensor] : own) {
    const auto given = values.find(name);
    if (given == values.end()) {
      if (strict) missing.add('"' + name + "\" is missing, expected " + tensor.describe());
      continue;
    }
    const Tensor& value = given->second;
    const bool fits = value.defined() && value.shape() == tensor.shape() && is_one_kind(value.dtype(), tensor.dtype());
    if (!fits) wrong.add('"' + name + "\" is " + value.describe() + ", expected " + tensor.describe());
  }
  for (const auto& [name, tensor] : values) {
    if (strict && !own.contains(name)) {
      unexpected.add('"' + name + "\" (" + tensor.describe() + ") is none of the module's");
    }
  }
  const std::string problems = unexpected.after(wrong.after(missing.after("")));
  check(problems.empty(), "load_state_dict: ", problems);
}

void check_not_quantized(const std::string& name, const Tensor& tensor, const char* what) {
  check(!tensor.defined() || tensor.dtype() != DType::int8, "module: \"", name, "\" is ", tensor,
        ", and a module with weights in 8 bits cannot be ", what);
}

}  // namespace
}  // namespace internal

// ---- Parameter ----

Parameter::Parameter(const Tensor& value) : slot_(std::make_shared<Tensor>(value)) {}

const Tensor& Parameter::get() const {
  static const auto* const none = new Tensor();  // never destroyed, for threads that compute to the end
  return slot_ ? *slot_ : *none;
}

void Parameter::set(const Tensor& value) const {
  check(defined(), "parameter: there is none to set");
  *slot_ = value;
}

// ---- Module ----

struct Module::State {
  struct Entry {
    std::string name;
    Parameter parameter;
    bool is_buffer = false;
  };
  std::vector<Entry> entries;
  std::vector<std::pair<std::string, Module>> modules;
  bool training = true;

  bool has(const std::string& name) const {
    const auto is_it = [&](const auto& entry) { return entry.name == name; };
    const auto is_module = [&](const auto& entry) { return entry.first == name; };
    return std::any_of(entries.begin(), entries.end(), is_it) || std::any_of(modules.begin(), modules.end(), is_module);
  }

  // Calls visit(full name, entry) for this module's entries and those of inner modules.
  template <typename Visit>
  void for_each(const std::string& prefix, const Visit& visit) const {
    for (const Entry& entry : entries) visit(prefix + entry.name, entry);
    for (const auto& [name, module] : modules) module.state_->for_each(prefix + name + ".", visit);
  }
};

Module::Module() : state_(std::make_shared<State>()) {}

Parameter Module::add_parameter(const std::string& name, const Tensor& value) {
  if (!value.defined()) return Parameter();
  const Parameter parameter(value.detach().set_requires_grad());
  add_parameter(name, parameter);
  return parameter;
}

void Module::add_parameter(const std::string& name, const Parameter& shared) {
  check(shared.defined(), "module: the parameter to share as \"", name, "\" is not there");
  check(!state_->has(name), "module: there is a \"", name, "\" already");
  state_->entries.push_back({.name = name, .parameter = shared});
}

Parameter Module::add_buffer(const std::string& name, const Tensor& value) {
  check(!state_->has(name), "module: there is a \"", name, "\" already");
  const Parameter buffer(value);
  state_->entries.push_back({.name = name, .parameter = buffer, .is_buffer = true});
  return buffer;
}

void Module::add_module(const std::string& name, const Module& module) {
  check(!state_->has(name), "module: there is a \"", name, "\" already");
  state_->modules.emplace_back(name, module);
}

std::vector<NamedTensor> Module::named_parameters() const {
  std::vector<NamedTensor> found;
  std::vector<Parameter> seen;
  state_->for_each("", [&](const std::string& name, const State::Entry& entry) {
    const auto is_tied = [&](const Parameter& other) { return other.is_tied_to(entry.parameter); };
    if (entry.is_buffer || std::any_of(seen.begin(), seen.end(), is_tied)) return;
    seen.push_back(entry.parameter);
    found.push_back({name, entry.parameter.get()});
  });
  return found;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> tensors;
  for (const NamedTensor& parameter : named_parameters()) tensors.push_back(parameter.tensor);
  return tensors;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& tensor : parameters()) count += tensor.element_count();
  return count;
}

StateDict Module::state_dict() const {
  StateDict state;
  state_->for_each("", [&](const std::string& name, const State::Entry& entry) {
    state.emplace(name, entry.parameter.get().detach());
  });
  return state;
}

void Module::load_state_dict(const StateDict& values, bool strict) const {
  const StateDict own = state_dict();
  internal::check_state(own, values, strict);
  const NoGradGuard guard;
  for (const auto& [name, tensor] : own) {
    const auto given = values.find(name);
    if (given != values.end()) Tensor(tensor).copy_from(given->second);
  }
}

void Module::set_parameter(const std::string& name, const Tensor& value) const {
  bool found = false;
  state_->for_each("", [&](const std::string& own, const State::Entry& entry) {
    if (own != name || entry.is_buffer) return;
    const Tensor& tensor = entry.parameter.get();
    check(value.defined() && value.shape() == tensor.shape() && internal::is_one_kind(value.dtype(), tensor.dtype()),
          "set_parameter: \"", name, "\" would be ", value, ", expected ", tensor);
    entry.parameter.set(value);
    found = true;
  });
  check(found, "set_parameter: the module has no parameter \"", name, "\"");
}

void Module::train(bool on) const {
  state_->training = on;
  for (const auto& [name, module] : state_->modules) module.train(on);
}

bool Module::is_training() const { return state_->training; }

void Module::to(DType dtype) const {
  check(is_floating(dtype), "to: a module cannot be ", dtype, ", expected a floating dtype");
  const NoGradGuard guard;
  state_->for_each("", [&](const std::string& name, const State::Entry& entry) {
    internal::check_not_quantized(name, entry.parameter.get(), "converted to another dtype");
  });
  state_->for_each("", [&](const std::string&, const State::Entry& entry) {
    const Tensor& tensor = entry.parameter.get();
    if (!is_floating(tensor.dtype()) || tensor.dtype() == dtype) return;
    Tensor converted = tensor.to(dtype);
    if (tensor.requires_grad()) converted.set_requires_grad();
    entry.parameter.set(converted);
  });
}

void Module::to(Device device) const {
  const NoGradGuard guard;
  state_->for_each("", [&](const std::string& name, const State::Entry& entry) {
    if (!device.is_cpu()) internal::check_not_quantized(name, entry.parameter.get(), "moved to a GPU");
  });
  state_->for_each("", [&](const std::string&, const State::Entry& entry) {
    const Tensor& tensor = entry.parameter.get();
    if (!tensor.defined() || tensor.device() == device) return;
    Tensor moved = tensor.to(device);
    if (tensor.requires_grad()) moved.set_requires_grad();
    entry.parameter.set(moved);
  });
}

void Module::set_requires_grad(bool wanted) const {
  const std::vector<NamedTensor> all = named_parameters();
  for (const auto& [name, tensor] : all) {
    if (wanted) internal::check_not_quantized(name, tensor, "trained");
  }
  for (const NamedTensor& parameter : all) Tensor(parameter.tensor).set_requires_grad(wanted);
}

void Module::zero_grad() const {
  for (const Tensor& tensor : parameters()) {
    if (tensor.requires_grad()) tensor.set_grad(Tensor());
  }
}

std::vector<std::pair<std::string, Module>> Module::children() const { return state_->modules; }

}  // namespace headway::inline v0
