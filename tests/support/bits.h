// Comparing tensors bit by bit, and by a plain tolerance.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "headway/attention.h"
#include "support/epsilon.h"

namespace headway_test {

// Success when both tensors hold the same bits in the same shape, whatever their strides; both may be undefined.
inline testing::AssertionResult same_bits(const headway::Tensor& a, const headway::Tensor& b) {
  if (!a.defined() || !b.defined()) {
    if (a.defined() == b.defined()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "only one of the two tensors is defined";
  }
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) {
    return testing::AssertionFailure() << a.describe() << " is not " << b.describe();
  }
  const headway::Tensor x = a.contiguous(), y = b.contiguous();
  const std::size_t size = item_size(a.dtype()), count = static_cast<std::size_t>(x.element_count());
  if (count == 0 || std::memcmp(x.raw_data(), y.raw_data(), size * count) == 0) return testing::AssertionSuccess();
  const std::vector<double> xs = x.to_vector(), ys = y.to_vector();
  std::size_t differing = 0, first = count;
  for (std::size_t e = 0; e < count; ++e) {
    const bool same = std::memcmp(static_cast<char*>(x.raw_data()) + e * size,
                                  static_cast<char*>(y.raw_data()) + e * size, size) == 0;
    if (!same && differing++ == 0) first = e;
  }
  return testing::AssertionFailure() << differing << " of " << count << " elements differ, first element " << first
                                     << ": " << xs[first] << " and " << ys[first];
}

// Success when the tensors differ by at most `tolerance` times the largest finite magnitude, which counts as 0.1 at
// least, since sums that cancel leave rounding errors of their terms; NaN and infinities must be in the same places.
inline testing::AssertionResult near(const headway::Tensor& a, const headway::Tensor& b, double tolerance) {
  if (!a.defined() || !b.defined()) return same_bits(a, b);
  if (!(a.shape() == b.shape())) return testing::AssertionFailure() << a.describe() << " is not " << b.describe();
  const std::vector<double> xs = a.to_vector(), ys = b.to_vector();
  double magnitude = 0.1;
  for (double y : ys) magnitude = std::isfinite(y) ? std::max(magnitude, std::abs(y)) : magnitude;
  for (std::size_t e = 0; e < xs.size(); ++e) {
    if (xs[e] == ys[e] || (std::isnan(xs[e]) && std::isnan(ys[e]))) continue;
    if (!(std::abs(xs[e] - ys[e]) <= tolerance * magnitude)) {
      return testing::AssertionFailure() << "element " << e << " of " << a.describe() << ": " << xs[e] << " and "
                                         << ys[e] << ", allowed difference " << tolerance * magnitude;
    }
  }
  return testing::AssertionSuccess();
}

// A difference that two correct computations in this dtype may have.
inline double tolerance_of(headway::DType dtype) {
  if (is_sixteen_bit(dtype)) return 2 * epsilon_of(dtype);
  return dtype == headway::DType::float64 ? 1e-13 : 1e-5;
}

// All results of forward and backward, with names.
using Named = std::vector<std::pair<std::string, headway::Tensor>>;
inline Named named(const headway::AttentionResult& r, const headway::AttentionGradients& g) {
  return {{"output", r.output}, {"logsumexp", r.logsumexp}, {"weights", r.weights}, {"d_query", g.query},
          {"d_key", g.key},     {"d_value", g.value},       {"d_bias", g.bias},     {"d_sinks", g.sinks}};
}

// Forward and backward of a problem.
inline Named run(headway::AttentionBackward p) {
  p.forward = headway::attention(p.query, p.key, p.value, p.options);
  if (p.d_weights.defined()) p.d_weights = p.d_weights.to(p.forward.weights.dtype());
  return named(p.forward, headway::attention_backward(p));
}

inline void expect_same_bits(const Named& a, const Named& b) {
  for (std::size_t n = 0; n < a.size(); ++n) EXPECT_TRUE(same_bits(a[n].second, b[n].second)) << a[n].first;
}

inline void expect_near(const Named& a, const Named& b, double tolerance) {
  for (std::size_t n = 0; n < a.size(); ++n) EXPECT_TRUE(near(a[n].second, b[n].second, tolerance)) << a[n].first;
}

}  // namespace headway_test
