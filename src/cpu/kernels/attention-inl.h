// The forward loop: a chunk of queries of one head against all of its keys.
//
//   for each block of keys (K and V of a block stay in the L2 cache)
//     for each block of kTileRows queries
//       S = Q K^T           (tiles of kTileRows x two vectors, in registers)
//       P = exp2(S - m)     (the tile leaves the registers as probabilities)
//       O += P V
//
// m is a row's reference, not its running maximum: the largest of the first scores that the row sees, then frozen. The
// softmax is the same for every m; only overflow matters. When a block's sums leave the safe range the block is done
// again with the exact maximum, and so is everything that has a bias, a mask, a softcap or ALiBi.
#pragma once

#include "cpu/kernels/attention.h"
#include "cpu/kernels/dropout-inl.h"
#include "cpu/kernels/math-inl.h"
#include "cpu/kernels/pack-inl.h"
#include "cpu/kernels/product-inl.h"
#include "cpu/kernels/scores-inl.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// Keys per visit of a row block: their K and V fill at most half of a 1 MB L2 cache.
HWY_INLINE std::int64_t key_block_size(std::int64_t head_dim, std::int64_t value_dim) {
  std::int64_t size = kKeyBlock;
  while (size > 64 && size * (head_dim + value_dim) > 512 * 256) size /= 2;
  return size;
}

// Past this a lane's sum shows that the reference has fallen too far behind the scores: the exponents then cost digits,
// and values of any size must stay clear of overflow. A reference within 2^12 costs neither.
template <typename Real>
inline constexpr Real kSafeSum = Real(4096);

template <typename E>
class Forward {
  using Real = RealOf<E>;
  using D = VectorTag<E>;
  using V = VectorOf<E>;
  static constexpr int kLane = kLanes<E>;
  static constexpr int kColumns = kTileColumns<E>;
  static constexpr std::int64_t kValues = Arithmetic<E>::kValues;
  static constexpr int kProbabilityStride = kKeyBlock / kValues;
  static constexpr std::int64_t kChunkRows = (kQueryChunk + kTileRows - 1) / kTileRows * kTileRows;
  static constexpr std::int64_t kPaddedRows = (kChunkRows + kLane - 1) / kLane * kLane;  // read in whole vectors

 public:
  static std::size_t workspace_bytes(std::int64_t head_dim, std::int64_t value_dim) {
    return query_bytes(head_dim) + output_bytes(value_dim) + 2 * score_bytes() +
           kTileRows * kProbabilityStride * sizeof(E) + kChunkRows * kKeyBlock +
           sizeof(Real) * (kChunkRows * kLane + 2 * kPaddedRows + kTileRows * kLane) + 1024;
  }

  Forward(const ForwardTask& task, std::byte* workspace)
      : task_(task),
        rule_(*task.rule),
        modifier_(*task.rule),
        depth_(element_count<E>(task.head_dim)),
        padded_depth_(round_up(depth_, kColumns)),
        padded_values_(round_up(task.value_dim, kLane)),
        key_block_(key_block_size(task.head_dim, task.value_dim)),
        factor_(static_cast<Real>(task.scale * kLog2E)) {
    queries_ = take<E>(workspace, query_bytes(task.head_dim));
    output_ = take<Real>(workspace, output_bytes(task.value_dim));
    scores_ = take<Real>(workspace, score_bytes());
    bias_ = take<Real>(workspace, score_bytes());
    probabilities_ = take<E>(workspace, kTileRows * kProbabilityStride * sizeof(E));
    keep_ = take<std::uint8_t>(workspace, kChunkRows * kKeyBlock);
    sums_ = take<Real>(workspace, kChunkRows * kLane * sizeof(Real));
    reference_ = take<Real>(workspace, kPaddedRows * sizeof(Real));
    total_ = take<Real>(workspace, kPaddedRows * sizeof(Real));
    block_sums_ = take<Real>(workspace, kTileRows * kLane * sizeof(Real));
  }

