// Layer norm and RMS norm of rows, forward and backward.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/kernels/rowwise-inl.h"
#include "cpu/kernels/rowwise.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// kCentered: layer norm; otherwise RMS norm, whose mean counts as zero.
template <typename T, bool kCentered>
void norm_rows(const NormTask& task) {
  using Real = RealFor<T>;
  using V = hn::Vec<hn::ScalableTag<Real>>;
  const hn::ScalableTag<Real> d;
  const std::int64_t n = task.features;
  const T* weight = static_cast<const T*>(task.weight);
  const T* bias = static_cast<const T*>(task.bias);
  for (std::int64_t row = task.begin; row < task.end; ++row) {
    const T* x = static_cast<const T*>(task.x) + row * n;
    T* y = static_cast<T*>(task.y) + row * n;
    Real mean = 0;
    if constexpr (kCentered) {
      mean =
          sum_row(d, n,
                  [&](V sum, std::int64_t i, auto part) HEADWAY_INNER { return hn::Add(sum, load(d, x + i, part)); }) /
          static_cast<Real>(n);
      static_cast<Real*>(task.mean)[row] = mean;
    }
    const V m = hn::Set(d, mean);
    const Real squares = sum_row(d, n, [&](V sum, std::int64_t i, auto part) HEADWAY_INNER {
      const V centered = keep(d, hn::Sub(load(d, x + i, part), m), hn::Zero(d), part);
      return hn::MulAdd(centered, centered, sum);
    });
    const Real inverse = 1 / std::sqrt(squares / static_cast<Real>(n) + static_cast<Real>(task.epsilon));
    static_cast<Real*>(task.inverse)[row] = inverse;
    const V scale = hn::Set(d, inverse);
    for_each_vector(d, n, [&](std::int64_t i, auto part) HEADWAY_INNER {
      V v = hn::Mul(hn::Sub(load(d, x + i, part), m), scale);
      if (weight) v = hn::Mul(v, load(d, weight + i, part));
      if (bias) v = hn::Add(v, load(d, bias + i, part));
      store(d, v, y + i, part);
    });
  }
}

// With x_hat = (x - mean) * inverse and g = d_y * weight:
//   d_x = inverse * (g - mean(g) - x_hat * mean(g * x_hat)), d_weight = sum of d_y * x_hat, d_bias = sum of d_y.
template <typename T, bool kCentered>
class NormBackward {
  using Real = RealFor<T>;
  using D = hn::ScalableTag<Real>;
  using V = hn::Vec<D>;

 public:
  explicit NormBackward(const NormBackwardTask& task)
      : task_(task),
        n_(task.features),
        weight_(static_cast<const T*>(task.weight)),
        d_weight_(static_cast<Real*>(task.d_weight)),
        d_bias_(static_cast<Real*>(task.d_bias)) {}

  void run() {
    if (d_weight_) std::fill_n(d_weight_, n_, Real(0));
    if (d_bias_) std::fill_n(d_bias_, n_, Real(0));
    constexpr int kRows = 4;  // the sums over rows are loaded and stored once for so many of them
    std::int64_t row = task_.begin;
    for (; row + kRows <= task_.end; row += kRows) do_rows<kRows>(row);
    for (; row < task_.end; ++row) do_rows<1>(row);
  }

 private:
  // Where a group of rows begins, and their statistics.
  template <int kRows>
  struct Group {
    HWY_INLINE Group() {}

    const T* x;
    const T* d_y;
    V mean[kRows];
    V inverse[kRows];
    V g_mean[kRows];   // mean(g)
    V g_x_hat[kRows];  // mean(g * x_hat)
  };

