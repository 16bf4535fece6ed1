// What the tests of operations over rows have in common: dtypes against float64, and bits against thread counts.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "headway/tensor.h"
#include "headway/threads.h"
#include "support/bits.h"

namespace headway_test {

using Operation = std::function<headway::Tensor(const std::vector<headway::Tensor>&)>;

// An operation's result and the gradients of its inputs, undefined for those that have none. What flows back is random,
// rounded to `rounded`, which is the result's dtype unless it is given.
inline std::vector<headway::Tensor> result_and_gradients(const Operation& operation,
                                                         const std::vector<headway::Tensor>& inputs,
                                                         std::optional<headway::DType> rounded = {}) {
  std::vector<headway::Tensor> leaves;
  for (const headway::Tensor& input : inputs) {
    leaves.push_back(input.defined() ? input.detach() : input);
    if (input.defined() && is_floating(input.dtype())) leaves.back().set_requires_grad();
  }
  const headway::Tensor result = operation(leaves);
  const headway::Tensor direction = headway::Tensor::randn(result.shape(), 77, rounded.value_or(result.dtype()));
  result.backward(direction.to(result.dtype()).to(result.device()));
  std::vector<headway::Tensor> all = {result.detach()};
  for (const headway::Tensor& leaf : leaves) all.push_back(leaf.defined() ? leaf.grad() : headway::Tensor());
  return all;
}

// The floating inputs in another dtype; the others as they are.
inline std::vector<headway::Tensor> converted(const std::vector<headway::Tensor>& inputs, headway::DType dtype) {
  std::vector<headway::Tensor> result;
  for (const headway::Tensor& input : inputs) {
    result.push_back(input.defined() && is_floating(input.dtype()) ? input.to(dtype) : input);
  }
  return result;
}

// Result and gradients in float32, bfloat16 and float16 are those of float64 on the same values.
inline void expect_dtypes_agree(const Operation& operation, const std::vector<headway::Tensor>& inputs) {
  using headway::DType;
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(std::string(dtype_name(dtype)));
    const std::vector<headway::Tensor> rounded = converted(inputs, dtype);
    const std::vector<headway::Tensor> actual = result_and_gradients(operation, rounded);
    const std::vector<headway::Tensor> expected = result_and_gradients(operation, converted(rounded, DType::float64));
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (actual[i].defined()) {
        EXPECT_EQ(actual[i].dtype(), dtype);
      }
      EXPECT_TRUE(near(actual[i], expected[i], 2 * tolerance_of(dtype))) << (i == 0 ? "result" : "gradient ") << i;
    }
  }
}

// Result and gradients have the same bits with 1, 2 and 3 threads.
inline void expect_threads_agree(const Operation& operation, const std::vector<headway::Tensor>& inputs) {
  const int before = headway::num_threads();
  headway::set_num_threads(1);
  const std::vector<headway::Tensor> expected = result_and_gradients(operation, inputs);
  for (const int threads : {2, 3}) {
    headway::set_num_threads(threads);
    const std::vector<headway::Tensor> actual = result_and_gradients(operation, inputs);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(same_bits(actual[i], expected[i])) << threads << " threads, result " << i;
    }
  }
  headway::set_num_threads(before);
}

}  // namespace headway_test
