// Evaluation mode for a scope.
#pragma once

#include "headway/module.h"

namespace headway::inline v0::internal {

// Puts a module into evaluation mode while the guard exists; a module in training mode returns to it afterwards.
class EvaluationGuard {
 public:
  explicit EvaluationGuard(const Module& module) : module_(module), was_training_(module.is_training()) {
    if (was_training_) module_.eval();
  }
  ~EvaluationGuard() {
    if (was_training_) module_.train();
  }
  EvaluationGuard(const EvaluationGuard&) = delete;
  EvaluationGuard& operator=(const EvaluationGuard&) = delete;

 private:
  const Module& module_;
  bool was_training_;
};

}  // namespace headway::inline v0::internal
