// Steps of optimizers as every backend takes them.
#pragma once

#include <cstdint>

#include "headway/dtype.h"

namespace headway::inline v0::internal {

// One parameter and its optimizer state: dense memory of `count` elements each. The state is float64 for
// float64 and float32 for the other dtypes, zero at first.
//
// A 16-bit parameter may have a master, float32: a step starts from the master and leaves it in full, and the value is
// the master rounded. Where the value is not the rounded master at the beginning of a step, it was set by other
// code, and the step starts from the value.
struct ParameterSpan {
  void* value = nullptr;           // of dtype
  float* master = nullptr;         // of 16-bit values; null: none
  const void* gradient = nullptr;  // of dtype
  void* first = nullptr;           // the momentum of sgd (null without), the first moment of adam
  void* second = nullptr;          // adam: the second moment
  void* largest = nullptr;         // adam: the largest second moment so far (AMSGrad); null without
  std::int64_t count = 0;
  std::int64_t step = 1;  // which step of this parameter it is, from 1
  DType dtype = DType::float32;
};

struct SgdStep {
  double learning_rate = 1e-3;
  double momentum = 0;  // not 0: every span has `first`
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double gradient_factor = 1;  // multiplies the gradients, for clipping; they are not changed
};

enum class WeightDecay {
  added,      // to the gradient: Adam
  decoupled,  // from the gradient: AdamW
};
struct AdamStep {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  WeightDecay decay = WeightDecay::decoupled;
  double gradient_factor = 1;  // as in SgdStep
};

}  // namespace headway::inline v0::internal
