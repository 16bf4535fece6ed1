// Dropout off for the time of a scope.
#pragma once

#include "headway/module.h"

namespace headway::inline v0::internal {

// Puts a module into evaluation while it lives; a module that was in training is in training again afterwards.
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
