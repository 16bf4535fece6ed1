// Weights in 8 bits: whole numbers from -127 to 127, every row with a scale of its own. On the CPU alone, without
// gradients.
#pragma once

#include "base/internal_api.h"
#include "headway/tensor.h"
#include "ops/decoding.h"

namespace headway::inline v0::internal {

// values * scales of their rows.
struct QuantizedWeight {
  Tensor values = {};  // [outputs, inputs] int8
  Tensor scales = {};  // [outputs] float32, finite, at least 0
};

// A row's scale is its greatest absolute value / 127, and its values are those nearest to weight / scale, of two
// equally near ones the even one. weight [outputs, inputs], floating and finite.
HEADWAY_INTERNAL_API QuantizedWeight quantize_weight(const Tensor& weight);

// values * scales: [outputs, inputs] of a floating dtype.
HEADWAY_INTERNAL_API Tensor dequantize_weight(const QuantizedWeight& weight, DType dtype = DType::float32);

// For linear_step() with x of float32, which quantizes each row of x as it comes. Bias: [outputs] float32 or undefined.
HEADWAY_INTERNAL_API PackedWeight pack_weight(const QuantizedWeight& weight, const Tensor& bias);

// embed_step() of a weight in 8 bits, with positions of float32 -> [rows, features] float32.
HEADWAY_INTERNAL_API Tensor embed_step(const QuantizedWeight& weight, const Tensor& tokens, const Tensor& positions,
                                       const Tensor& position, double scale = 1.0);

// Throws unless the values and scales fit together; `function` begins the message.
void check_quantized(const char* function, const QuantizedWeight& weight);

}  // namespace headway::inline v0::internal
