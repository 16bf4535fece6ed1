// Tiles of scores: products of tiles in shared memory, and the operations between Q K^T and the softmax.
//
// A block computes tiles of kTile x kTile. Each thread has a patch of 4 x 4 of them; kLanes neighbouring threads of a
// warp share 4 rows.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/random.h"
#include "cuda/attention_call.h"
#include "cuda/element.cuh"

namespace headway::inline v0::internal::cuda {

template <typename A>
using Patch = A[4][4];

template <typename A>
inline constexpr A kMasked = -std::numeric_limits<A>::infinity();

// ---- one score ----

// Products and sums that are never fused: scores have the same bits in every kernel, so that the largest of a row is
// the largest wherever it is computed again.
__device__ inline float times(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double times(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double plus(double a, double b) { return __dadd_rn(a, b); }

// Element `index` of an array of a floating dtype.
template <typename A>
__device__ A read_floating(const void* data, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::float64:
      return static_cast<A>(static_cast<const double*>(data)[index]);
    case DType::bfloat16:
      return static_cast<A>(to_compute(static_cast<const __nv_bfloat16*>(data)[index]));
    case DType::float16:
      return static_cast<A>(to_compute(static_cast<const __half*>(data)[index]));
    default:
      return static_cast<A>(static_cast<const float*>(data)[index]);
  }
}

// Where [query 0, key 0] of a head of a sequence lies in a plane.
__device__ inline std::int64_t plane_offset(const ScorePlane& plane, const Sequence& sequence, std::int64_t head) {
  return sequence.batch * plane.batch_stride + head * plane.head_stride + sequence.query_begin * plane.query_stride +
         sequence.key_begin * plane.key_stride;
}

// From a dot product to the input of the softmax, for one head of one sequence.
template <typename A>
struct ScoreRule {
  const AttentionCall& call;
  const std::int64_t index;  // of the sequence
  const std::int64_t head;
  const Sequence sequence;
  const A scale, softcap, slope;
  const std::int64_t mask_offset, bias_offset;

  __device__ ScoreRule(const AttentionCall& c, std::int64_t sequence_index, std::int64_t h)
      : call(c),
        index(sequence_index),
        head(h),
        sequence(c.sequence_at(sequence_index)),
        scale(static_cast<A>(c.scale)),
        softcap(static_cast<A>(c.softcap)),
        slope(c.alibi_slopes ? static_cast<A>(c.alibi_slopes[sequence_index * c.heads + h]) : A(0)),
        mask_offset(plane_offset(c.mask, sequence, h)),
        bias_offset(plane_offset(c.bias, sequence, h)) {}

  // Whether causal, window and lengths let query q see key k. They do for a whole patch at (q, k) when they do for its
  // corners (q, k + 3) and (q + 3, k).
  __device__ bool in_limits(std::int64_t q, std::int64_t k) const {
    const std::int64_t position = q + sequence.query_offset;
    return q >= 0 && q < sequence.query_length && k >= 0 && k < sequence.key_count && k <= position + call.right &&
           k >= position - call.left;
  }

  // The first key that query q sees, and the one past the last, both within [0, key_count].
  __device__ std::int64_t first_key(std::int64_t q) const {
    if (call.left >= kUnlimited) return 0;
    const std::int64_t first = q + sequence.query_offset - call.left;
    return first < 0 ? 0 : first > sequence.key_count ? sequence.key_count : first;
  }
  __device__ std::int64_t end_key(std::int64_t q) const {
    if (call.right >= kUnlimited) return sequence.key_count;
    const std::int64_t end = q + sequence.query_offset + call.right + 1;
    return end < 0 ? 0 : end > sequence.key_count ? sequence.key_count : end;
  }

  __device__ A capped(A score) const {
    if (softcap == A(0)) return score;
    return times(softcap, tanh(score / softcap));
  }

  // The input of the softmax for a capped score: -infinity where it is masked. `inside`: known to be within the limits.
  __device__ A masked(A score, std::int64_t q, std::int64_t k, bool inside) const {
    if (!inside && !in_limits(q, k)) return kMasked<A>;
    if (call.mask.data) {
      const auto* mask = static_cast<const std::uint8_t*>(call.mask.data);
      const bool set = mask[mask_offset + q * call.mask.query_stride + k * call.mask.key_stride] != 0;
      if (set != call.mask_true_keeps) return kMasked<A>;
    }
    if (slope != A(0)) {
      const std::int64_t distance = q + sequence.query_offset - k;
      score = plus(score, -times(slope, static_cast<A>(distance < 0 ? -distance : distance)));
    }
    if (call.bias.data) {
      const std::int64_t at = bias_offset + q * call.bias.query_stride + k * call.bias.key_stride;
      const A bias = read_floating<A>(call.bias.data, call.bias.dtype, at);
      if (bias <= A(-1e30)) return kMasked<A>;  // as good as masked: no log-sum-exp could distinguish such scores
      score = plus(score, bias);
    }
    return score;
  }

  // The patch at query q and key k: dot products become the inputs of the softmax.
  __device__ void apply(Patch<A>& scores, std::int64_t q, std::int64_t k) const {
    const bool inside = in_limits(q, k + 3) && in_limits(q + 3, k);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        scores[i][j] = masked(capped(times(scores[i][j], scale)), q + i, k + j, inside);
      }
    }
  }

