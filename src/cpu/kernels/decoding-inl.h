// One step of decoding: attention of one query over scattered tokens, norm and rotation of new ones, and a first look
// at a row of logits.
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
  static constexpr std::int64_t kTokens = 16;  // whose values are added in one pass

 public:
  explicit TokenAttention(const TokenAttentionTask& task)
      : task_(task),
        heads_(task.kv_heads * task.group),
        features_(heads_ * task.head_dim),
        stride_(round_up(task.count, std::int64_t{16})),
        query_(reinterpret_cast<Real*>(task.workspace)),
        output_(query_ + round_up(features_, hn::MaxLanes(D()))),
        scores_(output_ + round_up(features_, hn::MaxLanes(D()))) {}

  void run() {
    T* result = reinterpret_cast<T*>(task_.result);
    if (task_.count == 0) {
      std::fill_n(result, features_, T());
      return;
    }
    const D d;
    const T* query = reinterpret_cast<const T*>(task_.query);
    const V scale = hn::Set(d, static_cast<Real>(task_.scale));
    for_each_vector(d, features_, [&](std::int64_t i, auto part) HEADWAY_INNER {
      store(d, hn::Mul(load(d, query + i, part), scale), query_ + i, part);
    });
    score();
    std::fill_n(output_, features_, Real(0));
    for (std::int64_t head = 0; head < heads_; ++head) exponentiate(head);
    for (std::int64_t t = 0; t < task_.count; t += kTokens) add_values(t, std::min(t + kTokens, task_.count));
    for_each_vector(d, features_, [&](std::int64_t i, auto part) HEADWAY_INNER {
      store(d, load(d, output_ + i, part), result + i, part);
    });
  }

 private:
  const T* token(std::int64_t t) const { return reinterpret_cast<const T*>(task_.tokens[t]) + task_.key_offset; }

  // scores[head][t] = Q K^T, four tokens at a time, of which all heads are read before the next ones.
  HWY_INLINE void score() {
    const D d;
    const std::int64_t last = task_.count - 1, dim = task_.head_dim;
    for (std::int64_t t = 0; t < task_.count; t += 4) {
      const T* tokens[4] = {token(t), token(std::min(t + 1, last)), token(std::min(t + 2, last)),
                            token(std::min(t + 3, last))};
      for (std::int64_t head = 0; head < heads_; ++head) {
        const Real* query = query_ + head * dim;
        const std::int64_t first = head / task_.group * dim;
        const T *k0 = tokens[0] + first, *k1 = tokens[1] + first, *k2 = tokens[2] + first, *k3 = tokens[3] + first;
        V s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
        for_each_vector(d, dim, [&](std::int64_t i, auto part) HEADWAY_INNER {
          const V q = load(d, query + i, part);
          s0 = hn::MulAdd(q, load(d, k0 + i, part), s0);
          s1 = hn::MulAdd(q, load(d, k1 + i, part), s1);
          s2 = hn::MulAdd(q, load(d, k2 + i, part), s2);
          s3 = hn::MulAdd(q, load(d, k3 + i, part), s3);
        });
        sum_of_four(d, s0, s1, s2, s3, scores_ + head * stride_ + t);
      }
    }
  }

  // What comes between Q K^T and the softmax.
  HWY_INLINE void modify(std::int64_t head, Real* scores) const {
    const D d;
    if (task_.softcap != 0) {
      const V cap = hn::Set(d, static_cast<Real>(task_.softcap));
      for_each_vector(d, task_.count, [&](std::int64_t i, auto part) HEADWAY_INNER {
        store(d, hn::Mul(cap, HWY_NAMESPACE::tanh(d, hn::Div(load(d, scores + i, part), cap))), scores + i, part);
      });
    }
    const std::int64_t last = task_.count - 1;
    if (task_.alibi_slopes) {
      const Real slope = static_cast<Real>(task_.alibi_slopes[head]);
      for (std::int64_t t = 0; t < last; ++t) scores[t] -= slope * static_cast<Real>(last - t);
    }
    if (task_.distance_bias) {
      const float* bias = task_.distance_bias + head * task_.distances;
      for (std::int64_t t = 0; t <= last; ++t)
        scores[t] += static_cast<Real>(bias[std::min(last - t, task_.distances - 1)]);
    }
  }

  // scores[t] = exp(scores[t] - their maximum), divided by the sum.
  HWY_INLINE void exponentiate(std::int64_t head) {
    const D d;
    Real* scores = scores_ + head * stride_;
    modify(head, scores);
    Real most = max_row(d, task_.count, scores);
    if (task_.sinks) most = std::max(most, static_cast<Real>(task_.sinks[head]));
    const V largest = hn::Set(d, most);
    Real total = sum_row(d, task_.count, [&](V sum, std::int64_t i, auto part) HEADWAY_INNER {
      const V p = exp_nonpositive(d, hn::Sub(load(d, scores + i, part), largest));
      store(d, p, scores + i, part);
      return hn::Add(sum, keep(d, p, hn::Zero(d), part));
    });
    if (task_.sinks) total += std::exp(static_cast<Real>(task_.sinks[head]) - most);
    const V factor = hn::Set(d, Real(1) / total);
    for_each_vector(d, task_.count, [&](std::int64_t i, auto part) HEADWAY_INNER {
      store(d, hn::Mul(load(d, scores + i, part), factor), scores + i, part);
    });
  }

  // output += P V of tokens [begin, end).
  HWY_INLINE void add_values(std::int64_t begin, std::int64_t end) {
    const D d;
    const std::int64_t dim = task_.head_dim;
    for (std::int64_t head = 0; head < heads_; ++head) {
      const Real* p = scores_ + head * stride_;
      const std::int64_t first = task_.value_offset + head / task_.group * dim;
      Real* output = output_ + head * dim;
      for_each_vector(d, dim, [&](std::int64_t i, auto part) HEADWAY_INNER {
        V s0 = load(d, output + i, part), s1 = hn::Zero(d);
        std::int64_t t = begin;
        for (; t + 2 <= end; t += 2) {
          s0 = hn::MulAdd(hn::Set(d, p[t]), load(d, token(t) + first + i, part), s0);
          s1 = hn::MulAdd(hn::Set(d, p[t + 1]), load(d, token(t + 1) + first + i, part), s1);
        }
        if (t < end) s0 = hn::MulAdd(hn::Set(d, p[t]), load(d, token(t) + first + i, part), s0);
        store(d, hn::Add(s0, s1), output + i, part);
      });
    }
  }

  const TokenAttentionTask& task_;
  const std::int64_t heads_;
  const std::int64_t features_;
  const std::int64_t stride_;  // of the scores of a head
  Real* query_;                // (features), scaled
  Real* output_;               // (features)
  Real* scores_;               // (heads, stride)
};

