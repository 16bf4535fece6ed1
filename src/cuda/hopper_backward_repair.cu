// What the Hopper backward computes row by row: what hidden NaN reached, and what float32 is too short for.
#include "cuda/hopper_backward_passes.h"
#include "cuda/hopper_backward_rows.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kWholeWarp = 0xffffffffu;

// ---- repair: a warp a row, eight columns a lane ----
// One row as float32; zeros in lanes past the columns.
template <typename T>
__device__ void load_row(const RowTensor& tensor, int batch, int head, int row, float (&to)[8]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = 0.f;
  if (lane * 8 < tensor.columns) load_eight(row_of<T>(tensor, batch, head, row) + lane * 8, to);
}

template <typename T>
__device__ void store_row(const RowTensor& tensor, int batch, int head, int row, const float (&from)[8], float factor) {
  const int lane = threadIdx.x % 32;
  if (lane * 8 < tensor.columns) store_eight(row_of<T>(tensor, batch, head, row) + lane * 8, from, factor);
}

__device__ float dot(const float (&a)[8], const float (&b)[8]) {
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = fmaf(a[i], b[i], sum);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, step);
  return sum;
}

template <typename T>
__device__ bool row_is_finite(const RowTensor& tensor, int batch, int head, int row) {
  float values[8];
  load_row<T>(tensor, batch, head, row, values);
  return __all_sync(kWholeWarp, all_finite(values));
}

struct PairGradient {
  float dropped_p;  // P with its dropout factor
  float ds;         // of the product of query and key, but for the scale
};

// P and dS of one query and one key, from the products q k and dO v
__device__ PairGradient pair_gradient(const BackwardParameters& p, const SequencePlace& its, ScorePlace at,
                                      RowStatistics row, float product, float dp) {
  const CappedScore capped = cap_score(p, product, added_score(p, its, at));
  const float probability = exp2f(capped.score - row.reference - row.rest);
  if (probability == 0.f) return {0.f, 0.f};
  const float keep = dropout_factor(p.dropout, its.sequence, at);
  const float kept = keep == 0.f ? 0.f : dp * keep;
  return {probability * keep, probability * (kept - row.delta) * capped.slope};
}

// Whether a row sees anything, and this key.
__device__ bool is_seen(const BackwardParameters& p, const SequencePlace& its, ScorePlace at, RowStatistics row) {
  return row.reference != INFINITY && added_score(p, its, at) != -INFINITY;
}

template <typename T>
__device__ void repair_query(const BackwardParameters& p, const BackwardPasses& passes, int slot) {
  const QueryPlace place = query_at(p, slot);
  if (!place.inside) return;
  const SequencePlace& its = place.its;
  const int head = place.head, row = its.query_begin + place.row;
  if (row_is_finite<T>(passes.d_query, its.batch, head, row)) return;
  const RowStatistics own = statistics_of(passes, slot);
  if (own.reference != INFINITY && is_broken(own.reference, own.delta)) return;
  const int kv_head = head / (p.heads / p.kv_heads), position = place.row + its.query_offset;
  float query[8], d_output[8], sum[8] = {};
  load_row<T>(passes.query, its.batch, head, row, query);
  load_row<T>(passes.d_output, its.batch, head, row, d_output);
  for (int key = max(0, position - p.left); key < min(its.key_count, position + p.right + 1); ++key) {
    const ScorePlace at = {head, place.row, key};
    if (!is_seen(p, its, at, own)) continue;
    float k[8], v[8];
    load_row<T>(passes.key, its.batch, kv_head, its.key_begin + key, k);
    load_row<T>(passes.value, its.batch, kv_head, its.key_begin + key, v);
    const PairGradient pair = pair_gradient(p, its, at, own, dot(query, k), dot(d_output, v));
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] = fmaf(pair.ds, k[i], sum[i]);
  }
  store_row<T>(passes.d_query, its.batch, head, row, sum, p.scale);
}