  // Which of the weights of query q and keys k to k + 3 are kept.
  __device__ void find_kept(std::int64_t q, std::int64_t k, bool (&kept)[4]) const {
    q += sequence.first_row;
    k += sequence.first_column;
    const std::uint32_t threshold = call.dropout.threshold;
    std::uint32_t word = 0;  // the draws of an even key and the one after it
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const bool is_even = (k + j) % 2 == 0;
      if (threshold != 0 && (j == 0 || is_even)) word = draw_pair(q, k + j);
      kept[j] = (is_even ? word & 0xFFFF : word >> 16) >= threshold;
    }
  }

  // The word of the dropout's draws that belongs to query q and key k of the whole sequence.
  __device__ std::uint32_t draw_pair(std::int64_t q, std::int64_t k) const {
    const auto words = philox4x32_7(
        {static_cast<std::uint32_t>((q / 16) * 8 + q % 8), static_cast<std::uint32_t>((k / 16) * 4 + (k % 8) / 2),
         static_cast<std::uint32_t>(call.first_head + head), static_cast<std::uint32_t>(index)},
        philox_key(call.dropout.seed));
    // Chosen by comparison: an array with a computed index would not stay in registers.
    const bool is_right = k % 16 >= 8;
    if (q % 16 >= 8) return is_right ? words[3] : words[2];
    return is_right ? words[1] : words[0];
  }
};

// The probability of a score, 0 where it is masked.
template <typename A>
__device__ A probability(A score, A reference, A rest) {
  return score == kMasked<A> ? A(0) : exp(score - reference - rest);
}

// What is known of rows q to q + 3 of the `count` at `source`; 0 for those outside.
template <typename A>
__device__ void read_rows(const A* source, std::int64_t q, std::int64_t count, A (&target)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) target[i] = q + i >= 0 && q + i < count ? source[q + i] : A(0);
}

// ---- tiles ----

// Rows of one head of one sequence: (count, columns).
template <typename T>
struct TileRows {
  const T* data;
  std::int64_t stride;
  std::int64_t count;
};

// The rows of a head from `first_row` on.
template <typename T>
__device__ TileRows<T> rows_at(const HeadRows& rows, std::int64_t batch, std::int64_t head, std::int64_t first_row,
                               std::int64_t count) {
  const std::int64_t offset = batch * rows.batch_stride + head * rows.head_stride + first_row * rows.row_stride;
  return {static_cast<const T*>(rows.data) + offset, rows.row_stride, count};
}

// Four neighbours that are read and written at once.
template <typename A>
struct alignas(16) Four {
  A at[4];
};

// The products of one block: operands are in shared memory, results in the threads' patches.
template <typename T>
struct Tile {
  using A = Compute<T>;
  static constexpr int kTile = std::is_same_v<T, double> ? 32 : 64;
  static constexpr int kLanes = kTile / 4;  // threads that share four rows
  static constexpr int kThreads = kLanes * kLanes;
  static constexpr int kBlocks = std::is_same_v<T, double> ? 4 : 2;  // on a multiprocessor, by registers
  static constexpr int kStride = kTile + 4;            // between rows in shared memory, against bank conflicts
  static constexpr int kDepth = kTile / 2;             // columns of two transposed operands at a time
  static constexpr int kShared = 2 * kTile * kStride;  // elements of `operands` and `panel`

  A* operands;  // (kTile, kStride), or two of (kDepth, kStride)
  A* panel;     // (kTile, kStride): P or dS
  A* sums;      // (column tiles, kTile, kTile): products that grow over many tiles

  __device__ explicit Tile(A* shared) : operands(shared), panel(shared + kTile * kStride), sums(shared + kShared) {}

  // This thread's patch.
  static __device__ int row() { return static_cast<int>(threadIdx.x) / kLanes * 4; }
  static __device__ int column() { return static_cast<int>(threadIdx.x) % kLanes * 4; }

  static __device__ Four<A>& four(A* address) { return *reinterpret_cast<Four<A>*>(address); }
  static __device__ const Four<A>& four(const A* address) { return *reinterpret_cast<const Four<A>*>(address); }

