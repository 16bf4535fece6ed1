// What the float32 kernels for tensor cores share: which problems they take, and which scores count.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "base/divide.h"
#include "cuda/attention_score.cuh"
#include "cuda/tf32_mma.cuh"

namespace headway::inline v0::internal::cuda {

// ---- which calls are taken ----

inline constexpr std::int64_t kMostColumns = 128;

// Whether vectors of 16 bytes reach a float32 tensor (batch, heads, rows, columns).
inline bool has_vectors(const Tensor& tensor) {
  if (reinterpret_cast<std::uintptr_t>(tensor.raw_data()) % 16 != 0 || tensor.stride(3) != 1) return false;
  for (int i = 0; i < 3; ++i) {
    if (tensor.size(i) > 1 && tensor.stride(i) % 4 != 0) return false;
  }
  return tensor.size(2) <= 1 || std::abs(tensor.stride(2)) <= std::numeric_limits<int>::max();
}

// Whether the inputs and options of a problem are for these kernels.
inline bool is_for_tensor_cores(const AttentionProblem& problem) {
  constexpr std::int64_t kLengthLimit = std::int64_t{1} << 29;
  const auto fits = [](std::int64_t dim) { return dim > 0 && dim <= kMostColumns && dim % 4 == 0; };
  if (problem.query.dtype() != DType::float32 || device_properties().capability < 80) return false;
  if (!fits(problem.head_dim) || !fits(problem.value_dim)) return false;
  if (problem.batch == 0 || problem.heads == 0 || problem.query_length == 0 || problem.key_length == 0) return false;
  if (problem.query_length >= kLengthLimit || problem.key_length >= kLengthLimit) return false;
  if (problem.bias.defined() || problem.mask.defined() || problem.softcap != 0 || !problem.alibi_slopes.empty()) {
    return false;
  }
  return has_vectors(problem.query) && has_vectors(problem.key) && has_vectors(problem.value);
}

// The most queries or keys that one sequence has.
inline std::int64_t longest_queries(const AttentionProblem& problem) {
  std::int64_t longest = 0;
  for (const Sequence& s : problem.sequences) longest = std::max(longest, s.query_length);
  return longest;
}
inline std::int64_t longest_keys(const AttentionProblem& problem) {
  std::int64_t longest = 0;
  for (const Sequence& s : problem.sequences) longest = std::max(longest, s.key_length);
  return longest;
}
inline std::int64_t longest_side(const AttentionProblem& problem) {
  return std::max(longest_queries(problem), longest_keys(problem));
}

// Whether of these problems one is for Hopper's products of float16 halves: long sequences of few columns.
inline bool is_for_halves(const AttentionProblem& problem) {
  constexpr std::int64_t kMost = 64, kLeastLength = 65;
  return device_properties().capability == 90 && problem.head_dim <= kMost && problem.value_dim <= kMost &&
         longest_queries(problem) >= kLeastLength && longest_keys(problem) >= kLeastLength;
}

// Calls f.template operator()<kDim>() with the columns, rounded up to 32, 64 or 128.
template <typename Function>
void dispatch_columns(const AttentionProblem& problem, const Function& f) {
  const std::int64_t columns = std::max(problem.head_dim, problem.value_dim);
  if (columns <= 32) return f.template operator()<32>();
  if (columns <= 64) return f.template operator()<64>();
  return f.template operator()<128>();
}

// Calls f.template operator()<Shape>() with the shape for so many rows and heads: kLeastWarps * 16 rows to a block
// where that is all, 64 where there are few, else as many as suit the registers, at most kMostTiles * 16 to a warp.
// False where the Tiles<Shape> of 64 rows do not fit into shared memory.
template <int kDim, int kLeastWarps, int kMostTiles, template <typename> class Tiles, typename Function>
bool dispatch_rows(const AttentionProblem& problem, std::int64_t length, std::int64_t heads, const Function& f) {
  const DeviceProperties& device = device_properties();
  const auto has_room = [&]<typename Shape>() {
    return sizeof(Tiles<Shape>) <= static_cast<std::size_t>(device.shared_memory_per_block);
  };
  using Short = FloatShape<kDim, kLeastWarps, 1>;
  using Middle = FloatShape<kDim, 4, 1>;
  using Long = std::conditional_t<kDim <= 64, FloatShape<kDim, 4, kMostTiles>, FloatShape<kDim, 8, 1>>;
  const std::int64_t blocks =
      divide_up(length, std::int64_t{Long::kRows}) * heads * static_cast<std::int64_t>(problem.sequences.size());
  if (!has_room.template operator()<Middle>()) return false;
  if (length > Middle::kRows && blocks >= device.multiprocessors && has_room.template operator()<Long>()) {
    f.template operator()<Long>();
  } else if (length <= Short::kRows) {
    f.template operator()<Short>();
  } else {
    f.template operator()<Middle>();
  }
  return true;
}

// ---- which scores count ----

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// The keys that a query sees.
struct KeyRange {
  int first = 0, end = 0;

  // Without branches: it is asked for every score.
  __device__ bool has(int key) const { return (key >= first) & (key < end); }
};

// Which scores of one head of one sequence count, and what they are multiplied by. It is small: the kernels keep it in
// shared memory, because the registers are for sums.
struct FloatRule {
  int sequence, head;  // indices
  int query_length, key_count;
  int low, high;  // query q sees the keys q + low to q + high
  float scale;
  float keep_scale;  // of weights that dropout keeps
  std::uint32_t threshold;
  std::uint64_t seed;

