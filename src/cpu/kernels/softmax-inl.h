// Softmax and its logarithm over rows, forward and backward.
#pragma once

#include <cmath>

#include "cpu/kernels/rowwise-inl.h"
#include "cpu/kernels/rowwise.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

template <typename T>
void softmax_rows(const SoftmaxTask& task) {
  using Real = RealFor<T>;
  using V = hn::Vec<hn::ScalableTag<Real>>;
  constexpr bool kKeepsPowers = std::is_same_v<T, Real>;  // 16 bits would round them before they are divided
  const hn::ScalableTag<Real> d;
  const std::int64_t n = task.classes;
  for (std::int64_t row = task.begin; row < task.end; ++row) {
    const T* x = static_cast<const T*>(task.x) + row * n;
    T* y = static_cast<T*>(task.y) + row * n;
    const V largest = hn::Set(d, max_row(d, n, x));
    const auto power = [&](std::int64_t i, auto part)
                           HEADWAY_INNER { return exp_nonpositive(d, hn::Sub(load(d, x + i, part), largest)); };
    const Real sum = sum_row(d, n, [&](V earlier, std::int64_t i, auto part) HEADWAY_INNER {
      const V p = keep(d, power(i, part), hn::Zero(d), part);
      if (kKeepsPowers && !task.logarithm) store(d, p, y + i, part);
      return hn::Add(earlier, p);
    });
    if (task.logarithm) {
      const V logarithm = hn::Set(d, std::log(sum));
      for_each_vector(d, n, [&](std::int64_t i, auto part) HEADWAY_INNER {
        store(d, hn::Sub(hn::Sub(load(d, x + i, part), largest), logarithm), y + i, part);
      });
      continue;
    }
    const V inverse = hn::Set(d, 1 / sum);
    for_each_vector(d, n, [&](std::int64_t i, auto part) HEADWAY_INNER {
      if constexpr (kKeepsPowers) {
        store(d, hn::Mul(load(d, y + i, part), inverse), y + i, part);
      } else {
        store(d, hn::Mul(power(i, part), inverse), y + i, part);
      }
    });
  }
}

// Softmax: d_x = y (d_y - sum of d_y y). Its logarithm: d_x = d_y - exp(y) * sum of d_y.
template <typename T>
void softmax_backward_rows(const SoftmaxBackwardTask& task) {
  using Real = RealFor<T>;
  using V = hn::Vec<hn::ScalableTag<Real>>;
  const hn::ScalableTag<Real> d;
  const std::int64_t n = task.classes;
  for (std::int64_t row = task.begin; row < task.end; ++row) {
    const T* y = static_cast<const T*>(task.y) + row * n;
    const T* d_y = static_cast<const T*>(task.d_y) + row * n;
    T* d_x = static_cast<T*>(task.d_x) + row * n;
    if (task.logarithm) {
      const V sum = hn::Set(d, sum_row(d, n, [&](V earlier, std::int64_t i, auto part) HEADWAY_INNER {
                              return hn::Add(earlier, load(d, d_y + i, part));
                            }));
      for_each_vector(d, n, [&](std::int64_t i, auto part) HEADWAY_INNER {
        const V p = exp_nonpositive(d, load(d, y + i, part));
        store(d, hn::NegMulAdd(p, sum, load(d, d_y + i, part)), d_x + i, part);
      });
      continue;
    }
    const V dot = hn::Set(d, sum_row(d, n, [&](V sum, std::int64_t i, auto part) HEADWAY_INNER {
                            return hn::MulAdd(load(d, y + i, part), load(d, d_y + i, part), sum);
                          }));
    for_each_vector(d, n, [&](std::int64_t i, auto part) HEADWAY_INNER {
      store(d, hn::Mul(load(d, y + i, part), hn::Sub(load(d, d_y + i, part), dot)), d_x + i, part);
    });
  }
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
