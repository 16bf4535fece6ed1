// Comparing elementwise results with plain loops in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "headway/tensor.h"
#include "headway/threads.h"
#include "support/epsilon.h"

namespace headway_test {

using headway::DType;
using headway::Shape;
using headway::Tensor;
using Inputs = std::vector<Tensor>;

inline const std::vector<headway::DType> kFloatingDTypes = {headway::DType::float32, headway::DType::float64,
                                                            headway::DType::bfloat16, headway::DType::float16};

// Success when every element is within `epsilons` of the expected one, relative to it or to `floor` if that is larger;
// NaN and infinities are where they are expected.
inline testing::AssertionResult close_to(const headway::Tensor& actual, const std::vector<double>& expected,
                                         double epsilons = 1.0, double floor = 1e-3) {
  const std::vector<double> values = actual.to_vector();
  if (values.size() != expected.size()) {
    return testing::AssertionFailure() << actual.describe() << " has not " << expected.size() << " elements";
  }
  for (std::size_t e = 0; e < values.size(); ++e) {
    if (values[e] == expected[e] || (std::isnan(values[e]) && std::isnan(expected[e]))) continue;
    const double allowed = epsilons * epsilon_of(actual.dtype()) * std::max(std::abs(expected[e]), floor);
    if (!(std::abs(values[e] - expected[e]) <= allowed) || std::isinf(expected[e])) {
      return testing::AssertionFailure() << "element " << e << " of " << actual.describe() << " is " << values[e]
                                         << ", expected " << expected[e] << " within " << allowed;
    }
  }
  return testing::AssertionSuccess();
}

// An operation on two tensors and what it does to a pair of elements.
struct BinaryCase {
  const char* name;
  Tensor (*operation)(const Tensor&, const Tensor&);
  double (*reference)(double, double);
};

// The shapes of two operands and the one to which they broadcast.
struct Shapes {
  Shape a, b, result;
};

// The reference for all pairs of elements of two operands, broadcast to a shape.
template <typename Reference>
std::vector<double> pairwise(const Reference& reference, const Tensor& a, const Tensor& b, const Shape& shape) {
  const std::vector<double> as = a.expand(shape).to_vector(), bs = b.expand(shape).to_vector();
  std::vector<double> values;
  for (std::size_t e = 0; e < as.size(); ++e) values.push_back(reference(as[e], bs[e]));
  return values;
}

// The same values with other strides: as they are, stored by columns, with gaps between elements.
inline std::vector<headway::Tensor> layouts_of(const headway::Tensor& x) {
  std::vector<headway::Tensor> layouts = {x};
  if (x.rank() >= 2) layouts.push_back(x.transpose(0, -1).contiguous().transpose(0, -1));
  if (x.rank() >= 1) {
    headway::Shape wide = x.shape();
    wide[-1] *= 3;
    headway::Tensor gaps = headway::Tensor::full(wide, NAN, x.dtype()).slice(-1, 0, wide[-1], 3);
    layouts.push_back(gaps.copy_from(x));
  }
  return layouts;
}

// Compares an operation on operands of all layouts with its reference.
inline void expect_values_in_all_layouts(const BinaryCase& c, const Tensor& a, const Tensor& b, const Shape& shape) {
  const std::vector<double> expected = pairwise(c.reference, a, b, shape);
  for (const Tensor& x : layouts_of(a)) {
    for (const Tensor& y : layouts_of(b)) {
      const Tensor result = c.operation(x, y);
      ASSERT_EQ(result.shape(), shape) << c.name;
      ASSERT_EQ(result.dtype(), a.dtype());
      ASSERT_TRUE(close_to(result, expected)) << c.name << " " << a.describe() << " " << b.describe();
    }
  }
}

// Calls body(threads) with 1, 2 and 3 threads, and sets the number back.
template <typename Body>
void with_threads(const Body& body) {
  const int before = headway::num_threads();
  for (const int threads : {1, 2, 3}) {
    headway::set_num_threads(threads);
    body(threads);
  }
  headway::set_num_threads(before);
}

}  // namespace headway_test
