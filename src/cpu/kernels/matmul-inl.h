// One task of a matrix product: C = A B for some rows and columns, with B in panels and A in place where it can be.
#pragma once

#include "cpu/kernels/matmul_finish-inl.h"
#include "cpu/kernels/matmul_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// Depth is cut into blocks of at most this many elements, so that a few panels of B stay in the second-level cache.
template <typename E>
inline constexpr std::int64_t kDepthBlock = 4096 / sizeof(E);
// What the panels of B that are used together may take of it.
inline constexpr std::int64_t kColumnBlockBytes = std::int64_t{512} << 10;
// The same where copies of A or B that the task makes share the cache with them.
template <typename E>
inline constexpr std::int64_t kSharedDepthBlock = 2048 / sizeof(E);
inline constexpr std::int64_t kSharedColumnBlockBytes = std::int64_t{256} << 10;

// sum[r][v] += row[r][k] * b[k * b_stride + v * lanes] over k in [0, count). kStride: b_stride, or 0 where it varies.
template <int kStride, typename E, int kRows, int kVectors>
HWY_INLINE void multiply_rows(const E* const (&row)[kRows], const E* HWY_RESTRICT b, std::int64_t b_stride,
                              std::int64_t count, Tile<E, kRows, kVectors>& tile) {
  if constexpr (kStride != 0) b_stride = kStride;
  std::int64_t k = 0;
  for (; k + 4 <= count; k += 4) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          tile.sum[r][v] = multiply_add(row[r][k + u], b + u * b_stride + v * kLanes<E>, tile.sum[r][v]);
        }
      }
    }
    b += 4 * b_stride;
  }
  for (; k < count; ++k, b += b_stride) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) tile.sum[r][v] = multiply_add(row[r][k], b + v * kLanes<E>, tile.sum[r][v]);
    }
  }
}

template <typename E>
class MatmulRun {
 public:
  using Real = RealOf<E>;

  static std::size_t workspace_bytes(const MatmulTask& task) { return static_cast<std::size_t>(Layout(task).end); }

  MatmulRun(const MatmulTask& task, std::byte* workspace)
      : task_(task),
        layout_(task),
        a_(reinterpret_cast<E*>(workspace + layout_.a)),
        packed_(reinterpret_cast<E*>(workspace + layout_.b)),
        bias_(reinterpret_cast<Real*>(workspace + layout_.bias)),
        sums_(task.sums ? static_cast<Real*>(task.sums) : reinterpret_cast<Real*>(workspace + layout_.sums)),
        finisher_(task, reinterpret_cast<Real*>(workspace + layout_.turned)) {}

  void run() {
    if (task_.bias) read_bias();
    // At least once: without depth the result is activation(bias).
    std::int64_t k = 0;
    do {
      const std::int64_t end = std::min(k + layout_.depth_block, depth_);
      first_block_ = k == 0 && task_.begins;
      last_block_ = end == depth_ && task_.ends;
      block(k, end);
      k = end;
    } while (k < depth_);
  }

  // Whether A can be read where it is: depth side by side, elements aligned.
  static bool reads_in_place(const MatrixView& a, std::int64_t depth) {
    if (a.column_stride != 1) return false;
    if constexpr (std::is_same_v<E, Bf16Pair>) {
      return depth % 2 == 0 && a.row_stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(a.data) % sizeof(E) == 0;
    } else {
      return a.dtype == dtype_of<E>;
    }
  }

 private:
  static constexpr std::int64_t kValues = Arithmetic<E>::kValues;
  static constexpr std::int64_t kRowPadding = 16;  // elements: copied rows do not start a page apart

  // Where a tile's sums are stored.
  enum class Finish {
    direct,     // they are the result
    converted,  // they are stored as 16-bit numbers
    strips,     // into a strip, for the activation or for another order
  };

