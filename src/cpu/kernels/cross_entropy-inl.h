// Cross entropy of rows of logits, forward and backward.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/kernels/rowwise-inl.h"
#include "cpu/kernels/rowwise.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// What the forward pass sums over a row, with `largest` taken off every logit.
template <class V>
struct LogitSums {
  V powers;     // of e
  V distances;  // from the largest: of use where smoothing gives all classes a share
};

// Both sums of a row of logits. It prefetches the next row's memory, which arrives while this one is computed.
template <bool kDistances, class D, typename T>
HWY_INLINE LogitSums<hn::TFromD<D>> sum_logits(D d, const T* x, std::int64_t count, hn::TFromD<D> largest,
                                               bool has_next) {
  using V = hn::Vec<D>;
  const V reference = hn::Set(d, largest);
  const std::int64_t ahead = has_next ? count : 0;
  const auto step = [&](LogitSums<V> sums, std::int64_t i, auto part) HEADWAY_INNER {
    __builtin_prefetch(x + ahead + i);
    const V distance = hn::Sub(load(d, x + i, part), reference);
    sums.powers = hn::Add(sums.powers, keep(d, exp_nonpositive(d, distance), hn::Zero(d), part));
    if constexpr (kDistances) sums.distances = hn::Add(sums.distances, keep(d, distance, hn::Zero(d), part));
    return sums;
  };
  const auto join = [](LogitSums<V> a, LogitSums<V> b) HEADWAY_INNER {
    a.powers = hn::Add(a.powers, b.powers);
    a.distances = hn::Add(a.distances, b.distances);
    return a;
  };
  const LogitSums<V> sums = fold(d, count, LogitSums<V>{hn::Zero(d), hn::Zero(d)}, step, join);
  return {hn::GetLane(hn::SumOfLanes(d, sums.powers)), hn::GetLane(hn::SumOfLanes(d, sums.distances))};
}

// loss = -(1 - smoothing) log p[target] - smoothing * mean(log p), with log p = x - logsumexp.
template <typename T>
void cross_entropy_rows(const CrossEntropyTask& task) {
  using Real = RealFor<T>;
  const hn::ScalableTag<Real> d;
  const std::int64_t n = task.classes;
  for (std::int64_t row = task.begin; row < task.end; ++row) {
    const std::int64_t target = task.targets[row];
    task.losses[row] = 0;
    if (target < 0) continue;
    const T* x = static_cast<const T*>(task.logits) + row * n;
    const Real largest = max_row(d, n, x);
    const bool has_next = row + 1 < task.end;
    const LogitSums<Real> sums = task.smoothing == 0 ? sum_logits<false>(d, x, n, largest, has_next)
                                                     : sum_logits<true>(d, x, n, largest, has_next);
    const Real logarithm = std::log(sums.powers);
    static_cast<Real*>(task.logsumexp)[row] = largest + logarithm;
    task.losses[row] = -(static_cast<double>(convert<Real>(x[target]) - largest) - logarithm);
    if (task.smoothing != 0) {
      const double of_all = logarithm - static_cast<double>(sums.distances) / static_cast<double>(n);
      task.losses[row] = (1 - task.smoothing) * task.losses[row] + task.smoothing * of_all;
    }
  }
}

template <typename T>
void cross_entropy_backward_rows(const CrossEntropyBackwardTask& task) {
  using Real = RealFor<T>;
  const hn::ScalableTag<Real> d;
  const std::int64_t n = task.classes;
  const Real* d_losses = static_cast<const Real*>(task.d_losses);
  for (std::int64_t row = task.begin; row < task.end; ++row) {
    const std::int64_t target = task.targets[row];
    const T* x = static_cast<const T*>(task.logits) + row * n;
    T* d_x = static_cast<T*>(task.d_logits) + row * n;
    if (target < 0) {
      std::fill_n(d_x, n, T());
      continue;
    }
    const Real logsumexp = static_cast<const Real*>(task.logsumexp)[row];
    const auto factor = static_cast<Real>(static_cast<double>(d_losses[task.one_d_loss ? 0 : row]) * task.factor);
    const auto spread = static_cast<Real>(task.smoothing / static_cast<double>(n));
    const auto reference = hn::Set(d, logsumexp), f = hn::Set(d, factor), s = hn::Set(d, spread);
    const auto x_target = convert<Real>(x[target]);
    for_each_vector(d, n, [&](std::int64_t i, auto part) HEADWAY_INNER {
      const auto p = exp_nonpositive(d, hn::Sub(load(d, x + i, part), reference));
      store(d, hn::Mul(hn::Sub(p, s), f), d_x + i, part);
    });
    const Real p_target = std::exp(x_target - logsumexp);
    d_x[target] = convert<T>((p_target - static_cast<Real>(1 - task.smoothing) - spread) * factor);
  }
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
