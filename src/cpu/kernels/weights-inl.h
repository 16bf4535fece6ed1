// The attention weights that a user asked for, recomputed tile by tile from the log-sum-exp.
#pragma once

#include "cpu/kernels/attention.h"
#include "cpu/kernels/math-inl.h"
#include "cpu/kernels/pack-inl.h"
#include "cpu/kernels/product-inl.h"
#include "cpu/kernels/scores-inl.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

template <typename E>
class WeightsWriter {
  using Real = RealOf<E>;
  using D = VectorTag<E>;
  using V = VectorOf<E>;
  static constexpr int kLane = kLanes<E>;
  static constexpr int kColumns = kTileColumns<E>;

 public:
  static std::size_t workspace_bytes(std::int64_t head_dim) {
    return kTileRows * round_up(element_count<E>(head_dim), kColumns) * sizeof(E) +
           3 * kTileRows * kKeyBlock * sizeof(Real) + 256;
  }

  WeightsWriter(const WeightsTask& task, std::byte* workspace)
      : task_(task), depth_(element_count<E>(task.head_dim)), factor_(static_cast<Real>(task.scale * kLog2E)) {
    query_ = reinterpret_cast<E*>(workspace);
    sum_ = reinterpret_cast<Real*>(workspace + kTileRows * round_up(depth_, kColumns) * sizeof(E));
    scores_ = sum_ + kTileRows * kKeyBlock;
    bias_ = scores_ + kTileRows * kKeyBlock;
  }

  void run() {
    for (std::int64_t query = task_.query_begin; query < task_.query_end; query += kTileRows) {
      if (task_.head_count == 1)
        copy_query_block<E>(task_.heads[0].query, query, task_.query_end, task_.head_dim, query_);
      for (std::int64_t key = 0; key < task_.key_length; key += kKeyBlock) write_block(query, key);
    }
  }

  // Maximum and log2 of the sum of rows whose log-sum-exp is large; of the others that alone.
  void references(Real* reference, Real* rest, double first_score) {
    const auto* logsumexp = static_cast<const Real*>(task_.heads[0].logsumexp);
    for (std::int64_t query = task_.query_begin; query < task_.query_end; query += kTileRows) {
      const std::int64_t rows = std::min<std::int64_t>(kTileRows, task_.query_end - query);
      bool has_large = false;
      for (std::int64_t q = query; q < query + rows; ++q) {
        reference[q] = reference_of(logsumexp[q]);
        rest[q] = 0;
        has_large |= is_large_logsumexp(logsumexp[q]);
      }
      if (has_large) sum_rows(query, rows, reference, rest, first_score);
    }
  }

  // delta += sum over keys of P * d_weights * factor.
  void dot(const Plane& d_weights, Real factor, Real* delta) {
    const auto bytes = static_cast<std::int64_t>(item_size(d_weights.dtype));
    for (std::int64_t query = task_.query_begin; query < task_.query_end; query += kTileRows) {
      copy_query_block<E>(task_.heads[0].query, query, task_.query_end, task_.head_dim, query_);
      for (std::int64_t key = 0; key < task_.key_length; key += kKeyBlock) {
        const std::int64_t count = std::min(kKeyBlock, task_.key_length - key);
        compute(task_.heads[0], query, key, count);
        for (std::int64_t r = 0; r < std::min<std::int64_t>(kTileRows, task_.query_end - query); ++r) {
          const std::int64_t offset = (query + r) * d_weights.row_stride + key * d_weights.column_stride;
          const Rows row = {const_cast<std::byte*>(d_weights.data) + offset * bytes, 0, d_weights.dtype};
          Real sum = 0;
          with_type<Real>(row, [&](const auto* source) HWY_ATTR {
            for (std::int64_t k = 0; k < count; ++k) {
              const Real p = scores_[r * kKeyBlock + k];
              if (p != 0) sum += p * convert<Real>(source[k * d_weights.column_stride]);
            }
          });
          delta[query + r] += sum * factor;
        }
      }
    }
  }