  // How the task is cut, and where its parts lie in the workspace.
  struct Layout {
    explicit Layout(const MatmulTask& task) {
      const bool own = task.how == OperandB::packed;
      const std::int64_t depth = element_count<E>(task.depth);
      in_place = reads_in_place(task.a, task.depth);
      const bool shares = own || !in_place;
      const std::int64_t most = shares ? kSharedDepthBlock<E> : kDepthBlock<E>;
      const std::int64_t blocks = std::max<std::int64_t>(1, (depth + most - 1) / most);
      depth_block = std::max<std::int64_t>(4, round_up((depth + blocks - 1) / blocks, 4));
      const std::int64_t panel_bytes = depth_block * kTileColumns<E> * kElementBytes;
      const std::int64_t padded_columns = round_up(task.columns, kTileColumns<E>);
      const std::int64_t capacity = shares ? kSharedColumnBlockBytes : kColumnBlockBytes;
      const std::int64_t panels = std::max<std::int64_t>(1, capacity / panel_bytes);
      column_block = std::min(panels * kTileColumns<E>, padded_columns);

      if (task.activation != Activation::none || task.before_activation.data || task.result.column_stride != 1) {
        finish = Finish::strips;
      } else {
        finish = task.result.dtype == dtype_of<Real> ? Finish::direct : Finish::converted;
      }
      const bool turns = task.result.column_stride != 1 && task.result.row_stride == 1;
      strip_rows = turns ? kTurnedRows<E> : kStripRows<E>;
      keeps_sums = finish != Finish::direct && (blocks > 1 || task.sums);
      sums_stride = keeps_sums ? padded_columns : column_block;
      if (sums_stride * kRealBytes % 1024 == 0) sums_stride += kLanes<E>;  // rows do not share a set of the cache
      if (task.sums) sums_stride = task.sums_stride;

      const std::int64_t padded_rows = round_up(task.rows, strip_rows);
      const std::int64_t row_tiles = (task.rows + kTileRows - 1) / kTileRows;
      a = place(in_place ? 0
                         : std::max(task.rows * (depth_block + kRowPadding),
                                    row_tiles * panel_stride<E, kTileRows>(depth_block)) *
                               kElementBytes);
      b = place(own ? column_block / kTileColumns<E> * panel_stride<E, kTileColumns<E>>(depth_block) * kElementBytes
                    : 0);
      bias = place(task.bias ? (task.bias_of_rows ? padded_rows : padded_columns) * kRealBytes : 0);
      const std::int64_t sum_rows = keeps_sums ? padded_rows : (finish == Finish::strips ? strip_rows : 0);
      sums = place(task.sums ? 0 : sum_rows * sums_stride * kRealBytes);
      turned = place(finish == Finish::strips ? Finisher<E>::kTurnedCount * kRealBytes : 0);
    }
    std::int64_t place(std::int64_t bytes) {
      constexpr std::int64_t kAlignment = 64;
      const std::int64_t at = end;
      end += round_up(bytes, kAlignment);
      return at;
    }

    std::int64_t depth_block;   // elements
    std::int64_t column_block;  // columns whose panels stay in the cache
    bool in_place;              // A is read where it is
    Finish finish;
    bool keeps_sums;  // all the task's sums are kept between the blocks of depth
    std::int64_t strip_rows;
    std::int64_t sums_stride;
    std::int64_t a, b, bias, sums, turned;  // offsets
    std::int64_t end = 0;
  };
  static constexpr std::int64_t kRealBytes = sizeof(Real);
  static constexpr std::int64_t kElementBytes = sizeof(E);

  void read_bias() {
    const std::int64_t count = task_.bias_of_rows ? task_.rows : task_.columns;
    const std::int64_t padded = round_up(count, task_.bias_of_rows ? layout_.strip_rows : kTileColumns<E>);
    const Rows row = {.data = const_cast<std::byte*>(task_.bias), .stride = 0, .dtype = task_.result.dtype};
    read_row<Real>(row, 0, count, padded, Real(1), bias_);
  }

