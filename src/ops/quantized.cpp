#include "ops/quantized.h"

#include <algorithm>
#include <cmath>

#include "backend/registry.h"
#include "base/check.h"
#include "core/thread_pool.h"
#include "headway/ops.h"

namespace headway::inline v0::internal {
namespace {

// Row `row` of x [outputs, inputs] as whole numbers; returns its scale.
float quantize_row(const Tensor& x, std::int64_t row, std::int8_t* values) {
  const std::int64_t inputs = x.size(1);
  const float* from = x.data<float>() + row * inputs;
  float greatest = 0;
  for (std::int64_t i = 0; i < inputs; ++i) {
    check(std::isfinite(from[i]), "quantize_weight: weight has ", from[i], " at [", row, ", ", i,
          "], expected finite numbers");
    greatest = std::max(greatest, std::fabs(from[i]));
  }
  const float scale = greatest / 127;
  for (std::int64_t i = 0; i < inputs; ++i) {
    const float whole = scale > 0 ? std::nearbyint(from[i] / scale) : 0;
    values[i] = static_cast<std::int8_t>(std::clamp(whole, -127.0F, 127.0F));
  }
  return scale;
}

}  // namespace

void check_quantized(const char* function, const QuantizedWeight& weight) {
  const Tensor &values = weight.values, &scales = weight.scales;
  check(values.defined() && values.rank() == 2 && values.dtype() == DType::int8, function, ": values is ", values,
        ", expected int8[outputs, inputs]");
  check(scales.defined() && scales.dtype() == DType::float32 && scales.shape() == Shape{values.size(0)}, function,
        ": scales is ", scales, ", expected ", DType::float32, Shape{values.size(0)});
  check(values.device().is_cpu() && scales.device().is_cpu(), function, ": values is ", values, " on ", values.device(),
        " and scales on ", scales.device(), ", expected both on the CPU");
}

QuantizedWeight quantize_weight(const Tensor& weight) {
  check(weight.defined() && weight.rank() == 2 && is_floating(weight.dtype()) && weight.device().is_cpu(),
        "quantize_weight: weight is ", weight, ", expected a floating tensor [outputs, inputs] on the CPU");
  const Tensor x = weight.detach().to(DType::float32).contiguous();
  const std::int64_t outputs = x.size(0), inputs = x.size(1);
  const QuantizedWeight result = {Tensor::empty({outputs, inputs}, DType::int8), Tensor::empty({outputs})};
  parallel_for(outputs, [&](std::int64_t row, int) {
    result.scales.data<float>()[row] = quantize_row(x, row, result.values.data<std::int8_t>() + row * inputs);
  });
  return result;
}

Tensor dequantize_weight(const QuantizedWeight& weight, DType dtype) {
  check_quantized("dequantize_weight", weight);
  return mul(weight.values.to(DType::float32), weight.scales.unsqueeze(1)).to(dtype);
}

Tensor embed_step(const QuantizedWeight& weight, const Tensor& tokens, const Tensor& positions, const Tensor& position,
                  double scale) {
  constexpr const char* kName = "embed_step";
  check_quantized(kName, weight);
  check(tokens.defined() && tokens.rank() == 1 && tokens.dtype() == DType::int64 && tokens.is_contiguous(), kName,
        ": tokens is ", tokens, ", expected contiguous int64[rows]");
  const std::int64_t rows = tokens.size(0), features = weight.values.size(1);
  if (positions.defined()) {
    check(positions.rank() == 2 && positions.dtype() == DType::float32 && positions.size(1) == features &&
              positions.is_contiguous(),
          kName, ": positions is ", positions, ", expected contiguous float32[length, ", features, "]");
    check(position.defined() && position.shape() == Shape{rows} && position.dtype() == DType::int64 &&
              position.is_contiguous(),
          kName, ": position is ", position, ", expected contiguous int64", Shape{rows});
  }
  const Tensor result = Tensor::empty({rows, features});
  backend_of(result).embed_step({.weight = weight.values.contiguous(),
                                 .scales = weight.scales.contiguous(),
                                 .tokens = tokens,
                                 .positions = positions,
                                 .position = positions.defined() ? position : Tensor(),
                                 .scale = scale,
                                 .result = result});
  return result;
}

PackedWeight pack_weight(const QuantizedWeight& weight, const Tensor& bias) {
  constexpr const char* kName = "pack_weight";
  check_quantized(kName, weight);
  const std::int64_t outputs = weight.values.size(0), inputs = weight.values.size(1);
  check(inputs <= kMostQuantizedInputs, kName, ": values is ", weight.values, ", expected at most ",
        kMostQuantizedInputs, " inputs, whose products fit into sums of 32 bits");
  check(!bias.defined() || (bias.dtype() == DType::float32 && bias.shape() == Shape{outputs} && bias.is_contiguous()),
        kName, ": bias is ", bias, ", expected contiguous ", DType::float32, Shape{outputs});
  PackedWeight result = {.outputs = outputs, .inputs = inputs};
  if (bias.defined()) result.bias = bias.detach();
  result.scales = weight.scales.contiguous();
  result.packed = backend_of(weight.values).pack_weight(weight.values.contiguous());
  return result;
}

}  // namespace headway::inline v0::internal
