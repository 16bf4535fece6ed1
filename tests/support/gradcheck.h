// Checks the gradients of a function of tensors against finite differences.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "headway/tensor.h"

namespace headway_test {

struct GradcheckOptions {
  double step = 1e-5;       // of the central differences
  double tolerance = 1e-6;  // relative to the largest of 1, the derivative and the gradient
  int elements = 64;        // of each input at most, drawn at random where it has more; 0: all
  std::uint64_t seed = 1;   // of d_output and of the elements drawn
};

// Fails the test where the gradients that backward() returns for the float64 inputs are not those that central
// differences of sum(function(inputs) * d_output) show. Inputs of other dtypes are passed on as they are.
//
// The walk back is tried with every gradient that an operation may meet: one that the caller keeps (and which must not
// change), one with odd strides, and one that is uniquely owned; twice through one record; and for each input alone.
// The inputs' strides are kept on the way forward, so views check what an operation does with them.
void check_gradients(const std::function<headway::Tensor(const std::vector<headway::Tensor>&)>& function,
                     std::vector<headway::Tensor> inputs, GradcheckOptions options = {});

// Random float64 tensors of one shape and different strides: contiguous, transposed, every other element of the last
// dimension, every other row, all with the same values; and one that is expanded along its first dimension.
std::vector<headway::Tensor> awkward(const headway::Shape& shape, std::uint64_t seed);

}  // namespace headway_test
