// An operation with its gradients on the GPU, beside float64 on the CPU.
#pragma once

#include <string>
#include <vector>

#include "cuda/device_problem.h"
#include "cuda/messages.h"
#include "support/elementwise.h"
#include "support/row_operations.h"

namespace headway_test {

// Result and gradients of an operation, on the CPU; what flows back is rounded to `rounded`.
inline std::vector<headway::Tensor> evaluate(const Operation& operation, const std::vector<headway::Tensor>& inputs,
                                             headway::DType rounded) {
  std::vector<headway::Tensor> all = result_and_gradients(operation, inputs, rounded);
  for (headway::Tensor& tensor : all) {
    if (tensor.defined()) tensor = on_cpu(tensor);
  }
  return all;
}

// The inputs on the GPU in one of three layouts; integers stay on the CPU in the first.
inline std::vector<headway::Tensor> gpu_inputs(const std::vector<headway::Tensor>& inputs, std::size_t layout) {
  std::vector<headway::Tensor> result;
  for (const headway::Tensor& input : inputs) {
    if (input.defined() && is_floating(input.dtype())) {
      const std::vector<headway::Tensor> layouts = layouts_of(input);
      result.push_back(on_gpu(layouts[std::min(layout, layouts.size() - 1)]));
    } else {
      result.push_back(layout == 0 ? input : on_gpu(input));
    }
  }
  return result;
}

// In every floating dtype and several layouts, result and gradients on the GPU are those of float64 on the CPU, and two
// runs give the same bits.
inline void expect_gpu_agrees(Messages& messages, const std::string& name, const Operation& operation,
                              const std::vector<headway::Tensor>& inputs) {
  for (const headway::DType dtype : kFloatingDTypes) {
    const std::vector<headway::Tensor> rounded = converted(inputs, dtype);
    const std::vector<headway::Tensor> expected =
        evaluate(operation, converted(rounded, headway::DType::float64), dtype);
    for (std::size_t layout = 0; layout < 3; ++layout) {
      const std::string where =
          name + " " + std::string(dtype_name(dtype)) + " layout " + std::to_string(layout) + ", ";
      messages.guarded(where, [&] {
        const std::vector<headway::Tensor> there = gpu_inputs(rounded, layout);
        poison_memory(there);
        const std::vector<headway::Tensor> actual = evaluate(operation, there, dtype);
        const std::vector<headway::Tensor> again = evaluate(operation, there, dtype);
        for (std::size_t i = 0; i < actual.size(); ++i) {
          const std::string what = where + (i == 0 ? "result" : "gradient " + std::to_string(i));
          if (actual[i].defined() && actual[i].dtype() != dtype) messages.add(what + " is " + actual[i].describe());
          messages.expect(near(actual[i], expected[i], 2 * tolerance_of(dtype)), what);
          messages.expect(same_bits(actual[i], again[i]), what + " of a second run");
        }
      });
    }
  }
}

}  // namespace headway_test
