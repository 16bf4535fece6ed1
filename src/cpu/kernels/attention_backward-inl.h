// The backward loop: one block of keys against tiles of queries.
//
//   for each block of keys (K and V packed once, dK and dV in local memory)
//     for each tile of queries
//       S = Q K^T, P = exp2(S - reference), the log-sum-exp
//       dP = dO V^T, dS = P * (dP - delta)
//       dV += P^T dO
//       dK += dS^T Q
//       dQ += dS K          (in the order of tickets: many blocks add to the same dQ)
//
// P and dS lie in panels (backward_panel-inl.h).
#pragma once

#include "cpu/kernels/attention.h"
#include "cpu/kernels/backward_pack-inl.h"
#include "cpu/kernels/backward_panel-inl.h"
#include "cpu/kernels/dropout-inl.h"
#include "cpu/kernels/math-inl.h"
#include "cpu/kernels/pack-inl.h"
#include "cpu/kernels/product-inl.h"
#include "cpu/kernels/scores-inl.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

template <typename E>
class Backward {
  using Real = RealOf<E>;
  using D = VectorTag<E>;
  using V = VectorOf<E>;
  static constexpr int kLane = kLanes<E>;
  static constexpr int kColumns = kTileColumns<E>;
  static constexpr int kValues = Arithmetic<E>::kValues;
  static constexpr bool kPairs = kValues == 2;

  // What backward_begin() prepares for the tiles.
  struct Header {
    bool keys_finite;
  };

 public:
  static std::size_t workspace_bytes(std::int64_t head_dim, std::int64_t value_dim) {
    return Backward({.head_dim = head_dim, .value_dim = value_dim}).bytes_;
  }

  explicit Backward(const BackwardBlock& block)
      : block_(block),
        keys_(block.key_end - block.key_begin),
        depth_(element_count<E>(block.head_dim)),
        value_depth_(element_count<E>(block.value_dim)),
        padded_dim_(round_up(block.head_dim, kColumns)),
        padded_value_dim_(round_up(block.value_dim, kColumns)) {
    header_ = take<Header>(1);
    keys_transposed_ = take<E>(kBackwardKeys * depth_);
    values_transposed_ = take<E>(kBackwardKeys * value_depth_);
    key_rows_ = take<E>(kBackwardKeys / kValues * padded_dim_);
    p_ = take<E>(kBackwardQueries * kBackwardKeys / kValues);
    ds_ = take<E>(kBackwardQueries * kBackwardKeys / kValues);
    ds_by_key_ = kPairs ? take<E>(kBackwardQueries * kBackwardKeys / kValues) : ds_;
    d_keys_ = take<Real>(kBackwardKeys * padded_dim_);
    d_values_ = take<Real>(kBackwardKeys * padded_value_dim_);
    score_gradients_ = take<Real>(kBackwardQueries * kBackwardKeys);
    bias_ = take<Real>(kBackwardQueries * kBackwardKeys);
    keep_ = take<std::uint8_t>(kBackwardQueries * kBackwardKeys);
    tile_p_ = take<Real>(kTileRows * kColumns);
    tile_slope_ = take<Real>(kTileRows * kColumns);
    tile_d_weights_ = take<Real>(kTileRows * kColumns);
  }

  void begin() {
    // Only the scores want log2(e); where the scale is folded it goes with Q, so that dS^T Q needs it no more.
    const Real key_factor = Arithmetic<E>::kFoldsScale ? static_cast<Real>(kLog2E) : Real(1);
    const Rows key = rows_from(block_.key, block_.key_begin), value = rows_from(block_.value, block_.key_begin);
    with_source<E>(key, [&](const auto* source) HWY_ATTR {
      pack_transposed<E>(source, key.stride, 0, keys_, block_.head_dim, key_factor, keys_transposed_);
      header_->keys_finite =
          pack_strips<E>(source, key.stride, keys_, kBackwardKeys, block_.head_dim, Real(1), key_rows_);
    });
    with_source<E>(value, [&](const auto* source) HWY_ATTR {
      pack_transposed<E>(source, value.stride, 0, keys_, block_.value_dim, Real(1), values_transposed_);
    });
    const std::int64_t rows = round_up(keys_, kPanelRows);
    std::fill_n(d_keys_, rows * padded_dim_, Real(0));
    std::fill_n(d_values_, rows * padded_value_dim_, Real(0));
  }