  static std::int64_t item_bytes(DType dtype) {
    return dtype == DType::float64 ? 8 : (dtype == DType::float32 ? 4 : 2);
  }

  // Adds the products of depth [k, end), in elements.
  void block(std::int64_t k, std::int64_t end) {
    count_ = end - k;
    values_ = std::min(count_ * kValues, task_.depth - k * kValues);
    prepare_a(k);
    for (std::int64_t c = 0; c < task_.columns; c += layout_.column_block) {
      const std::int64_t column_end = std::min(c + layout_.column_block, task_.columns);
      prepare_b(k, c, column_end);
      for (std::int64_t r = 0; r < task_.rows; r += layout_.strip_rows) {
        strip(r, std::min(r + layout_.strip_rows, task_.rows), c, column_end);
      }
    }
  }

  void prepare_a(std::int64_t k) {
    MatrixView part = task_.a;
    part.data += k * kValues * part.column_stride * item_bytes(part.dtype);
    panels_ = false;
    a_rows_ = a_;
    if (layout_.in_place) {
      a_rows_ = reinterpret_cast<const E*>(part.data);
      a_stride_ = part.row_stride / kValues;
    } else if (values_ == 0) {
      a_stride_ = 0;
    } else if (part.column_stride == 1) {
      a_stride_ = count_ + kRowPadding;
      copy_rows<E>(part, task_.rows, values_, a_, a_stride_);
    } else {
      panels_ = true;
      a_stride_ = panel_stride<E, kTileRows>(count_);
      pack_rows_of<E>(part, task_.rows, values_, {a_, a_stride_});
    }
  }

  // Makes b_ the panel of the block's first column.
  void prepare_b(std::int64_t k, std::int64_t column, std::int64_t column_end) {
    b_row_stride_ = kTileColumns<E>;
    if (task_.how == OperandB::panels) {
      b_panel_stride_ = panel_stride<E, kTileColumns<E>>(depth_);
      b_ = static_cast<const E*>(task_.panels) + column / kTileColumns<E> * b_panel_stride_ + k * kTileColumns<E>;
      return;
    }
    MatrixView part = task_.b;
    part.data += (k * kValues * part.row_stride + column * part.column_stride) * item_bytes(part.dtype);
    if (task_.how == OperandB::in_place) {
      b_ = reinterpret_cast<const E*>(part.data);
      b_row_stride_ = part.row_stride;
      b_panel_stride_ = kTileColumns<E>;
    } else {
      b_ = packed_;
      b_panel_stride_ = panel_stride<E, kTileColumns<E>>(count_);
      pack_columns<E>(part, values_, column_end - column, {packed_, b_panel_stride_});
    }
  }

  // A tile in the task.
  struct Place {
    std::int64_t row, rows, column, columns;
    const E* b;
    Real* sums;  // where its sums are stored
    std::int64_t stride;
  };

  // Prefetches rows of A that the next tiles will read: a share of them with every tile.
  HWY_INLINE void prefetch_a(std::int64_t row, std::int64_t column, std::int64_t columns) {
    if (!layout_.in_place || row >= task_.rows) return;
    const std::int64_t tiles = (columns + kTileColumns<E> - 1) / kTileColumns<E>, tile = column / kTileColumns<E>;
    const std::int64_t rows = std::min<std::int64_t>(kTileRows, task_.rows - row);
    for (std::int64_t r = tile * rows / tiles; r < (tile + 1) * rows / tiles; ++r) {
      const E* from = a_rows_ + (row + r) * a_stride_;
      for (std::int64_t k = 0; k < count_; k += 64 / kElementBytes) __builtin_prefetch(from + k, 0, 2);
    }
  }

