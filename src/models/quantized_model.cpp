#include "models/quantized_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/check.h"
#include "headway/autograd.h"
#include "models/tensor_problems.h"
#include "ops/quantized.h"

namespace headway::inline v0::internal {
namespace {

constexpr const char* kScale = "_scale";  // follows a weight's name

// Follows the files where they differ from the config in what is harmless.
void adapt(const ModelFiles& files, bool new_head, ModelPlan& plan) {
  TransformerModelOptions& options = plan.options;
  const std::vector<std::string> names = files.names();
  const bool has_head =
      std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.starts_with("head."); });
  if (!new_head && options.kind == ModelKind::encoder && options.head.kind != HeadKind::none && !has_head) {
    options = plan.family->read(plan.config, HeadKind::none);
  }
  if (options.head.kind == HeadKind::none && !files.contains("pooler.weight")) options.pooler = false;
  if (!new_head && files.contains("head.output.weight")) options.head.tied = false;
}

bool may_lack(const std::string& name, bool new_head, const TransformerModelOptions& options) {
  if (name == "head.output.bias" && !options.head.trained_bias) return true;
  return new_head && name.starts_with("pooler.");
}

// The contents of a weight in 8 bits, whose shapes were checked.
void check_numbers(const std::string& where, const std::string& name, const QuantizedWeight& weight) {
  for (std::int64_t row = 0; row < weight.scales.size(0); ++row) {
    const float scale = weight.scales.data<float>()[row];
    check(std::isfinite(scale) && scale >= 0, where, ": tensor ", name, kScale, " has ", scale, " at [", row,
          "], expected finite numbers of at least 0");
  }
  const auto count = static_cast<std::size_t>(weight.values.element_count());
  check(count == 0 || std::memchr(weight.values.raw_data(), 0x80, count) == nullptr, where, ": tensor ", name,
        " has -128, expected -127 to 127");
}

Tensor own_memory(const Tensor& tensor, bool mapped) {
  return !mapped && tensor.is_read_only() ? tensor.clone() : tensor;
}

}  // namespace

std::map<std::string, Tensor> read_quantized(const std::string& where, const ModelFiles& files, bool new_head,
                                             ModelPlan& plan) {
  adapt(files, new_head, plan);
  const TransformerModelOptions& options = plan.options;
  TensorProblems problems;
  std::map<std::string, Tensor> found;
  for (const auto& [name, shape] : parameter_shapes(options)) {
    if (new_head && name.starts_with("head.")) continue;
    if (!files.contains(name)) {
      if (!may_lack(name, new_head, options)) problems.missing(name, shape);
      continue;
    }
    const Tensor tensor = files.get(name);
    const bool quantized = tensor.dtype() == DType::int8 && shape.rank() == 2;
    if (tensor.shape() != shape || !(quantized || is_floating(tensor.dtype()))) {
      problems.wrong(name, tensor, (shape.rank() == 2 ? "int8 or floats " : "floats ") + shape.to_string());
      continue;
    }
    found[name] = tensor;
    if (!quantized) continue;
    const Shape rows = {shape[0]};
    const Tensor scales = files.contains(name + kScale) ? files.get(name + kScale) : Tensor();
    if (!scales.defined()) {
      problems.missing(name + kScale, rows);
    } else if (scales.shape() != rows || scales.dtype() != DType::float32) {
      problems.wrong(name + kScale, scales, "float32 " + rows.to_string());
    } else {
      check_numbers(where, name, {tensor, scales});
    }
    found[name + kScale] = scales;
  }
  const bool drops_head = new_head || options.head.kind == HeadKind::none;
  for (const std::string& name : files.names()) {
    const bool ignored = (drops_head && name.starts_with("head.")) || (!options.pooler && name.starts_with("pooler."));
    if (!found.contains(name) && !ignored) problems.unexpected(name, files.get(name));
  }
  problems.check_none(where);
  return found;
}

bool is_quantized(const TransformerModel& model) {
  const StateDict state = model.state_dict();
  return std::any_of(state.begin(), state.end(), [](const auto& entry) { return entry.second.dtype() == DType::int8; });
}

void set_parameters(const TransformerModel& model, const std::map<std::string, Tensor>& values, bool mapped) {
  const NoGradGuard guard;
  const bool trainable = !is_quantized(model);
  StateDict buffers;
  for (const auto& [name, target] : model.state_dict()) {
    if (name.ends_with(kScale)) continue;  // set with its weight
    QuantizedWeight weight = {values.at(name), {}};
    if (weight.values.dtype() == DType::int8) weight.scales = values.at(name + kScale);
    if (target.dtype() == DType::int8) {
      if (!weight.scales.defined()) weight = quantize_weight(weight.values);
      model.set_parameter(name, own_memory(weight.values, mapped));
      buffers[name + kScale] = weight.scales;
      continue;
    }
    const Tensor value =
        weight.scales.defined() ? dequantize_weight(weight, target.dtype()) : weight.values.to(target.dtype());
    if (name == "head.output.bias" && !model.options().head.trained_bias) {
      buffers[name] = value;
    } else {
      model.set_parameter(name, own_memory(value, mapped).detach().set_requires_grad(trainable));
    }
  }
  model.load_state_dict(buffers, /*strict=*/false);
}

void check_saved_dtype(const char* function, DType dtype, bool quantized) {
  check(dtype != DType::int8 || quantized, function, ": dtype is ", dtype,
        ", expected a floating one: the model was not loaded with ", DType::int8);
  check(is_floating(dtype) || dtype == DType::int8, function, ": dtype is ", dtype, ", expected a floating one");
}

StateDict state_as(const TransformerModel& model, std::optional<DType> dtype) {
  StateDict state = model.state_dict();
  if (!dtype || *dtype == DType::int8) return state;
  StateDict converted;
  for (const auto& [name, tensor] : state) {
    if (tensor.dtype() == DType::int8) {
      converted[name] = dequantize_weight({tensor, state.at(name + kScale)}, *dtype);
    } else {
      converted[name] = tensor.to(*dtype);
    }
  }
  return converted;
}

}  // namespace headway::inline v0::internal
