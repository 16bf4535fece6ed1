// What modules share whose weight may be in 8 bits.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/internal_api.h"
#include "ops/quantized.h"

namespace headway::inline v0::internal {

// What a module with a weight of this dtype computes in.
inline DType computing_dtype(DType dtype) { return dtype == DType::int8 ? DType::float32 : dtype; }

// An initial weight [outputs, inputs] in 8 bits; uninitialised memory where initial values are skipped.
HEADWAY_INTERNAL_API QuantizedWeight initial_quantized(const Tensor& weight);

// Products with a weight in 8 bits, which is packed at the first one, and again where it or its bias has changed. May
// be called from several threads at once.
class QuantizedProduct {
 public:
  // What linear_step() returns: x [..., inputs] float32, of which no gradient is wanted -> [..., outputs].
  HEADWAY_INTERNAL_API Tensor forward(const Tensor& x, const QuantizedWeight& weight, const Tensor& bias,
                                      const LinearStepOptions& options = {});

 private:
  struct Packed;
  std::shared_ptr<const Packed> packed(const QuantizedWeight& weight, const Tensor& bias);

  std::mutex mutex_;
  std::shared_ptr<const Packed> packed_;
};

// Rows of a weight in 8 bits: indices [...] -> [..., inputs] float32.
Tensor quantized_rows(const QuantizedWeight& weight, const Tensor& indices);

}  // namespace headway::inline v0::internal
