// EvaluationGuard: evaluation inside, what was before outside.
#include <gtest/gtest.h>

#include "headway/layers.h"
#include "nn/evaluation_guard.h"

namespace {

using headway::internal::EvaluationGuard;

TEST(EvaluationGuard, PutsBackWhatWas) {
  const headway::Dropout module(0.5);
  ASSERT_TRUE(module.is_training());
  {
    const EvaluationGuard outer(module);
    EXPECT_FALSE(module.is_training());
    { const EvaluationGuard inner(module); }
    EXPECT_FALSE(module.is_training());
  }
  EXPECT_TRUE(module.is_training());
  EXPECT_THROW(
      {
        const EvaluationGuard guard(module);
        throw 1;
      },
      int);
  EXPECT_TRUE(module.is_training());
  module.eval();
  { const EvaluationGuard guard(module); }
  EXPECT_FALSE(module.is_training());
}

}  // namespace