// Four outputs at a time, each read from end to end, for sequential access.
template <typename T>
void multiply_weight_rows(const WeightRowsTask& task) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const T* weight = reinterpret_cast<const T*>(task.weight);
  const auto at = [](const std::byte* values, std::int64_t i)
                      HEADWAY_INNER { return values ? convert<float>(reinterpret_cast<const T*>(values)[i]) : 0.0f; };
  for (std::int64_t o = 0; o < task.outputs; o += 4) {
    const std::int64_t last = task.outputs - 1;
    const T* w0 = weight + o * task.depth;
    const T* w1 = weight + std::min(o + 1, last) * task.depth;
    const T* w2 = weight + std::min(o + 2, last) * task.depth;
    const T* w3 = weight + std::min(o + 3, last) * task.depth;
    V s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    for_each_vector(d, task.depth, [&](std::int64_t i, auto part) HEADWAY_INNER {
      // Rows are too short for the processor to foresee the next ones: those after the next four are asked for.
      const T* ahead = w0 + 8 * task.depth + 4 * i;
      __builtin_prefetch(ahead, 0, 1);
      __builtin_prefetch(ahead + 2 * hn::Lanes(d), 0, 1);
      const V x = load(d, task.x + i, part);
      s0 = hn::MulAdd(x, load(d, w0 + i, part), s0);
      s1 = hn::MulAdd(x, load(d, w1 + i, part), s1);
      s2 = hn::MulAdd(x, load(d, w2 + i, part), s2);
      s3 = hn::MulAdd(x, load(d, w3 + i, part), s3);
    });
    float sums[4];
    sum_of_four(d, s0, s1, s2, s3, sums);
    for (std::int64_t i = o; i < std::min(o + 4, task.outputs); ++i) {
      reinterpret_cast<T*>(task.result)[i] = convert<T>(sums[i - o] + at(task.bias, i) + at(task.added, i));
    }
  }
}