  void run() {
    const std::int64_t rows = task_.query_end - task_.query_begin;
    const std::int64_t blocks = (rows + kTileRows - 1) / kTileRows;
    std::int64_t first = kUnlimited, end = 0;
    for (std::int64_t b = 0; b < blocks; ++b) {
      copy_query_block<E>(task_.query, query_of(b), task_.query_end, task_.head_dim,
                          queries_ + b * kTileRows * padded_depth_);
      const RowLimits limits(rule_, query_of(b), task_.query_end);
      if (limits.max_end > limits.min_first) {
        first = std::min(first, limits.min_first);
        end = std::max(end, limits.max_end);
      }
    }
    for (std::int64_t b = 0; b < blocks; ++b) reset(b);
    for (std::int64_t key = first / key_block_ * key_block_; key < end; key += key_block_) {
      if (rule_.dropout.threshold) {
        fill_keep(rule_, task_.query_begin, task_.query_end, key, std::min(key + key_block_, end), keep_, kKeyBlock);
      }
      for (std::int64_t b = 0; b < blocks; ++b) visit(b, key, false);
    }
    finish(blocks);
  }

 private:
  static std::size_t query_bytes(std::int64_t head_dim) {
    return kChunkRows * round_up(element_count<E>(head_dim), kColumns) * sizeof(E);
  }
  static std::size_t output_bytes(std::int64_t value_dim) {
    return kChunkRows * round_up(value_dim, kLane) * sizeof(Real);
  }
  static std::size_t score_bytes() { return kTileRows * kKeyBlock * sizeof(Real); }

  template <typename T>
  static T* take(std::byte*& workspace, std::size_t bytes) {
    T* taken = reinterpret_cast<T*>(workspace);
    workspace += round_up(bytes, 64);
    return taken;
  }

  std::int64_t query_of(std::int64_t block) const { return task_.query_begin + block * kTileRows; }

  void reset(std::int64_t block) {
    for (int r = 0; r < kTileRows; ++r) reference_[block * kTileRows + r] = kMasked<Real>;
    std::fill_n(sums_ + block * kTileRows * kLane, kTileRows * kLane, Real(0));
    std::fill_n(output_ + block * kTileRows * padded_values_, kTileRows * padded_values_, Real(0));
  }

  // One block of queries against the keys [key, key + key_block_).
  void visit(std::int64_t block, std::int64_t key, bool careful) {
    const RowLimits limits(rule_, query_of(block), task_.query_end);
    const std::int64_t begin = std::max(key, limits.min_first / kColumns * kColumns);
    const std::int64_t end = std::min(key + key_block_, limits.max_end);
    if (begin >= end) return;
    const bool lazy = !careful && rule_.is_plain();
    if (!lazy || !lazy_softmax(block, key, begin, end, limits)) exact_softmax(block, key, begin, end, limits);
    if (rule_.dropout.threshold) drop(block, key, begin, end);
    if (careful) {
      add_values_carefully(block, key, begin, end);
    } else {
      add_values(block, key, begin, end);
    }
  }

  const E* key_tile(std::int64_t column) const { return static_cast<const E*>(task_.packed_keys) + column * depth_; }

  // P = exp2(S - m) with a frozen m; false when m could not be found or a sum came near overflow.
  bool lazy_softmax(std::int64_t block, std::int64_t key, std::int64_t begin, std::int64_t end,
                    const RowLimits& limits) {
    Real* reference = reference_ + block * kTileRows;
    std::int64_t column = begin;
    Real found[kTileRows];
    bool fresh = false;
    for (int r = 0; r < kTileRows; ++r) {
      found[r] = reference[r];
      fresh |= reference[r] == kMasked<Real>;
    }
    std::fill_n(block_sums_, kTileRows * kLane, Real(0));
    if (fresh) {
      const bool narrow = end - column <= kLane;
      const bool usable =
          narrow ? first_tile<1>(block, key, column, limits, found) : first_tile<2>(block, key, column, limits, found);
      if (!usable) return false;
      column += kColumns;
    }
    for (; column < end; column += kColumns) {
      if (limits.all_see(column, column + kColumns)) {
        tile<2, false>(block, key, column, limits, found);
      } else if (end - column <= kLane) {
        tile<1, true>(block, key, column, limits, found);
      } else {
        tile<2, true>(block, key, column, limits, found);
      }
    }
    return commit(block, found);
  }

