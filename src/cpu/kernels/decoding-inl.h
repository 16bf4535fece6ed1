// One step of decoding: attention of one query over scattered tokens, and a first look at a row of logits.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/kernels/decode-inl.h"
#include "cpu/kernels/decoding.h"
#include "cpu/kernels/rowwise-inl.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

template <typename T>
class TokenAttention {
  using Real = RealFor<T>;
  using D = hn::ScalableTag<Real>;
  using V = hn::Vec<D>;

 public:
  explicit TokenAttention(const TokenAttentionTask& task)
      : task_(task),
        features_(task.heads * task.head_dim),
        query_(reinterpret_cast<Real*>(task.workspace)),
        scores_(query_ + round_up(features_, hn::MaxLanes(D()))) {}

  void run() {
    T* result = reinterpret_cast<T*>(task_.result);
    if (task_.count == 0) {
      std::fill_n(result, features_, T());
      return;
    }
    const D d;
    const T* query = reinterpret_cast<const T*>(task_.query);
    const V scale = hn::Set(d, Real(1) / std::sqrt(static_cast<Real>(task_.head_dim)));
    for_each_vector(d, features_, [&](std::int64_t i, auto part) HEADWAY_INNER {
      store(d, hn::Mul(load(d, query + i, part), scale), query_ + i, part);
    });
    for (std::int64_t first = 0; first < features_; first += task_.head_dim) {
      score(first);
      const Real total = exponentiate();
      add_values(first, Real(1) / total, result + first);
    }
  }

 private:
  const T* token(std::int64_t t) const { return reinterpret_cast<const T*>(task_.tokens[t]); }

  // scores[t] = Q K^T of one head, four tokens at a time.
  HWY_INLINE void score(std::int64_t first) {
    const D d;
    const Real* query = query_ + first;
    for (std::int64_t t = 0; t < task_.count; t += 4) {
      const std::int64_t last = task_.count - 1;
      const T* k0 = token(t) + first;
      const T* k1 = token(std::min(t + 1, last)) + first;
      const T* k2 = token(std::min(t + 2, last)) + first;
      const T* k3 = token(std::min(t + 3, last)) + first;
      V s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
      for_each_vector(d, task_.head_dim, [&](std::int64_t i, auto part) HEADWAY_INNER {
        const V q = load(d, query + i, part);
        s0 = hn::MulAdd(q, load(d, k0 + i, part), s0);
        s1 = hn::MulAdd(q, load(d, k1 + i, part), s1);
        s2 = hn::MulAdd(q, load(d, k2 + i, part), s2);
        s3 = hn::MulAdd(q, load(d, k3 + i, part), s3);
      });
      sum_of_four(d, s0, s1, s2, s3, scores_ + t);
    }
  }

  // scores[t] = exp(scores[t] - their maximum); returns the sum.
  HWY_INLINE Real exponentiate() {
    const D d;
    const V largest = hn::Set(d, max_row(d, task_.count, scores_));
    return sum_row(d, task_.count, [&](V sum, std::int64_t i, auto part) HEADWAY_INNER {
      const V p = exp_nonpositive(d, hn::Sub(load(d, scores_ + i, part), largest));
      store(d, p, scores_ + i, part);
      return hn::Add(sum, keep(d, p, hn::Zero(d), part));
    });
  }

  // result = P V * factor for one head.
  HWY_INLINE void add_values(std::int64_t first, Real factor, T* result) {
    const D d;
    const std::int64_t values = features_ + first;
    for_each_vector(d, task_.head_dim, [&](std::int64_t i, auto part) HEADWAY_INNER {
      V s0 = hn::Zero(d), s1 = hn::Zero(d);
      std::int64_t t = 0;
      for (; t + 2 <= task_.count; t += 2) {
        s0 = hn::MulAdd(hn::Set(d, scores_[t]), load(d, token(t) + values + i, part), s0);
        s1 = hn::MulAdd(hn::Set(d, scores_[t + 1]), load(d, token(t + 1) + values + i, part), s1);
      }
      if (t < task_.count) s0 = hn::MulAdd(hn::Set(d, scores_[t]), load(d, token(t) + values + i, part), s0);
      store(d, hn::Mul(hn::Add(s0, s1), hn::Set(d, factor)), result + i, part);
    });
  }

  const TokenAttentionTask& task_;
  const std::int64_t features_;
  Real* query_;   // (features), scaled
  Real* scores_;  // (count, to a multiple of four) of one head
};

template <typename T>
void look_at_logits(const LogitRowTask& task) {
  using Real = RealFor<T>;
  const hn::ScalableTag<Real> d;
  const T* logits = reinterpret_cast<const T*>(task.logits);
  Real* maxima = static_cast<Real*>(task.maxima);
  Real largest = kMasked<Real>;
  for (std::int64_t i = 0; i < task.classes; i += kLogitBlock) {
    const Real most = max_row(d, std::min(kLogitBlock, task.classes - i), logits + i);
    *maxima++ = most;
    largest = std::max(largest, most);
  }
  const auto reference = hn::Set(d, largest);
  const Real sum = sum_row(d, task.classes, [&](hn::Vec<decltype(d)> sum, std::int64_t i, auto part) HEADWAY_INNER {
    const auto p = exp_nonpositive(d, hn::Sub(load(d, logits + i, part), reference));
    return hn::Add(sum, keep(d, p, hn::Zero(d), part));
  });
  *static_cast<Real*>(task.logsumexp) = largest + std::log(sum);
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