  template <int kRows>
  HWY_INLINE void do_rows(std::int64_t row) {
    const D d;
    Group<kRows> group;
    group.x = static_cast<const T*>(task_.x) + row * n_;
    group.d_y = static_cast<const T*>(task_.d_y) + row * n_;
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      group.mean[r] = hn::Set(d, kCentered ? static_cast<const Real*>(task_.mean)[row + r] : Real(0));
      group.inverse[r] = hn::Set(d, static_cast<const Real*>(task_.inverse)[row + r]);
    }
    if (task_.d_x) {
      means(group);
      gradients<true>(group, static_cast<T*>(task_.d_x) + row * n_);
    } else {
      gradients<false>(group, nullptr);
    }
  }

  template <class Size>
  HWY_INLINE V weight(std::int64_t i, Size part) const {
    const D d;
    return weight_ ? load(d, weight_ + i, part) : hn::Set(d, 1);
  }

  template <int kRows>
  HWY_INLINE V x_hat(const Group<kRows>& group, int r, V x) const {
    if constexpr (kCentered) x = hn::Sub(x, group.mean[r]);
    return hn::Mul(x, group.inverse[r]);
  }

  template <int kRows>
  HWY_INLINE void means(Group<kRows>& group) const {
    const D d;
    V sum[kRows], product[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = product[r] = hn::Zero(d);
    for_each_vector(d, n_, [&](std::int64_t i, auto part) HEADWAY_INNER {
      const V w = weight(i, part);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const V g = hn::Mul(load(d, group.d_y + r * n_ + i, part), w);
        if constexpr (kCentered) sum[r] = hn::Add(sum[r], g);
        product[r] = hn::MulAdd(g, x_hat(group, r, load(d, group.x + r * n_ + i, part)), product[r]);
      }
    });
    const V share = hn::Set(d, Real(1) / static_cast<Real>(n_));
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      group.g_mean[r] = hn::Mul(hn::SumOfLanes(d, sum[r]), share);
      group.g_x_hat[r] = hn::Mul(hn::SumOfLanes(d, product[r]), share);
    }
  }

  template <bool kWantsX, int kRows>
  HWY_INLINE void gradients(const Group<kRows>& group, T* d_x) const {
    const D d;
    for_each_vector(d, n_, [&](std::int64_t i, auto part) HEADWAY_INNER {
      V w = hn::Zero(d), d_weight = hn::Zero(d), d_bias = hn::Zero(d);
      if constexpr (kWantsX) w = weight(i, part);
      if (d_weight_) d_weight = load(d, d_weight_ + i, part);
      if (d_bias_) d_bias = load(d, d_bias_ + i, part);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const V d_y = load(d, group.d_y + r * n_ + i, part);
        const V h = x_hat(group, r, load(d, group.x + r * n_ + i, part));
        d_weight = hn::MulAdd(d_y, h, d_weight);
        d_bias = hn::Add(d_bias, d_y);
        if constexpr (kWantsX) {
          V v = hn::NegMulAdd(h, group.g_x_hat[r], hn::Mul(d_y, w));
          if constexpr (kCentered) v = hn::Sub(v, group.g_mean[r]);
          store(d, hn::Mul(v, group.inverse[r]), d_x + r * n_ + i, part);
        }
      }
      if (d_weight_) store(d, d_weight, d_weight_ + i, part);
      if (d_bias_) store(d, d_bias, d_bias_ + i, part);
    });
  }

  const NormBackwardTask& task_;
  const std::int64_t n_;
  const T* weight_;
  Real* d_weight_;  // (features)
  Real* d_bias_;    // (features)
};

template <typename T>
void join_parts(const JoinTask& task) {
  using Real = RealFor<T>;
  const hn::ScalableTag<Real> d;
  const Real* parts = static_cast<const Real*>(task.parts) + task.begin;
  T* target = static_cast<T*>(task.target) + task.begin;
  for_each_vector(d, task.end - task.begin, [&](std::int64_t i, auto part) HEADWAY_INNER {
    auto sum = hn::Zero(d);
    for (std::int64_t p = 0; p < task.parts_count; ++p) {
      sum = hn::Add(sum, load(d, parts + p * task.part_stride + i, part));
    }
    store(d, sum, target + i, part);
  });
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