// One head: target = rotate(norm(source)).
template <typename T>
HWY_INLINE void head_of_row(const HeadRowTask& task, const T* source, T* target) {
  using Real = RealFor<T>;
  const hn::ScalableTag<Real> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t dim = task.head_dim, half = task.dims / 2;
  Real* x = reinterpret_cast<Real*>(task.workspace);
  Real inverse = 1;
  if (task.norm_weight) {
    const Real squares = sum_row(d, dim, [&](V sum, std::int64_t i, auto part) HEADWAY_INNER {
      const V v = load(d, source + i, part);
      return hn::MulAdd(v, v, sum);
    });
    inverse = Real(1) / std::sqrt(squares / static_cast<Real>(dim) + static_cast<Real>(task.norm_epsilon));
  }
  const T* weight = reinterpret_cast<const T*>(task.norm_weight);
  for_each_vector(d, dim, [&](std::int64_t i, auto part) HEADWAY_INNER {
    V v = load(d, source + i, part);
    if (weight) v = hn::Mul(hn::Mul(v, hn::Set(d, inverse)), load(d, weight + i, part));
    store(d, v, x + i, part);
  });
  const float *cosines = task.rotation, *sines = task.rotation + half;
  if (task.rotation && task.interleaved) {
    for (std::int64_t i = 0; i < half; ++i) {
      const Real a = x[2 * i], b = x[2 * i + 1], cosine = cosines[i], sine = sines[i];
      x[2 * i] = a * cosine - b * sine;
      x[2 * i + 1] = b * cosine + a * sine;
    }
  } else if (task.rotation) {
    for (std::int64_t i = 0; i < half; ++i) {
      const Real a = x[i], b = x[i + half], cosine = cosines[i], sine = sines[i];
      x[i] = a * cosine - b * sine;
      x[i + half] = b * cosine + a * sine;
    }
  }
  for_each_vector(d, dim,
                  [&](std::int64_t i, auto part) HEADWAY_INNER { store(d, load(d, x + i, part), target + i, part); });
}

template <typename T>
void powers_of_row(const PowerRowTask& task) {
  using Real = RealFor<T>;
  const hn::ScalableTag<Real> d;
  const T* logits = reinterpret_cast<const T*>(task.logits);
  const auto largest = hn::Set(d, static_cast<Real>(task.largest));
  const auto factor = hn::Set(d, static_cast<Real>(task.factor));
  for_each_vector(d, task.classes, [&](std::int64_t i, auto part) HEADWAY_INNER {
    const auto p = exp_nonpositive(d, hn::Mul(hn::Sub(load(d, logits + i, part), largest), factor));
    if constexpr (sizeof(Real) == 4) {
      store(d, p, task.powers + i, part);
    } else {
      Real lanes[hn::MaxLanes(d)];
      store(d, p, lanes, part);
      const std::int64_t count = std::min<std::int64_t>(hn::Lanes(d), task.classes - i);
      for (std::int64_t k = 0; k < count; ++k) task.powers[i + k] = static_cast<float>(lanes[k]);
    }
  });
}

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