  void tile(const BackwardTile& tile) {
    const QueryTile<E> queries(tile.packed, block_.head_dim, block_.value_dim);
    const ScoreRule& rule = *tile.rule;
    const bool plain =
        rule.is_plain() && !rule.dropout.threshold && !tile.d_weights.data && !tile.wants_bias && !tile.references.rest;
    if (!plain) prepare_rules(tile);
    for (std::int64_t row = 0; row < queries_in(tile); row += kTileRows) {
      prefetch(tile, row, queries.bytes);
      const RowLimits limits(rule, tile.query_begin + row, tile.query_end);
      for (std::int64_t column = 0; column < keys_; column += kColumns) {
        const std::int64_t key = block_.key_begin + column;
        const bool sees = key < limits.max_end && key + kColumns > limits.min_first;
        if (!sees && !tile.reaches_masked_keys()) {
          clear(row, column);
        } else if (!plain) {
          general_scores(tile, queries, row, column, limits);
        } else if (limits.all_see(key, key + kColumns)) {
          plain_scores<2, false>(queries, row, column, limits);
        } else if (!kPairs && keys_ - column <= kLane) {
          plain_scores<1, true>(queries, row, column, limits);
        } else {
          plain_scores<2, true>(queries, row, column, limits);
        }
      }
    }
    if (tile.d_output.data) {
      add_transposed(tile, p_, queries.d_output_rows, !queries.flags->d_outputs_finite, block_.value_dim, d_values_);
    }
    add_transposed(tile, ds_, queries.query_rows, !queries.flags->queries_finite, block_.head_dim, d_keys_);
  }

  // dQ += dS K; with the last keys dQ is scaled and written.
  void query(const BackwardTile& tile) {
    const bool careful = !header_->keys_finite;
    for (std::int64_t row = 0; row < queries_in(tile); row += kTileRows) {
      const RowLimits limits(*tile.rule, tile.query_begin + row, tile.query_end);
      std::int64_t first = 0, end = keys_;
      if (!tile.reaches_masked_keys()) {
        first = std::max<std::int64_t>(0, limits.min_first - block_.key_begin) / (kPanelColumns * kValues);
        first *= kPanelColumns * kValues;
        end = std::min<std::int64_t>(end, limits.max_end - block_.key_begin);
      }
      const int rows = static_cast<int>(std::min<std::int64_t>(kTileRows, queries_in(tile) - row));
      Real* sums = static_cast<Real*>(tile.d_query_sums) + (tile.query_begin + row) * tile.d_query_stride;
      std::int64_t c = 0;
      for (; c + kLane < block_.head_dim; c += kColumns) {
        query_strip<2>(tile, row, rows, c, first, end, careful, sums + c);
      }
      if (c < block_.head_dim) query_strip<1>(tile, row, rows, c, first, end, careful, sums + c);
      if (!tile.last_keys) continue;
      for (int r = 0; r < rows; ++r) {
        write_row(sums + r * tile.d_query_stride, tile.d_query, tile.query_begin + row + r, 0, block_.head_dim,
                  static_cast<Real>(block_.scale));
      }
    }
  }

  void bias(const BackwardTile& tile, const BiasGradient& gradient) {
    for (std::int64_t q = 0; q < queries_in(tile); ++q) {
      Real* row = static_cast<Real*>(gradient.data) + (tile.query_begin + q) * gradient.row_stride;
      const Real* from = score_gradients_ + q * kBackwardKeys;
      for (std::int64_t k = 0; k < keys_; ++k) row[(block_.key_begin + k) * gradient.column_stride] += from[k];
    }
  }