  // target (kDepth, kStride): columns [begin, begin + kDepth) of rows [first, first + kTile), transposed; zeros
  // outside.
  static __device__ void load_transposed(A* target, const TileRows<T>& rows, std::int64_t first, std::int64_t begin,
                                         std::int64_t columns) {
    for (int e = static_cast<int>(threadIdx.x); e < kTile * kDepth; e += kThreads) {
      const int r = e / kDepth, c = e % kDepth;
      const std::int64_t row = first + r;
      const bool inside = row >= 0 && row < rows.count && begin + c < columns;
      target[c * kStride + r] = inside ? to_compute(rows.data[row * rows.stride + begin + c]) : A(0);
    }
  }

  // target (kTile, kStride): columns [begin, begin + kTile) of rows [first, first + kTile), zeros outside. True when
  // all that this thread read is finite.
  static __device__ bool load_rows(A* target, const TileRows<T>& rows, std::int64_t first, std::int64_t begin,
                                   std::int64_t columns) {
    bool finite = true;
    for (int e = static_cast<int>(threadIdx.x); e < kTile * kTile; e += kThreads) {
      const int r = e / kTile, c = e % kTile;
      const std::int64_t row = first + r;
      const bool inside = row >= 0 && row < rows.count && begin + c < columns;
      const A value = inside ? to_compute(rows.data[row * rows.stride + begin + c]) : A(0);
      finite = finite && isfinite(value);
      target[r * kStride + c] = value;
    }
    return finite;
  }

  // patch[i][j] += sum over d of left[d][i] * right[d][j]. Where careful, a zero of `left` hides what it multiplies.
  template <bool kCareful>
  static __device__ void add_product(Patch<A>& patch, const A* left, const A* right, int depth) {
#pragma unroll 4
    for (int d = 0; d < depth; ++d) {
      const Four<A> a = four(left + d * kStride), b = four(right + d * kStride);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (!kCareful || a.at[i] != A(0)) patch[i][j] = fma(a.at[i], b.at[j], patch[i][j]);
        }
      }
    }
  }

  // patch = left right^T over all columns: rows from `left_first` on by rows from `right_first` on.
  __device__ void multiply(Patch<A>& patch, const TileRows<T>& left, std::int64_t left_first, const TileRows<T>& right,
                           std::int64_t right_first, std::int64_t columns) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) patch[i][j] = A(0);
    }
    A* right_operand = operands + kDepth * kStride;
    const bool is_used = left_first + row() < left.count;
    for (std::int64_t begin = 0; begin < columns; begin += kDepth) {
      __syncthreads();  // the operands of the product before this one
      load_transposed(operands, left, left_first, begin, columns);
      load_transposed(right_operand, right, right_first, begin, columns);
      __syncthreads();
      const int depth = static_cast<int>(columns - begin < kDepth ? columns - begin : kDepth);
      if (is_used) add_product<false>(patch, operands + row(), right_operand + column(), depth);
    }
  }

  // panel (kTile, kStride) = the patches; transposed: rows of the panel are columns of the patches.
  __device__ void store_panel(const Patch<A>& patch) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      four(panel + (row() + i) * kStride + column()) = {patch[i][0], patch[i][1], patch[i][2], patch[i][3]};
    }
  }
  __device__ void store_panel_transposed(const Patch<A>& patch) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      four(panel + (column() + j) * kStride + row()) = {patch[0][j], patch[1][j], patch[2][j], patch[3][j]};
    }
  }

  static __device__ std::int64_t column_tiles(std::int64_t columns) { return (columns + kTile - 1) / kTile; }

  // This thread's part of row i of column tile t of some sums.
  static __device__ Four<A>& sum_at(A* target, std::int64_t t, int i) {
    return four(target + (t * kTile + row() + i) * kTile + column());
  }

  static __device__ void clear(A* target, std::int64_t columns) {
    for (std::int64_t t = 0; t < column_tiles(columns); ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum_at(target, t, i) = {A(0), A(0), A(0), A(0)};
    }
  }

  // target = target * factors + panel^T rows: the panel's rows stand for `depth` rows from `first` on, and the target
  // for the columns [begin, end).
  __device__ void add_rows(A* target, const A (&factors)[4], const TileRows<T>& rows, std::int64_t first, int depth,
                           std::int64_t begin, std::int64_t end) const {
    for (std::int64_t c = begin; c < end; c += kTile) {
      __syncthreads();  // the operands of the product before this one, and the panel
      const bool finite = load_rows(operands, rows, first, c, end);
      const bool careful = __syncthreads_or(!finite);
      Patch<A> patch;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Four<A> sum = sum_at(target, (c - begin) / kTile, i);
#pragma unroll
        for (int j = 0; j < 4; ++j) patch[i][j] = sum.at[j] * factors[i];
      }
      if (careful) {
        add_product<true>(patch, panel + row(), operands + column(), depth);
      } else {
        add_product<false>(patch, panel + row(), operands + column(), depth);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sum_at(target, (c - begin) / kTile, i) = {patch[i][0], patch[i][1], patch[i][2], patch[i][3]};
      }
    }
  }

  // Writes sums times factors to columns [begin, end) of rows [first, first + kTile) that are below `count`.
  static __device__ void write_rows(A* source, const A (&factors)[4], const TileRows<T>& rows, std::int64_t first,
                                    std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; c += kTile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int64_t r = first + row() + i;
        if (r >= rows.count) continue;
        const Four<A> sum = sum_at(source, (c - begin) / kTile, i);
        T* target = const_cast<T*>(rows.data) + r * rows.stride + c + column();
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (c + column() + j < end) target[j] = from_compute<T>(sum.at[j] * factors[i]);
        }
      }
    }
  }

  // The largest or the sum of what the threads of a row have; the same bits in all of them.
  static __device__ A row_largest(A value) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      const A other = __shfl_xor_sync(0xFFFFFFFFu, value, offset);
      value = other > value ? other : value;
    }
    return value;
  }
  static __device__ A row_sum(A value) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
    return value;
  }
};