  // Adds the block's sums to the rows', unless one is too large or NaN.
  bool commit(std::int64_t block, const Real (&found)[kTileRows]) {
    const D d;
    Real* sums = sums_ + block * kTileRows * kLane;
    auto safe = hn::Eq(hn::Zero(d), hn::Zero(d));
    for (int r = 0; r < kTileRows; ++r) {
      safe = hn::And(safe, hn::Le(hn::Load(d, block_sums_ + r * kLane), hn::Set(d, kSafeSum<Real>)));
    }
    if (!hn::AllTrue(d, safe)) return false;
    for (int r = 0; r < kTileRows; ++r) {
      hn::Store(hn::Add(hn::Load(d, sums + r * kLane), hn::Load(d, block_sums_ + r * kLane)), d, sums + r * kLane);
      reference_[block * kTileRows + r] = found[r];
    }
    return true;
  }

  // The first tile that a row block sees: its row maxima become the references of the rows that have none.
  template <int kVectors>
  bool first_tile(std::int64_t block, std::int64_t key, std::int64_t column, const RowLimits& limits,
                  Real (&found)[kTileRows]) {
    const D d;
    const V masked = hn::Set(d, kMasked<Real>);
    Tile<E, kTileRows, kVectors> tile;
    raw_scores(block, column, tile);
    bool usable = true;
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      hn::Mask<D> see[kVectors];
      V maximum = masked;
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        see[v] = visible(d, column + v * kLane, limits.first[r], limits.end[r]);
        maximum = hn::Max(maximum, hn::IfThenElse(see[v], tile.sum[r][v], masked));
      }
      if (found[r] == kMasked<Real>) {
        found[r] = hn::GetLane(hn::MaxOfLanes(d, maximum));
        usable &= found[r] > kMasked<Real> && found[r] < -kMasked<Real>;
      }
      V p[2] = {hn::Zero(d), hn::Zero(d)};
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const V x = hn::Sub(tile.sum[r][v], hn::Set(d, found[r]));
        p[v] = hn::IfThenElseZero(see[v], exp2_finite<Arithmetic<E>::kShortExp>(d, x));
      }
      hn::Store(hn::Add(p[0], p[1]), d, block_sums_ + r * kLane);
      store_probabilities(r, column - key, p[0], p[1]);
    }
    return usable;
  }

  // One tile of probabilities; kBounded: some row does not see all of its columns.
  template <int kVectors, bool kBounded>
  HWY_INLINE void tile(std::int64_t block, std::int64_t key, std::int64_t column, const RowLimits& limits,
                       const Real (&found)[kTileRows]) {
    const D d;
    Tile<E, kTileRows, kVectors> tile;
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        tile.sum[r][v] = Arithmetic<E>::kFoldsScale ? hn::Set(d, -found[r]) : hn::Zero(d);
      }
    }
    multiply_strips(queries_ + block * kTileRows * padded_depth_, kTileRows * kColumns, key_tile(column), depth_, tile);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      V p[2];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        V x = tile.sum[r][v];
        if constexpr (!Arithmetic<E>::kFoldsScale) x = hn::MulSub(x, hn::Set(d, factor_), hn::Set(d, found[r]));
        p[v] = exp2_finite<Arithmetic<E>::kShortExp>(d, x);
        if constexpr (kBounded) {
          p[v] = hn::IfThenElseZero(visible(d, column + v * kLane, limits.first[r], limits.end[r]), p[v]);
        }
      }
      if constexpr (kVectors == 1) p[1] = hn::Zero(d);
      const V sum = kVectors == 1 ? p[0] : hn::Add(p[0], p[1]);
      hn::Store(hn::Add(hn::Load(d, block_sums_ + r * kLane), sum), d, block_sums_ + r * kLane);
      store_probabilities(r, column - key, p[0], p[1]);
    }
  }

  HWY_INLINE void store_probabilities(int row, std::int64_t column, V low, V high) {
    E* target = probabilities_ + row * kProbabilityStride + column / kValues;
    if constexpr (std::is_same_v<E, Bf16Pair>) {
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
      _mm512_storeu_si512(target, (__m512i)_mm512_cvtne2ps_pbh(high.raw, low.raw));
#endif
    } else {
      hn::StoreU(low, D(), target);
      hn::StoreU(high, D(), target + kLane);
    }
  }

  // The scores of one tile in base 2.
  template <int kVectors>
  HWY_INLINE void raw_scores(std::int64_t block, std::int64_t column, Tile<E, kTileRows, kVectors>& tile) {
    const D d;
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) tile.sum[r][v] = hn::Zero(d);
    }
    multiply_strips(queries_ + block * kTileRows * padded_depth_, kTileRows * kColumns, key_tile(column), depth_, tile);
    if constexpr (!Arithmetic<E>::kFoldsScale) {
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) tile.sum[r][v] = hn::Mul(tile.sum[r][v], hn::Set(d, factor_));
      }
    }
  }

  // P = exp2(S - m) with m the exact maximum so far; what was summed under an older m is scaled to the new one.
  void exact_softmax(std::int64_t block, std::int64_t key, std::int64_t begin, std::int64_t end,
                     const RowLimits& limits) {
    const std::int64_t columns = round_up(end, kColumns) - begin;
    const int rows = static_cast<int>(std::min<std::int64_t>(kTileRows, task_.query_end - query_of(block)));
    if (modifier_.has_bias()) {
      const int distinct = modifier_.same_for_all_rows() ? 1 : rows;
      for (int r = 0; r < distinct; ++r) {
        modifier_.bias_row(query_of(block) + r, begin, end, columns, bias_ + r * kKeyBlock);
      }
    }
    for (std::int64_t column = begin; column < end; column += kColumns) {
      Tile<E, kTileRows, 2> tile;
      raw_scores(block, column, tile);
      for (int r = 0; r < kTileRows; ++r) {
        hn::Store(tile.sum[r][0], D(), scores_ + r * kKeyBlock + column - begin);
        hn::Store(tile.sum[r][1], D(), scores_ + r * kKeyBlock + column - begin + kLane);
      }
    }
    for (int r = 0; r < rows; ++r) {
      const Real* bias = modifier_.has_bias() ? bias_ + (modifier_.same_for_all_rows() ? 0 : r) * kKeyBlock : nullptr;
      exact_row(block, r, key, begin, columns, limits, bias);
    }
    for (int r = rows; r < kTileRows; ++r) {
      for (std::int64_t c = 0; c < columns; c += kColumns) {
        store_probabilities(r, begin - key + c, hn::Zero(D()), hn::Zero(D()));
      }
    }
  }

  void exact_row(std::int64_t block, int r, std::int64_t key, std::int64_t begin, std::int64_t columns,
                 const RowLimits& limits, const Real* bias) {
    const D d;
    Real* scores = scores_ + r * kKeyBlock;
    const std::int64_t row = block * kTileRows + r;
    const std::int64_t position = query_of(block) + r + rule_.query_offset;
    V maximum = hn::Set(d, kMasked<Real>);
    auto nan = hn::IsNaN(maximum);
    for (std::int64_t c = 0; c < columns; c += kLane) {
      V s = modifier_.cap(d, hn::Load(d, scores + c));
      s = modifier_.add_bias(d, s, static_cast<Real>(begin + c - position), bias ? bias + c : nullptr);
      s = hn::IfThenElse(visible(d, begin + c, limits.first[r], limits.end[r]), s, hn::Set(d, kMasked<Real>));
      hn::Store(s, d, scores + c);
      nan = hn::Or(nan, hn::IsNaN(s));
      maximum = hn::Max(maximum, s);
    }
    const Real old = reference_[row];
    // A NaN may or may not survive Max. Any reference will do then: the row shows it through its probability.
    const bool finite = hn::AllFalse(d, nan);
    const Real m = std::max(old, finite ? hn::GetLane(hn::MaxOfLanes(d, maximum)) : Real(0));
    if (m == kMasked<Real>) {
      for (std::int64_t c = 0; c < columns; c += kColumns) {
        store_probabilities(r, begin - key + c, hn::Zero(d), hn::Zero(d));
      }
      return;
    }
    V sum = hn::Load(d, sums_ + row * kLane);
    if (m != old) {
      const V correction = exp2(d, hn::Set(d, old - m));
      sum = hn::Mul(sum, correction);
      Real* output = output_ + row * padded_values_;
      for (std::int64_t c = 0; c < padded_values_; c += kLane) {
        hn::Store(hn::Mul(hn::Load(d, output + c), correction), d, output + c);
      }
      reference_[row] = m;
    }
    for (std::int64_t c = 0; c < columns; c += kColumns) {
      const V low = exp2(d, hn::Sub(hn::Load(d, scores + c), hn::Set(d, m)));
      const V high = exp2(d, hn::Sub(hn::Load(d, scores + c + kLane), hn::Set(d, m)));
      sum = hn::Add(sum, hn::Add(low, high));
      store_probabilities(r, begin - key + c, low, high);
    }
    hn::Store(sum, d, sums_ + row * kLane);
  }

  void drop(std::int64_t block, std::int64_t key, std::int64_t begin, std::int64_t end) {
    const int rows = static_cast<int>(std::min<std::int64_t>(kTileRows, task_.query_end - query_of(block)));
    for (int r = 0; r < rows; ++r) {
      E* p = probabilities_ + r * kProbabilityStride + (begin - key) / kValues;
      const std::uint8_t* keep = keep_ + (block * kTileRows + r) * kKeyBlock + begin - key;
      drop_row(p, keep, end - begin);
    }
  }

  // The 1 / (1 - p) of dropout is applied once, to the output.
  HWY_INLINE void drop_row(E* p, const std::uint8_t* keep, std::int64_t columns) {
    if constexpr (std::is_same_v<E, Bf16Pair>) {
      for (std::int64_t c = 0; c < columns; c += 2) {
        p[c / 2].bits &= (keep[c] ? 0xFFFFu : 0u) | (keep[c + 1] ? 0xFFFF0000u : 0u);
      }
    } else {
      const D d;
      for (std::int64_t c = 0; c < columns; c += kLane) {
        hn::Store(apply_keep(d, hn::Load(d, p + c), keep + c, hn::Set(d, Real(1))), d, p + c);
      }
    }
  }

  // O += P V in strips of two vectors.
  void add_values(std::int64_t block, std::int64_t key, std::int64_t begin, std::int64_t end) {
    const E* p = probabilities_ + (begin - key) / kValues;
    const E* values = static_cast<const E*>(task_.values) + begin / kValues * task_.value_stride;
    const std::int64_t count = (end - begin + kValues - 1) / kValues;
    Real* output = output_ + block * kTileRows * padded_values_;
    std::int64_t c = 0;
    for (; c + kColumns <= padded_values_; c += kColumns) add_strip<2>(p, values + c, count, output + c);
    if (c < padded_values_) add_strip<1>(p, values + c, count, output + c);
  }

  template <int kVectors>
  HWY_INLINE void add_strip(const E* p, const E* values, std::int64_t count, Real* output) {
    const D d;
    Tile<E, kTileRows, kVectors> tile;
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) tile.sum[r][v] = hn::Load(d, output + r * padded_values_ + v * kLane);
    }
    multiply<kProbabilityStride, 1>(p, values, task_.value_stride, count, tile);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) hn::Store(tile.sum[r][v], d, output + r * padded_values_ + v * kLane);
    }
  }

  // O += P V where a zero probability hides its value, whatever that is.
  void add_values_carefully(std::int64_t block, std::int64_t key, std::int64_t begin, std::int64_t end) {
    const E* values = static_cast<const E*>(task_.values);
    for (int r = 0; r < kTileRows; ++r) {
      Real* output = output_ + (block * kTileRows + r) * padded_values_;
      for (std::int64_t k = begin; k < end; ++k) {
        const Real p = value_of(probabilities_[r * kProbabilityStride + (k - key) / kValues], k);
        if (p == 0) continue;
        const E* row = values + k / kValues * task_.value_stride;
        for (std::int64_t c = 0; c < task_.value_dim; ++c) output[c] += p * value_of(row[c], k);
      }
    }
  }

  // True when every number of the row block's output is finite.
  bool is_finite(std::int64_t block) const {
    const D d;
    V difference = hn::Zero(d);  // x - x is 0 for finite x, NaN otherwise
    const Real* output = output_ + block * kTileRows * padded_values_;
    for (std::int64_t c = 0; c < kTileRows * padded_values_; c += kLane) {
      const V x = hn::Load(d, output + c);
      difference = hn::Add(difference, hn::Sub(x, x));
    }
    return hn::AllTrue(d, hn::Eq(difference, hn::Zero(d)));
  }

  // The whole row block again, exactly: a masked value may not be finite.
  void redo_carefully(std::int64_t block) {
    const RowLimits limits(rule_, query_of(block), task_.query_end);
    const std::int64_t last = std::min(query_of(block) + kTileRows, task_.query_end);
    reset(block);
    for (std::int64_t key = limits.min_first / key_block_ * key_block_; key < limits.max_end; key += key_block_) {
      if (rule_.dropout.threshold) {
        fill_keep(rule_, query_of(block), last, key, std::min(key + key_block_, limits.max_end),
                  keep_ + block * kTileRows * kKeyBlock, kKeyBlock);
      }
      visit(block, key, true);
    }
  }

  // output = O / sum, logsumexp = m + log(sum).
  void finish(std::int64_t blocks) {
    const D d;
    const std::int64_t rows = task_.query_end - task_.query_begin;
    for (std::int64_t b = 0; b < blocks; ++b) {
      if (!is_finite(b)) redo_carefully(b);
    }
    const Real keep_scale = static_cast<Real>(rule_.dropout.threshold ? rule_.dropout.scale : 1.0);
    for (std::int64_t r = 0; r < rows; ++r) {
      total_[r] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, sums_ + r * kLane)));
      Real correction = 1;
      if (task_.has_sink) correction = add_sink(r);
      const Real normalizer = total_[r] == 0 ? Real(0) : keep_scale * correction / total_[r];
      write_row(output_ + r * padded_values_, task_.output, task_.query_begin + r, 0, task_.value_dim, normalizer);
    }
    Real* logsumexp = static_cast<Real*>(task_.logsumexp) + task_.query_begin;
    for (std::int64_t r = 0; r < rows; r += kLane) {
      const V log = hn::MulAdd(hn::Load(d, reference_ + r), hn::Set(d, static_cast<Real>(kLn2)),
                               hn::Log(d, hn::Load(d, total_ + r)));
      hn::Store(log, d, scores_);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(kLane, rows - r); ++i) {
        const Real total = total_[r + i];
        // Log is for positive finite numbers.
        logsumexp[r + i] = total == 0 ? kMasked<Real> : total < -kMasked<Real> ? scores_[i] : total;
      }
    }
  }

  // Joins the sink to a row's sum; returns what the output must be scaled by.
  Real add_sink(std::int64_t row) {
    const Real sink = static_cast<Real>(task_.sink * kLog2E);
    if (sink == kMasked<Real>) return 1;
    const Real old = reference_[row];
    const Real m = std::max(old, sink);
    const Real correction = total_[row] == 0 ? Real(0) : std::exp2(old - m);
    total_[row] = total_[row] * correction + std::exp2(sink - m);
    reference_[row] = m;
    return correction;
  }

  const ForwardTask& task_;
  const ScoreRule& rule_;
  const ScoreModifier<Real> modifier_;
  const std::int64_t depth_;          // elements of a query
  const std::int64_t padded_depth_;   // to whole strips
  const std::int64_t padded_values_;  // value_dim to whole vectors
  const std::int64_t key_block_;
  const Real factor_;   // scale * log2(e), where it is not folded into the keys
  E* queries_;          // (row blocks, strips, kTileRows, tile columns)
  Real* output_;        // (chunk, padded_values)
  Real* scores_;        // (kTileRows, kKeyBlock)
  Real* bias_;          // (kTileRows, kKeyBlock)
  E* probabilities_;    // (kTileRows, kKeyBlock)
  std::uint8_t* keep_;  // (chunk, kKeyBlock)
  Real* sums_;          // (chunk, lanes): partial sums of the probabilities
  Real* reference_;     // (chunk): m, base 2; -inf for a row that saw nothing yet
  Real* total_;         // (chunk)
  Real* block_sums_;    // (kTileRows, lanes)
};

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