  void end(const Rows& d_key, const Rows& d_value) {
    const Real key_factor = Arithmetic<E>::kFoldsScale ? Real(1) : static_cast<Real>(block_.scale);
    for (std::int64_t k = 0; k < keys_; ++k) {
      write_row(d_keys_ + k * padded_dim_, d_key, block_.key_begin + k, 0, block_.head_dim, key_factor);
      write_row(d_values_ + k * padded_value_dim_, d_value, block_.key_begin + k, 0, block_.value_dim, Real(1));
    }
  }

 private:
  template <typename T>
  T* take(std::int64_t count) {
    T* taken = reinterpret_cast<T*>(block_.workspace + bytes_);
    bytes_ += round_up(count * static_cast<std::int64_t>(sizeof(T)), 64);
    return taken;
  }

  static std::int64_t queries_in(const BackwardTile& tile) { return tile.query_end - tile.query_begin; }

  // Prefetches into the L2 cache what is read soon: these rows of dQ, and as large a part of the next tile of queries.
  HWY_INLINE void prefetch(const BackwardTile& tile, std::int64_t row, std::int64_t bytes) const {
    const std::int64_t query = tile.query_begin + row;
    const Rows sums = {static_cast<std::byte*>(tile.d_query_sums), tile.d_query_stride, dtype_of<Real>};
    prefetch_rows(sums, query, std::min(query + kTileRows, tile.query_end), block_.head_dim);
    if (!tile.next_packed) return;
    const std::int64_t part = bytes * kTileRows / kBackwardQueries;
    const std::byte* from = tile.next_packed + row / kTileRows * part;
    for (std::int64_t b = 0; b < part; b += kLine) __builtin_prefetch(from + b, 0, 2);
  }
  static void prefetch_rows(const Rows& rows, std::int64_t begin, std::int64_t end, std::int64_t dim) {
    const auto bytes = static_cast<std::int64_t>(item_size(rows.dtype));
    for (std::int64_t r = begin; r < end; ++r) {
      const std::byte* row = rows.data + r * rows.stride * bytes;
      for (std::int64_t b = 0; b < dim * bytes; b += kLine) __builtin_prefetch(row + b, 0, 2);
    }
  }

  void prepare_rules(const BackwardTile& tile) {
    const ScoreModifier<Real> modifier(*tile.rule);
    if (modifier.has_bias()) {
      const std::int64_t end = std::max(block_.key_begin, std::min(block_.key_end, tile.rule->key_count));
      const std::int64_t padded = round_up(keys_, kColumns);
      for (std::int64_t q = 0; q < queries_in(tile); ++q) {
        Real* row = bias_ + q * kBackwardKeys;
        if (q > 0 && modifier.same_for_all_rows()) {
          std::copy_n(bias_, padded, row);
        } else {
          modifier.bias_row(tile.query_begin + q, block_.key_begin, end, padded, row);
        }
      }
    }
    if (tile.rule->dropout.threshold) {
      fill_keep(*tile.rule, tile.query_begin, tile.query_end, block_.key_begin, block_.key_end, keep_, kBackwardKeys);
    }
  }

  // S or dP of one tile: strips (dim / tile columns, kBackwardQueries, tile columns) times transposed keys or values.
  template <int kVectors>
  HWY_INLINE void multiply_tile(const E* strips, const E* transposed, std::int64_t row, std::int64_t column,
                                std::int64_t depth, Tile<E, kTileRows, kVectors>& tile) {
    multiply_strips(strips + row * kColumns, kBackwardQueries * kColumns, transposed + column * depth, depth, tile);
  }

