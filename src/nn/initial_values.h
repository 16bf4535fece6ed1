// Initial values of parameters: the distributions of torch.nn, from the process's stream of seeds.
#pragma once

#include "base/internal_api.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

// While a guard exists, parameters that this thread makes are uninitialised memory that is never written: for models
// whose parameters come from a file, or get other initial values.
class SkipInitialValues {
 public:
  SkipInitialValues() : previous_(set_skipping(true)) {}
  ~SkipInitialValues() { set_skipping(previous_); }
  SkipInitialValues(const SkipInitialValues&) = delete;
  SkipInitialValues& operator=(const SkipInitialValues&) = delete;

 private:
  // Returns what was set before.
  HEADWAY_INTERNAL_API static bool set_skipping(bool on);

  bool previous_;
};

// Whether such a guard exists.
bool skips_initial_values();

// The same number everywhere.
HEADWAY_INTERNAL_API Tensor constant(const Shape& shape, double value, DType dtype);

// Uniform in +-sqrt(6 / (fan_in + fan_out)), for a matrix [fan_out, fan_in].
Tensor xavier_uniform(const Shape& shape, DType dtype);

// Normal with variance 2 / (fan_in + fan_out), for a tensor [.., fan_out, fan_in] as torch counts it.
Tensor xavier_normal(const Shape& shape, DType dtype);

// Uniform in +-1 / sqrt(fan_in): what torch's Linear starts with, weight and bias.
HEADWAY_INTERNAL_API Tensor fan_in_uniform(const Shape& shape, std::int64_t fan_in, DType dtype);

// Standard normal.
Tensor normal(const Shape& shape, DType dtype);

}  // namespace headway::inline v0::internal