  // The tiles of some rows over a block of columns.
  void strip(std::int64_t row, std::int64_t row_end, std::int64_t column, std::int64_t column_end) {
    Real* sums = sums_;
    std::int64_t stride = layout_.sums_stride;
    if (layout_.finish == Finish::direct) {
      stride = task_.result.row_stride;
      sums = reinterpret_cast<Real*>(task_.result.data) + row * stride + column;
    } else if (layout_.keeps_sums) {
      sums = sums_ + row * stride + column;
    }
    for (std::int64_t r = row; r < row_end; r += kTileRows) {
      for (std::int64_t c = column; c < column_end; c += kTileColumns<E>) {
        if (column == 0) prefetch_a(r + kTileRows, c, column_end);
        tile_of_size({.row = r,
                      .rows = std::min<std::int64_t>(kTileRows, row_end - r),
                      .column = c,
                      .columns = std::min<std::int64_t>(kTileColumns<E>, column_end - c),
                      .b = b_ + (c - column) / kTileColumns<E> * b_panel_stride_,
                      .sums = sums + (r - row) * stride + (c - column),
                      .stride = stride});
      }
    }
    if (layout_.finish == Finish::strips && last_block_) {
      finisher_.finish({.sums = sums,
                        .stride = stride,
                        .row = row,
                        .rows = row_end - row,
                        .column = column,
                        .columns = column_end - column});
    }
  }

  void tile_of_size(const Place& place) {
    const bool narrow = place.columns <= kLanes<E>;
    if (place.rows > 4) {
      narrow ? tile<kTileRows, 1>(place) : tile<kTileRows, 2>(place);
    } else if (place.rows > 2) {
      narrow ? tile<4, 1>(place) : tile<4, 2>(place);
    } else if (place.rows > 1) {
      narrow ? tile<2, 1>(place) : tile<2, 2>(place);
    } else {
      narrow ? tile<1, 1>(place) : tile<1, 2>(place);
    }
  }

  template <int kRows, int kVectors>
  void tile(const Place& place) {
    const bool whole = place.rows == kRows && place.columns == kVectors * kLanes<E>;
    if (layout_.finish == Finish::converted && last_block_) {
      prefetch_result(place);
      compute<kRows, kVectors>(place, [&](const auto& tile) HWY_ATTR { store_converted_tile(place, tile); });
    } else if (whole || layout_.finish != Finish::direct) {
      compute<kRows, kVectors>(place, [&](const auto& tile) HWY_ATTR { store_tile(tile, place.sums, place.stride); });
    } else {
      edge_tile<kRows, kVectors>(place);
    }
  }

  // Prefetches the lines of a 16-bit result before the sums are computed: with little depth, stores take the time.
  HWY_INLINE void prefetch_result(const Place& place) {
    const std::int64_t stride = task_.result.row_stride * item_bytes(task_.result.dtype);
    const std::byte* to = task_.result.data + place.row * stride + place.column * item_bytes(task_.result.dtype);
    for (std::int64_t r = 0; r < place.rows; ++r) __builtin_prefetch(to + r * stride, 1);
  }

  // A tile is larger than what is left of the result.
  template <int kRows, int kVectors>
  void edge_tile(const Place& place) {
    constexpr std::int64_t kStride = kVectors * kLanes<E>;
    alignas(64) Real edge[kRows * kStride];
    const auto copy = [&](const Real* from, std::int64_t from_stride, Real* to, std::int64_t to_stride) {
      for (std::int64_t r = 0; r < place.rows; ++r) {
        for (std::int64_t c = 0; c < place.columns; ++c) to[r * to_stride + c] = from[r * from_stride + c];
      }
    };
    if (continues()) copy(place.sums, place.stride, edge, kStride);
    Place inside = place;
    inside.sums = edge;
    inside.stride = kStride;
    compute<kRows, kVectors>(inside, [&](const auto& tile) HWY_ATTR { store_tile(tile, edge, kStride); });
    copy(edge, kStride, place.sums, place.stride);
  }

  // Whether sums start from the present result.
  bool continues() const { return !first_block_ || (layout_.finish == Finish::direct && task_.accumulate); }