// ---- shared memory ----

// Bytes of shared memory for a tile and `columns` columns of sums.
template <typename T>
std::size_t shared_bytes(std::int64_t columns) {
  constexpr auto kElements = static_cast<std::size_t>(Tile<T>::kShared);
  return (kElements + static_cast<std::size_t>(columns * Tile<T>::kTile)) * sizeof(Compute<T>);
}

// How many of `columns` columns each of `arrays` sums of a block has: whole tiles, as many as fit into shared memory.
template <typename T>
std::int64_t column_width(std::int64_t columns, std::int64_t arrays) {
  constexpr std::int64_t kTile = Tile<T>::kTile, kMost = 256;
  std::int64_t width = columns < kMost ? (columns + kTile - 1) / kTile * kTile : kMost;
  const auto capacity = static_cast<std::size_t>(device_properties().shared_memory_per_block);
  while (width > kTile && shared_bytes<T>(arrays * width) > capacity) width -= kTile;
  return width < kTile ? kTile : width;
}

// More than 48 KiB of shared memory must be asked for.
template <typename Kernel>
void allow_shared_memory(Kernel* kernel, std::size_t bytes) {
  if (bytes <= 48 * 1024) return;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
             "cudaFuncSetAttribute");
}

// How a kernel is started whose blocks stride over `count` pieces of work.
struct BlockLaunch {
  const char* name = "";
  std::int64_t count = 0;  // 0: nothing is started
  int threads = 0;         // of a block
  std::size_t bytes = 0;   // of its dynamic shared memory
};
template <typename Arguments>
void launch_blocks(void (*kernel)(Arguments), const BlockLaunch& launch, const Arguments& arguments) {
  if (launch.count == 0) return;
  allow_shared_memory(kernel, launch.bytes);
  kernel<<<grid_for(launch.count, 1), launch.threads, launch.bytes, current_stream()>>>(arguments);
  check_launch(launch.name);
}

// ---- the softmax of a thread's four rows, tile after tile ----

template <typename T>
struct RowSums {
  using A = Compute<T>;
  A maximum[4];  // -infinity before the first score
  A sum[4];      // of exp(score - maximum)

  __device__ RowSums() {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      maximum[i] = kMasked<A>;
      sum[i] = A(0);
    }
  }

  // Scores become exp(score - maximum); what was summed before is to be multiplied by `factors`. NaN is never the
  // maximum, and shows through its own exponential.
  __device__ void add(Patch<A>& scores, A (&factors)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      A largest = maximum[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) largest = scores[i][j] > largest ? scores[i][j] : largest;
      largest = Tile<T>::row_largest(largest);
      const A shift = largest == kMasked<A> ? A(0) : largest;
      factors[i] = exp(maximum[i] - shift);
      A part = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        scores[i][j] = exp(scores[i][j] - shift);
        part += scores[i][j];
      }
      maximum[i] = largest;
      sum[i] = sum[i] * factors[i] + Tile<T>::row_sum(part);
    }
  }

  // One more score without a value; returns what row i's output must be multiplied by.
  __device__ A add_sink(int i, A sink) {
    if (sink == kMasked<A>) return A(1);
    const A largest = maximum[i] > sink ? maximum[i] : sink;
    const A factor = sum[i] == A(0) ? A(0) : exp(maximum[i] - largest);
    sum[i] = sum[i] * factor + exp(sink - largest);
    maximum[i] = largest;
    return factor;
  }
};

}  // namespace headway::inline v0::internal::cuda
