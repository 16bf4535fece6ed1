// Automatic differentiation: operations on tensors that require gradients are recorded for Tensor::backward().
#pragma once

#include "headway/export.h"

namespace headway {
inline namespace v0 {

// While a guard exists, this thread records nothing: for evaluation, and for changing parameters in place.
class HEADWAY_API NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool previous_;
};

// Whether this thread records operations.
HEADWAY_API bool gradients_enabled();

}  // namespace v0
}  // namespace headway