  __device__ FloatRule(const AttentionCall& call, std::int64_t index, std::int64_t head_index) {
    constexpr std::int64_t kFar = std::int64_t{1} << 30;  // past all queries and keys
    const Sequence s = call.sequence_at(index);
    sequence = static_cast<int>(index);
    head = static_cast<int>(head_index);
    query_length = static_cast<int>(s.query_length);
    key_count = static_cast<int>(s.key_count);
    low = static_cast<int>(max(-kFar, min(kFar, s.query_offset - call.left)));
    high = static_cast<int>(max(-kFar, min(kFar, s.query_offset + call.right)));
    scale = static_cast<float>(call.scale);
    keep_scale = call.dropout.threshold == 0 ? 1.f : static_cast<float>(call.dropout.scale);
    threshold = call.dropout.threshold;
    seed = call.dropout.seed;
  }

  // What query q sees; nothing past the last query.
  __device__ KeyRange seen_keys(int q) const {
    if (q >= query_length) return {};
    return {max(0, min(key_count, q + low)), max(0, min(key_count, q + high + 1))};
  }

  // The words of dropout's draws around query q and key k: 2 * (query in the upper half of its 16) + (key likewise).
  __device__ std::array<std::uint32_t, 4> draw_words(int q, int k) const {
    const auto row = static_cast<std::uint32_t>(q), column = static_cast<std::uint32_t>(k);
    return philox4x32_7({row / 16 * 8 + row % 8, column / 16 * 4 + column % 8 / 2, static_cast<std::uint32_t>(head),
                         static_cast<std::uint32_t>(sequence)},
                        philox_key(seed));
  }
  // Whether dropout keeps a weight: the draw of an even key is the low half of its word.
  __device__ bool keeps(std::uint32_t word, bool key_is_odd) const {
    return (key_is_odd ? word >> 16 : word & 0xFFFF) >= threshold;
  }
  __device__ bool keeps_weight(int q, int k) const {
    const auto words = draw_words(q, k);
    const bool is_right = k % 16 >= 8;
    const std::uint32_t upper = is_right ? words[1] : words[0], lower = is_right ? words[3] : words[2];
    return keeps(q % 16 >= 8 ? lower : upper, k % 2 != 0);
  }
};

// What some queries, one after the other, see of the keys.
struct Sight {
  KeyRange some;  // keys that at least one of them sees
  KeyRange all;   // keys that all of them see

  // Of the queries [first, end); none for no queries.
  __device__ Sight(const FloatRule& rule, int first, int end) {
    end = min(end, rule.query_length);
    if (first >= end) return;
    const KeyRange front = rule.seen_keys(first), back = rule.seen_keys(end - 1);
    some = {front.first, back.end};
    all = {back.first, front.end};
  }

  __device__ bool sees_some(int first_key, int end_key) const { return first_key < some.end && end_key > some.first; }
  __device__ bool sees_all(int first_key, int end_key) const { return first_key >= all.first && end_key <= all.end; }
};

// ---- rows by one warp, for those that NaN or infinity has spoilt ----

// The warp's product of two rows, in all lanes.
__device__ inline float row_product(const float* a, const float* b, int columns) {
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x) % 32; c < columns; c += 32) sum = fmaf(a[c], b[c], sum);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
  return sum;
}

// A row of at most kMostColumns columns; lane l has the columns l, l + 32, ...
struct WarpRow {
  float at[kMostColumns / 32] = {};

  __device__ void scale(float factor) {
#pragma unroll
    for (float& value : at) value *= factor;
  }
  // Nothing is touched where the factor is 0.
  __device__ void add(float factor, const float* row, int columns) {
    if (factor == 0.f) return;
#pragma unroll
    for (int i = 0; i < kMostColumns / 32; ++i) {
      const int c = static_cast<int>(threadIdx.x) % 32 + 32 * i;
      if (c < columns) at[i] = fmaf(factor, row[c], at[i]);
    }
  }
  __device__ void write(float factor, float* row, int columns) const {
#pragma unroll
    for (int i = 0; i < kMostColumns / 32; ++i) {
      const int c = static_cast<int>(threadIdx.x) % 32 + 32 * i;
      if (c < columns) row[c] = at[i] * factor;
    }
  }
};

// What one query head of one sequence reads.
struct FloatHead {
  FloatRule rule;
  FloatRows queries, keys, values;  // (query_length, head_dim), (key_count, head_dim), (key_count, value_dim)

  __device__ FloatHead(const AttentionCall& call, std::int64_t index, std::int64_t head) : rule(call, index, head) {
    const Sequence s = call.sequence_at(index);
    const std::int64_t kv_head = head / call.group;
    queries = float_rows(call.query, s.batch, head, s.query_begin, s.query_length, call.head_dim);
    keys = float_rows(call.key, s.batch, kv_head, s.key_begin, s.key_count, call.head_dim);
    values = float_rows(call.value, s.batch, kv_head, s.key_begin, s.key_count, call.value_dim);
  }
};

// Calls body(head, first query) for this block's share of all tiles of queries; Head, which is made from (a, sequence,
// head), lies in `place` in shared memory. From the last tile to the first: under a causal mask the last have the most
// to do.
template <typename Head, typename Call, typename Body>
__device__ __forceinline__ void for_each_query_tile(const Call& a, const TileTable& tiles, unsigned char* place,
                                                    const Body& body) {
  auto* head = reinterpret_cast<Head*>(place);
  const std::int64_t count = tiles.count * a.call.heads;
  for (std::int64_t work = blockIdx.x; work < count; work += gridDim.x) {
    const TilePlace tile = tiles.at(tiles.count - 1 - work % tiles.count);
    if (threadIdx.x == 0) new (head) Head(a, tile.sequence, work / tiles.count);
    __syncthreads();
    body(*head, static_cast<int>(tile.first));
    __syncthreads();
  }
}

}  // namespace headway::inline v0::internal::cuda