 private:
  void sum_rows(std::int64_t query, std::int64_t rows, Real* reference, Real* rest, double first_score) {
    double largest[kTileRows], sum[kTileRows];
    std::fill_n(largest, kTileRows, first_score);
    std::fill_n(sum, kTileRows, first_score == kMasked<double> ? 0.0 : 1.0);
    copy_query_block<E>(task_.heads[0].query, query, task_.query_end, task_.head_dim, query_);
    for (std::int64_t key = 0; key < task_.key_length; key += kKeyBlock) {
      const std::int64_t count = std::min(kKeyBlock, task_.key_length - key);
      compute(task_.heads[0], query, key, count);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t k = 0; k < count; ++k) {
          const double score = scores_[r * kKeyBlock + k];
          if (score == kMasked<double>) continue;
          if (score > largest[r]) sum[r] *= std::exp2(largest[r] - score);
          largest[r] = std::max(largest[r], score);
          sum[r] += std::exp2(score - largest[r]);
        }
      }
    }
    const auto* logsumexp = static_cast<const Real*>(task_.heads[0].logsumexp) + query;
    for (std::int64_t r = 0; r < rows; ++r) {
      if (!is_large_logsumexp(logsumexp[r])) continue;
      reference[query + r] = static_cast<Real>(largest[r]);
      rest[query + r] = static_cast<Real>(std::log2(sum[r]));
    }
  }

  // Weights of the queries [query, query + kTileRows) and the keys [key, key + kKeyBlock), the mean over all heads.
  void write_block(std::int64_t query, std::int64_t key) {
    const D d;
    const std::int64_t count = std::min(kKeyBlock, task_.key_length - key);
    const int rows = static_cast<int>(std::min<std::int64_t>(kTileRows, task_.query_end - query));
    if (task_.head_count == 1 && write_directly(query, key, count, rows)) return;
    Real* target = task_.head_count == 1 ? scores_ : sum_;
    for (std::int64_t h = 0; h < task_.head_count; ++h) {
      if (task_.head_count > 1)
        copy_query_block<E>(task_.heads[h].query, query, task_.query_end, task_.head_dim, query_);
      compute(task_.heads[h], query, key, count);
      if (task_.head_count == 1) break;
      for (std::int64_t i = 0; i < kTileRows * kKeyBlock; i += kLane) {
        const V earlier = h == 0 ? hn::Zero(d) : hn::Load(d, sum_ + i);
        hn::Store(hn::Add(earlier, hn::Load(d, scores_ + i)), d, sum_ + i);
      }
    }
    const Real factor = Real(1) / static_cast<Real>(task_.head_count);
    for (int r = 0; r < rows; ++r) write_row(target + r * kKeyBlock, task_.weights, query + r, key, count, factor);
  }

  // The common case: probabilities that all rows see, straight from the registers to the user's memory.
  bool write_directly(std::int64_t query, std::int64_t key, std::int64_t count, int rows) {
    if constexpr (!Arithmetic<E>::kFoldsScale) {
      return false;
    } else {
      const WeightsHead& head = task_.heads[0];
      const RowLimits limits(*head.rule, query, task_.query_end);
      const bool whole = rows == kTileRows && count % kColumns == 0 && limits.all_see(key, key + count);
      if (!whole || task_.kind != WeightsKind::softmax || !head.rule->is_plain() || head.references.reference ||
          task_.weights.dtype != dtype_of<E>) {
        return false;
      }
      const D d;
      const Real* logsumexp = static_cast<const Real*>(head.logsumexp) + query;
      Real* weights = reinterpret_cast<Real*>(task_.weights.data) + query * task_.weights.stride;
      for (std::int64_t column = key; column < key + count; column += kColumns) {
        Tile<E, kTileRows, 2> tile;
#pragma GCC unroll 8
        for (int r = 0; r < kTileRows; ++r) {
          tile.sum[r][0] = tile.sum[r][1] = hn::Set(d, -logsumexp[r] * static_cast<Real>(kLog2E));
        }
        multiply_strips(query_, kTileRows * kColumns, static_cast<const E*>(head.packed_keys) + column * depth_, depth_,
                        tile);
#pragma GCC unroll 8
        for (int r = 0; r < kTileRows; ++r) {
          hn::StoreU(exp2_finite(d, tile.sum[r][0]), d, weights + r * task_.weights.stride + column);
          hn::StoreU(exp2_finite(d, tile.sum[r][1]), d, weights + r * task_.weights.stride + column + kLane);
        }
      }
      return true;
    }
  }

  // scores (kTileRows, count) of one head, in the form that was asked for; its queries are in query_.
  void compute(const WeightsHead& head, std::int64_t query, std::int64_t key, std::int64_t count) {
    const D d;
    const RowLimits limits(*head.rule, query, task_.query_end);
    const bool all = task_.kind == WeightsKind::scores || task_.kind == WeightsKind::softcapped;
    const std::int64_t begin = all ? key : std::max(key, limits.min_first / kColumns * kColumns);
    const std::int64_t end = all ? key + count : std::min(key + count, limits.max_end);
    const bool masks = task_.kind == WeightsKind::masked || task_.kind == WeightsKind::base2;
    const Real outside = masks ? kMasked<Real> : Real(0);
    if (begin >= end) {
      std::fill_n(scores_, kTileRows * kKeyBlock, outside);
      return;
    }
    const E* keys = static_cast<const E*>(head.packed_keys);
    for (std::int64_t column = begin; column < end; column += kColumns) {
      Tile<E, kTileRows, 2> tile;
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) tile.sum[r][0] = tile.sum[r][1] = hn::Zero(d);
      multiply_strips(query_, kTileRows * kColumns, keys + column * depth_, depth_, tile);
      const V factor = hn::Set(d, Arithmetic<E>::kFoldsScale ? Real(1) : factor_);
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) {
        hn::Store(hn::Mul(tile.sum[r][0], factor), d, scores_ + r * kKeyBlock + column - key);
        hn::Store(hn::Mul(tile.sum[r][1], factor), d, scores_ + r * kKeyBlock + column - key + kLane);
      }
    }
    const std::int64_t padded = round_up(end, kColumns);
    for (int r = 0; r < std::min<std::int64_t>(kTileRows, task_.query_end - query); ++r) {
      Real* row = scores_ + r * kKeyBlock;
      finish_row(head, query + r, limits.first[r], limits.end[r], begin, end, row + begin - key);
      std::fill(row, row + begin - key, outside);
      std::fill(row + padded - key, row + kKeyBlock, outside);
    }
  }

  // From base-2 scores of the keys [begin, end) to what was asked for.
  void finish_row(const WeightsHead& head, std::int64_t query, std::int64_t first, std::int64_t last,
                  std::int64_t begin, std::int64_t end, Real* row) {
    const D d;
    const V natural = hn::Set(d, static_cast<Real>(kLn2));
    const std::int64_t columns = round_up(end, kColumns) - begin;
    const ScoreModifier<Real> modifier(*head.rule);
    if (task_.kind == WeightsKind::scores || task_.kind == WeightsKind::softcapped) {
      const bool cap = task_.kind == WeightsKind::softcapped;
      for (std::int64_t c = 0; c < columns; c += kLane) {
        const V s = hn::Load(d, row + c);
        hn::Store(hn::Mul(cap ? modifier.cap(d, s) : s, natural), d, row + c);
      }
      return;
    }
    const Real* bias = nullptr;
    if (modifier.has_bias()) {
      modifier.bias_row(query, begin, end, columns, bias_);
      bias = bias_;
    }
    const Real logsumexp = static_cast<const Real*>(head.logsumexp)[query];
    const RowReferences& references = head.references;
    const V reference = hn::Set(d, references.reference ? static_cast<const Real*>(references.reference)[query]
                                                        : logsumexp * static_cast<Real>(kLog2E));
    const V rest = hn::Set(d, references.reference ? static_cast<const Real*>(references.rest)[query] : Real(0));
    const bool empty = logsumexp == kMasked<Real>;
    const std::int64_t position = query + head.rule->query_offset;
    for (std::int64_t c = 0; c < columns; c += kLane) {
      V s = modifier.cap(d, hn::Load(d, row + c));
      s = modifier.add_bias(d, s, static_cast<Real>(begin + c - position), bias ? bias + c : nullptr);
      const auto see = visible(d, begin + c, first, last);
      if (task_.kind == WeightsKind::masked) {
        s = hn::IfThenElse(see, hn::Mul(s, natural), hn::Set(d, kMasked<Real>));
      } else if (task_.kind == WeightsKind::base2) {
        s = hn::IfThenElse(see, s, hn::Set(d, kMasked<Real>));
      } else {
        s = empty ? hn::Zero(d) : hn::IfThenElseZero(see, exp2(d, hn::Sub(hn::Sub(s, reference), rest)));
      }
      hn::Store(s, d, row + c);
    }
  }

  const WeightsTask& task_;
  const std::int64_t depth_;
  const Real factor_;
  E* query_;      // (strips, kTileRows, tile columns)
  Real* sum_;     // (kTileRows, kKeyBlock): over heads
  Real* scores_;  // (kTileRows, kKeyBlock)
  Real* bias_;    // (kKeyBlock)
};

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