// tensor_key: counted in the tensor
template <typename T>
__device__ void repair_key(const BackwardParameters& p, const BackwardPasses& passes, int batch, int kv_head,
                           int tensor_key) {
  if (row_is_finite<T>(passes.d_key, batch, kv_head, tensor_key) &&
      row_is_finite<T>(passes.d_value, batch, kv_head, tensor_key)) {
    return;
  }
  const SequencePlace its = sequence_of_key(p, batch, tensor_key);
  const int key = tensor_key - its.key_begin, group = p.heads / p.kv_heads, own_row = key - its.query_offset;
  const int end = key < its.key_count ? min(its.query_length, own_row + p.left + 1) : 0;
  float k[8], v[8], dk[8] = {}, dv[8] = {};
  load_row<T>(passes.key, batch, kv_head, tensor_key, k);
  load_row<T>(passes.value, batch, kv_head, tensor_key, v);
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const std::int64_t first_slot =
        ((static_cast<std::int64_t>(batch) * p.heads + head) * p.row_tiles + its.first_tile) * kBackwardRows;
    for (int row = max(0, own_row - p.right); row < end; ++row) {
      const ScorePlace at = {head, row, key};
      const RowStatistics statistics = statistics_of(passes, first_slot + row);
      if (!is_seen(p, its, at, statistics)) continue;
      // It sees this key, so that NaN gradients are correct.
      if (is_broken(statistics.reference, statistics.delta)) return;
      float query[8], d_output[8];
      load_row<T>(passes.query, batch, head, its.query_begin + row, query);
      load_row<T>(passes.d_output, batch, head, its.query_begin + row, d_output);
      const PairGradient pair = pair_gradient(p, its, at, statistics, dot(query, k), dot(d_output, v));
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        dk[i] = fmaf(pair.ds, query[i], dk[i]);
        dv[i] = fmaf(pair.dropped_p, d_output[i], dv[i]);
      }
    }
  }
  store_row<T>(passes.d_key, batch, kv_head, tensor_key, dk, p.scale);
  store_row<T>(passes.d_value, batch, kv_head, tensor_key, dv, 1.f);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    repair_kernel(const __grid_constant__ BackwardParameters p, const __grid_constant__ BackwardPasses passes) {
  if (*passes.suspicious == 0) return;
  const std::int64_t slots = static_cast<std::int64_t>(p.batch) * p.heads * p.padded_rows;
  const std::int64_t keys = static_cast<std::int64_t>(p.batch) * p.kv_heads * p.key_length;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (kThreads / 32);
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  for (std::int64_t i = warp; i < slots; i += warps) repair_query<T>(p, passes, static_cast<int>(i));
  for (std::int64_t i = warp; i < keys; i += warps) {
    const std::int64_t head = i / p.key_length;
    repair_key<T>(p, passes, static_cast<int>(head / p.kv_heads), static_cast<int>(head % p.kv_heads),
                  static_cast<int>(i % p.key_length));
  }
}

// ---- refinement: a warp a row, like the repair ----
template <typename T>
__device__ void refine_row(const BackwardParameters& p, const BackwardPasses& passes, const QueryPlace& place,
                           int slot) {
  const SequencePlace& its = place.its;
  const int kv_head = place.head / (p.heads / p.kv_heads), position = place.row + its.query_offset;
  float query[8], maximum = passes.sinks == nullptr ? -INFINITY : passes.sinks[place.head] * kBackwardLog2E;
  float sum = maximum == -INFINITY ? 0.f : 1.f;  // of exp2(score - maximum)
  load_row<T>(passes.query, its.batch, place.head, its.query_begin + place.row, query);
  for (int key = max(0, position - p.left); key < min(its.key_count, position + p.right + 1); ++key) {
    const float added = added_score(p, its, {place.head, place.row, key});
    if (added == -INFINITY) continue;
    float k[8];
    load_row<T>(passes.key, its.batch, kv_head, its.key_begin + key, k);
    const float score = cap_score(p, dot(query, k), added).score;
    if (score == -INFINITY) continue;
    const float next = fmaxf(maximum, score);
    sum = sum * exp2f(maximum - next) + exp2f(score - next);
    maximum = next;
  }
  if (maximum == -INFINITY || threadIdx.x % 32 != 0) return;
  passes.reference[slot] = maximum;
  passes.rest[slot] = log2f(sum);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    refine_kernel(const __grid_constant__ BackwardParameters p, const __grid_constant__ BackwardPasses passes) {
  constexpr float kLarge = 1024.f * kBackwardLog2E;
  const std::int64_t slots = static_cast<std::int64_t>(p.batch) * p.heads * p.padded_rows;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (kThreads / 32);
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  for (std::int64_t i = warp; i < slots; i += warps) {
    const float reference = passes.reference[i];
    if (!isfinite(reference) || fabsf(reference) < kLarge) continue;
    const int slot = static_cast<int>(i);
    refine_row<T>(p, passes, query_at(p, slot), slot);
  }
}

}  // namespace

void refine_large_rows(const BackwardParameters& p, const BackwardPasses& passes) {
  const unsigned blocks = static_cast<unsigned>(device_properties().multiprocessors) * 4;
  dispatch_16_bit(passes.dtype,
                  [&]<typename T>() { refine_kernel<T><<<blocks, kThreads, 0, current_stream()>>>(p, passes); });
  check_launch("attention_backward: refine");
}

void repair_gradients(const BackwardParameters& p, const BackwardPasses& passes) {
  const unsigned blocks = static_cast<unsigned>(device_properties().multiprocessors) * 4;
  dispatch_16_bit(passes.dtype,
                  [&]<typename T>() { repair_kernel<T><<<blocks, kThreads, 0, current_stream()>>>(p, passes); });
  check_launch("attention_backward: repair");
}

}  // namespace headway::inline v0::internal::cuda