  template <int kRows, int kVectors>
  HWY_INLINE void store_tile(const Tile<E, kRows, kVectors>& tile, Real* to, std::int64_t stride) {
    const VectorTag<E> d;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) hn::StoreU(tile.sum[r][v], d, to + r * stride + v * kLanes<E>);
    }
  }

  template <int kRows, int kVectors>
  HWY_INLINE void store_converted_tile(const Place& place, const Tile<E, kRows, kVectors>& tile) {
    const VectorTag<E> d;
    with_type<Real>(
        Rows{.data = task_.result.data, .stride = 0, .dtype = task_.result.dtype}, [&](auto* data) HWY_ATTR {
          auto* to = data + place.row * task_.result.row_stride + place.column;
          if (place.columns == kVectors * kLanes<E>) {
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
              if (r >= place.rows) break;
#pragma GCC unroll 2
              for (int v = 0; v < kVectors; ++v) {
                store_rounded(d, tile.sum[r][v], to + r * task_.result.row_stride + v * kLanes<E>);
              }
            }
          } else {
            alignas(64) Real edge[kRows * kVectors * kLanes<E>];
            store_tile(tile, edge, kVectors * kLanes<E>);
            for (std::int64_t r = 0; r < place.rows; ++r) {
              store_values(edge + r * kVectors * kLanes<E>, to + r * task_.result.row_stride, place.columns);
            }
          }
        });
  }

  // Sums the products of one tile and passes it to store(tile).
  template <int kRows, int kVectors, typename Store>
  HWY_INLINE void compute(const Place& place, const Store& store) {
    Tile<E, kRows, kVectors> tile;
    begin(place, tile);
    if (panels_) {
      const E* a = a_rows_ + place.row / kTileRows * a_stride_;
      if (task_.how == OperandB::in_place) {
        multiply<1, kTileRows>(a, place.b, b_row_stride_, count_, tile);
      } else {
        multiply<1, kTileRows>(a, place.b, kTileColumns<E>, count_, tile);
      }
    } else {
      const E* row[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        row[r] = a_rows_ + (place.row + std::min<std::int64_t>(r, place.rows - 1)) * a_stride_;
      }
      if (task_.how == OperandB::in_place) {
        multiply_rows<0>(row, place.b, b_row_stride_, count_, tile);
      } else {
        multiply_rows<kTileColumns<E>>(row, place.b, 0, count_, tile);
      }
    }
    store(tile);
  }

  // Sums start from the present result, from the bias, or from zero.
  template <int kRows, int kVectors>
  HWY_INLINE void begin(const Place& place, Tile<E, kRows, kVectors>& tile) {
    const VectorTag<E> d;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        if (continues()) {
          tile.sum[r][v] = hn::LoadU(d, place.sums + r * place.stride + v * kLanes<E>);
        } else if (!task_.bias) {
          tile.sum[r][v] = hn::Zero(d);
        } else if (task_.bias_of_rows) {
          tile.sum[r][v] = hn::Set(d, bias_[place.row + r]);
        } else {
          tile.sum[r][v] = hn::LoadU(d, bias_ + place.column + v * kLanes<E>);
        }
      }
    }
  }

  const MatmulTask& task_;
  const Layout layout_;
  E* const a_;        // A's rows or panels, where they are not read in place
  E* const packed_;   // B's panels, where the task packs them
  Real* const bias_;  // (columns) or (rows), padded
  Real* const sums_;  // (strip rows, column block), or all of the task's
  Finisher<E> finisher_;
  const std::int64_t depth_ = element_count<E>(task_.depth);

  // The block at work.
  std::int64_t count_ = 0;   // elements of depth
  std::int64_t values_ = 0;  // of depth
  bool first_block_ = true;
  bool last_block_ = true;
  bool panels_ = false;  // A is in panels
  const E* a_rows_ = nullptr;
  std::int64_t a_stride_ = 0;  // elements from row to row, or from panel to panel
  const E* b_ = nullptr;
  std::int64_t b_panel_stride_ = 0;
  std::int64_t b_row_stride_ = 0;
};

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