  template <int kVectors>
  HWY_INLINE void start(Tile<E, kTileRows, kVectors>& tile, const Real* negated) {
    const D d;
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) tile.sum[r][v] = negated ? hn::Set(d, -negated[r]) : hn::Zero(d);
    }
  }

  // P and dS of a tile without bias, mask tensor, softcap, ALiBi or dropout.
  template <int kVectors, bool kBounded>
  HWY_INLINE void plain_scores(const QueryTile<E>& queries, std::int64_t row, std::int64_t column,
                               const RowLimits& limits) {
    const D d;
    Tile<E, kTileRows, kVectors> s;
    start(s, Arithmetic<E>::kFoldsScale ? queries.reference + row : nullptr);
    multiply_tile(queries.queries, keys_transposed_, row, column, depth_, s);
    const V factor = hn::Set(d, static_cast<Real>(block_.scale * kLog2E));
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        V x = s.sum[r][v];
        if constexpr (!Arithmetic<E>::kFoldsScale) x = hn::MulSub(x, factor, hn::Set(d, queries.reference[row + r]));
        V p = exp2_finite<Arithmetic<E>::kShortExp>(d, x);
        if constexpr (kBounded) {
          const std::int64_t key = block_.key_begin + column + v * kLane;
          p = hn::IfThenElseZero(visible(d, key, limits.first[r], limits.end[r]), p);
        }
        if constexpr (kPairs) hn::Store(p, d, tile_p_ + r * kColumns + v * kLane);
        s.sum[r][v] = p;
      }
    }
    store_panel(p_, row, column, s);
    Tile<E, kTileRows, kVectors> dp;
    start(dp, queries.delta + row);
    multiply_tile(queries.d_outputs, values_transposed_, row, column, value_depth_, dp);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        V p;
        if constexpr (kPairs) {
          p = hn::Load(d, tile_p_ + r * kColumns + v * kLane);
        } else {
          p = hn::Load(d, p_ + panel_offset<E>(row + r, column + v * kLane));
        }
        V ds = hn::Mul(dp.sum[r][v], p);
        // Behind a mask dP may be NaN.
        if constexpr (kBounded) ds = hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d)), ds);
        dp.sum[r][v] = ds;
      }
    }
    store_panel(ds_, row, column, dp);
    if constexpr (kPairs && kVectors == 2) store_key_pairs(ds_by_key_, row, column, dp);
  }

  // P and dS of a tile with any option.
  void general_scores(const BackwardTile& tile, const QueryTile<E>& queries, std::int64_t row, std::int64_t column,
                      const RowLimits& limits) {
    Tile<E, kTileRows, 2> s;
    start(s, nullptr);
    multiply_tile(queries.queries, keys_transposed_, row, column, depth_, s);
    // Rows past the last query have no bias and no dropout to read, and a pair may hold one.
    const int rows = static_cast<int>(std::min<std::int64_t>(kTileRows, queries_in(tile) - row));
    for (int r = rows; r < kTileRows; ++r) s.sum[r][0] = s.sum[r][1] = hn::Zero(D());
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < 2; ++v)
        s.sum[r][v] = general_probability(tile, queries, row + r, column + v * kLane, s.sum[r][v], limits, r);
    }
    store_panel(p_, row, column, s);
    Tile<E, kTileRows, 2> dp;
    start(dp, nullptr);
    multiply_tile(queries.d_outputs, values_transposed_, row, column, value_depth_, dp);
    if (tile.d_weights.data) read_d_weights(tile, row, column);
    for (int r = rows; r < kTileRows; ++r) dp.sum[r][0] = dp.sum[r][1] = hn::Zero(D());
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < 2; ++v) dp.sum[r][v] = general_gradient(tile, queries, row, r, column, v, dp.sum[r][v]);
    }
    store_panel(ds_, row, column, dp);
    if constexpr (kPairs) store_key_pairs(ds_by_key_, row, column, dp);
  }

  // The probability for dV, dropout included; leaves the one without in tile_p_ (kHidden where masked) and what
  // softcap multiplies gradients by in tile_slope_.
  HWY_INLINE V general_probability(const BackwardTile& tile, const QueryTile<E>& queries, std::int64_t q,
                                   std::int64_t column, V sum, const RowLimits& limits, int r) {
    const D d;
    const ScoreRule& rule = *tile.rule;
    const ScoreModifier<Real> modifier(rule);
    const std::int64_t local = r * kColumns + column % kColumns;
    const std::int64_t key = block_.key_begin + column;
    V score = sum;
    if constexpr (!Arithmetic<E>::kFoldsScale)
      score = hn::Mul(sum, hn::Set(d, static_cast<Real>(block_.scale * kLog2E)));
    V slope = hn::Set(d, Real(1));
    if (modifier.softcap != 0) {
      score = modifier.cap(d, score);
      const V t = hn::Div(score, hn::Set(d, modifier.softcap));
      slope = hn::NegMulAdd(t, t, slope);
    }
    hn::Store(slope, d, tile_slope_ + local);
    const Real distance = static_cast<Real>(key - (tile.query_begin + q) - rule.query_offset);
    score = modifier.add_bias(d, score, distance, modifier.has_bias() ? bias_ + q * kBackwardKeys + column : nullptr);
    const auto masked = hn::Eq(score, hn::Set(d, kMasked<Real>));
    const auto see = hn::AndNot(masked, visible(d, key, limits.first[r], limits.end[r]));
    const V p = exp2(d, hn::Sub(hn::Sub(score, hn::Set(d, queries.reference[q])), hn::Set(d, queries.rest[q])));
    hn::Store(hn::IfThenElse(see, p, hn::Set(d, kHidden)), d, tile_p_ + local);
    const V shown = hn::IfThenElseZero(see, p);
    if (!rule.dropout.threshold) return shown;
    return apply_keep(d, shown, keep_ + q * kBackwardKeys + column, hn::Set(d, static_cast<Real>(rule.dropout.scale)));
  }

  // The gradient of the raw score: through dropout, softmax, the returned weights, bias and softcap.
  HWY_INLINE V general_gradient(const BackwardTile& tile, const QueryTile<E>& queries, std::int64_t row, int r,
                                std::int64_t column, int v, V dp) {
    const D d;
    const ScoreRule& rule = *tile.rule;
    const std::int64_t q = row + r, local = r * kColumns + v * kLane;
    if (rule.dropout.threshold) {
      dp = apply_keep(d, dp, keep_ + q * kBackwardKeys + column + v * kLane,
                      hn::Set(d, static_cast<Real>(rule.dropout.scale)));
    }
    const V d_weights = tile.d_weights.data ? hn::Load(d, tile_d_weights_ + local) : hn::Zero(d);
    const V p = hn::Load(d, tile_p_ + local);
    const auto see = hn::Ge(p, hn::Zero(d));
    if (tile.weights_kind == WeightsKind::softmax) dp = hn::Add(dp, d_weights);
    V ds = hn::IfThenElseZero(hn::Gt(p, hn::Zero(d)), hn::Mul(p, hn::Sub(dp, hn::Set(d, queries.delta[q]))));
    // A NaN that is visible must show.
    ds = hn::IfThenElse(hn::Eq(p, p), ds, p);
    if (tile.weights_kind == WeightsKind::masked) ds = hn::Add(ds, hn::IfThenElseZero(see, d_weights));
    if (tile.wants_bias) hn::Store(ds, d, score_gradients_ + q * kBackwardKeys + column + v * kLane);
    if (tile.weights_kind == WeightsKind::softcapped) ds = hn::Add(ds, d_weights);
    if (rule.softcap != 0) {
      // Behind a mask the slope may be NaN.
      ds = hn::IfThenZeroElse(hn::Eq(ds, hn::Zero(d)), hn::Mul(ds, hn::Load(d, tile_slope_ + local)));
    }
    if (tile.weights_kind == WeightsKind::scores) ds = hn::Add(ds, d_weights);
    return ds;
  }

  // tile_d_weights (kTileRows, tile columns), zeros outside.
  void read_d_weights(const BackwardTile& tile, std::int64_t row, std::int64_t column) {
    const Plane& plane = tile.d_weights;
    const auto bytes = static_cast<std::int64_t>(item_size(plane.dtype));
    for (int r = 0; r < kTileRows; ++r) {
      Real* to = tile_d_weights_ + r * kColumns;
      std::fill_n(to, kColumns, Real(0));
      if (row + r >= queries_in(tile)) continue;
      const std::int64_t offset =
          (tile.query_begin + row + r) * plane.row_stride + (block_.key_begin + column) * plane.column_stride;
      const Rows from = {const_cast<std::byte*>(plane.data) + offset * bytes, 0, plane.dtype};
      with_type<Real>(from, [&](const auto* source) HWY_ATTR {
        for (std::int64_t k = 0; k < std::min<std::int64_t>(kColumns, keys_ - column); ++k) {
          to[k] = convert<Real>(source[k * plane.column_stride]) * static_cast<Real>(tile.d_weights_factor);
        }
      });
    }
  }

  // A tile that no query sees.
  void clear(std::int64_t row, std::int64_t column) {
    Tile<E, kTileRows, 2> zero;
    start(zero, nullptr);
    store_panel(p_, row, column, zero);
    store_panel(ds_, row, column, zero);
    if constexpr (kPairs) store_key_pairs(ds_by_key_, row, column, zero);
    for (int r = 0; r < kTileRows; ++r) {
      std::fill_n(score_gradients_ + (row + r) * kBackwardKeys + column, kColumns, Real(0));
    }
  }

  // sums (keys, padded_dim) += panel^T rows, kPanelRows keys at a time.
  void add_transposed(const BackwardTile& tile, const E* panel, const E* rows, bool careful, std::int64_t dim,
                      Real* sums) {
    const ScoreRule& rule = *tile.rule;
    const std::int64_t padded_dim = round_up(dim, kColumns);
    for (std::int64_t key = 0; key < keys_; key += kPanelRows) {
      std::int64_t first = 0, end = queries_in(tile);
      if (!tile.reaches_masked_keys()) {
        // The queries that see any of these keys.
        const std::int64_t position = block_.key_begin + key - rule.query_offset - tile.query_begin;
        if (rule.right < kUnlimited)
          first = std::clamp<std::int64_t>(position - rule.right, 0, end) / kValues * kValues;
        if (rule.left < kUnlimited) end = std::clamp<std::int64_t>(position + kPanelRows + rule.left, first, end);
      }
      const E* a = panel + panel_offset<E>(first, key);
      Real* target = sums + key * padded_dim;
      const std::int64_t count = element_count<E>(end - first);
      std::int64_t c = 0;
      for (; c + kLane < dim; c += kColumns) {
        const E* b = rows + c * (kBackwardQueries / kValues) + first / kValues * kColumns;
        transposed_strip<2>(a, b, count, careful, target + c, padded_dim);
      }
      if (c < dim) {
        const E* b = rows + c * (kBackwardQueries / kValues) + first / kValues * kColumns;
        transposed_strip<1>(a, b, count, careful, target + c, padded_dim);
      }
    }
  }

  template <int kVectors>
  HWY_INLINE void transposed_strip(const E* a, const E* b, std::int64_t count, bool careful, Real* target,
                                   std::int64_t stride) {
    const D d;
    if (careful) {
      for (std::int64_t k = 0; k < count; ++k) {
        for (int r = 0; r < kPanelRows; ++r) {
          add_carefully(a[k * kPanelColumns + r], b + k * kColumns, kVectors * kLane, target + r * stride);
        }
      }
      return;
    }
    Tile<E, kPanelRows, kVectors> tile;
#pragma GCC unroll 8
    for (int r = 0; r < kPanelRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) tile.sum[r][v] = hn::Load(d, target + r * stride + v * kLane);
    }
    multiply<1, kPanelColumns>(a, b, kColumns, count, tile);
