// Inputs and results of the optimizer kernels.
#pragma once

#include <cstdint>

#include "headway/dtype.h"

namespace headway::inline v0::internal {

// In all tasks: `count` neighbouring elements. Values and gradients are of `dtype`; the state is float64 for float64
// and float32 for the others. `master` is that of backend/optimizer_tasks.h: where there is one, a step updates it, and
// the value is the rounded master.

struct SgdTask {
  DType dtype = DType::float32;
  std::int64_t count = 0;
  void* value = nullptr;
  float* master = nullptr;  // of 16-bit values; null: none
  const void* gradient = nullptr;
  void* momentum = nullptr;  // null: none
  double gradient_factor = 1;
  double learning_rate = 0;
  double momentum_factor = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first_step = false;  // the momentum starts as the gradient, whatever it held
};

// first = first + (1 - beta1) (g - first), second = beta2 second + (1 - beta2) g^2,
// value = value - step_size * first / (sqrt(second) * inverse_root + epsilon).
struct AdamTask {
  DType dtype = DType::float32;
  std::int64_t count = 0;
  void* value = nullptr;
  float* master = nullptr;  // of 16-bit values; null: none
  const void* gradient = nullptr;
  void* first = nullptr;
  void* second = nullptr;
  void* largest = nullptr;  // the largest `second` so far, which takes its place below the root; null: none
  double gradient_factor = 1;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double step_size = 0;     // learning rate / (1 - beta1^step)
  double inverse_root = 1;  // 1 / sqrt(1 - beta2^step)
  double added_decay = 0;   // times the value is added to the gradient: Adam's weight decay
  double kept_share = 1;    // of the value before the step: AdamW's weight decay
};

struct SumOfSquaresTask {
  DType dtype = DType::float32;
  std::int64_t count = 0;
  const void* values = nullptr;
};

struct OptimizerKernels {
  void (*sgd)(const SgdTask& task) noexcept = nullptr;
  void (*adam)(const AdamTask& task) noexcept = nullptr;
  // In float64, which no square of a float32 overflows.
  double (*sum_of_squares)(const SumOfSquaresTask& task) noexcept = nullptr;
};

}  // namespace headway::inline v0::internal