#pragma GCC unroll 8
    for (int r = 0; r < kPanelRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) hn::Store(tile.sum[r][v], d, target + r * stride + v * kLane);
    }
  }

  template <int kVectors>
  HWY_INLINE void query_strip(const BackwardTile& task, std::int64_t row, int rows, std::int64_t c, std::int64_t first,
                              std::int64_t end, bool careful, Real* sums) {
    const D d;
    alignas(64) Real partial[kTileRows][kColumns];
    const std::int64_t width = std::min<std::int64_t>(kVectors * kLane, block_.head_dim - c);
    const bool whole = rows == kTileRows && width == kVectors * kLane && !careful;
    Real* target = whole ? sums : partial[0];
    const std::int64_t stride = whole ? task.d_query_stride : kColumns;
    if (!whole) {
      std::memset(partial, 0, sizeof(partial));
      for (int r = 0; r < rows && !task.first_keys; ++r) std::copy_n(sums + r * task.d_query_stride, width, partial[r]);
    }
    const E* b = key_rows_ + c * (kBackwardKeys / kValues);
    Tile<E, kTileRows, kVectors> tile;
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        tile.sum[r][v] = whole && task.first_keys ? hn::Zero(d) : hn::LoadU(d, target + r * stride + v * kLane);
      }
    }
    constexpr std::int64_t kGroup = kPanelColumns * kValues;
    for (std::int64_t k = first; k < end; k += kGroup) {
      const E* a = ds_by_key_ + (k / kGroup * kBackwardQueries + row) * kPanelColumns;
      const std::int64_t count = element_count<E>(std::min(kGroup, end - k));
      if (careful) {
        for (int r = 0; r < kTileRows; ++r) {
          for (std::int64_t i = 0; i < count; ++i) {
            add_carefully(a[r * kPanelColumns + i], b + (k / kValues + i) * kColumns, kVectors * kLane, partial[r]);
          }
        }
      } else {
        const E* rows_of_b = b + k / kValues * kColumns;
        if (count == kPanelColumns) {
          multiply_fixed<kPanelColumns, 1, kPanelColumns>(a, rows_of_b, kColumns, tile);
        } else {
          multiply<kPanelColumns, 1>(a, rows_of_b, kColumns, count, tile);
        }
      }
    }
    if (!careful) {
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) hn::StoreU(tile.sum[r][v], d, target + r * stride + v * kLane);
      }
    }
    if (!whole) {
      for (int r = 0; r < rows; ++r) std::copy_n(partial[r], width, sums + r * task.d_query_stride);
    }
  }

  static constexpr std::int64_t kLine = 64;  // bytes of a cache line
  static constexpr Real kHidden = Real(-1);  // in tile_p_: a masked score

  const BackwardBlock& block_;
  const std::int64_t keys_;
  const std::int64_t depth_;             // elements of a query
  const std::int64_t value_depth_;       // elements of a value
  const std::int64_t padded_dim_;        // head_dim to whole tiles
  const std::int64_t padded_value_dim_;  // value_dim likewise
  std::int64_t bytes_ = 0;               // of workspace taken

  Header* header_;
  E* keys_transposed_;     // (key tiles, depth, tile columns)
  E* values_transposed_;   // (key tiles, value_depth, tile columns)
  E* key_rows_;            // (head_dim / tile columns, keys, tile columns)
  E* p_;                   // (keys / 16, queries, 16), dropout included
  E* ds_;                  // likewise
  E* ds_by_key_;           // pairs: (keys / 32, queries, 16); otherwise ds_
  Real* d_keys_;           // (keys, padded_dim)
  Real* d_values_;         // (keys, padded_value_dim)
  Real* score_gradients_;  // (queries, keys): what the bias receives
  Real* bias_;             // (queries, keys), base 2
  std::uint8_t* keep_;     // (queries, keys)
  Real* tile_p_;           // (kTileRows, tile columns): probabilities before dropout
  Real* tile_slope_;       // (kTileRows, tile columns)
  Real* tile_d_weights_;   // (kTileRows, tile columns)
};

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
