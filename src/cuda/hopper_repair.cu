#include <cstdint>

#include "cuda/attention_score.cuh"
#include "cuda/element.cuh"
#include "cuda/hopper_launch.h"
#include "cuda/hopper_repair.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kWarps = 16;
constexpr int kColumns = 256 / 32;  // of a lane, at most

// The warp's sum, in all lanes.
__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
  return value;
}

// One row by one warp: softmax(S) V over the keys that it sees, key by key, and its log-sum-exp. Lane l has columns l,
// l + 32, ...
template <typename T>
__device__ void compute_row(const AttentionCall& call, const ScoreRule<float>& rule, std::int64_t q, T* output,
                            float* logsumexp) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Sequence& sequence = rule.sequence;
  const std::int64_t kv_head = rule.head / call.group;
  const TileRows<T> query = rows_at<T>(call.query, sequence.batch, rule.head, sequence.query_begin, 0);
  const TileRows<T> key = rows_at<T>(call.key, sequence.batch, kv_head, sequence.key_begin, 0);
  const TileRows<T> value = rows_at<T>(call.value, sequence.batch, kv_head, sequence.key_begin, 0);
  float maximum = -INFINITY, sum = 0, outputs[kColumns] = {};
  for (std::int64_t k = rule.first_key(q); k < rule.end_key(q); ++k) {
    float product = 0;
    for (std::int64_t c = lane; c < call.head_dim; c += 32) {
      product += to_compute(query.data[q * query.stride + c]) * to_compute(key.data[k * key.stride + c]);
    }
    const float score = rule.masked(rule.capped(warp_sum(product) * rule.scale), q, k, true);
    if (score == -INFINITY) continue;
    // maximum and sum, online
    const float largest = score > maximum ? score : maximum;
    const float factor = sum == 0 ? 0.f : expf(maximum - largest);
    const float p = expf(score - largest);
    maximum = largest;
    sum = sum * factor + p;
    bool kept[4];
    rule.find_kept(q, k / 4 * 4, kept);
    const bool is_kept = k % 4 < 2 ? (k % 4 == 0 ? kept[0] : kept[1]) : (k % 4 == 2 ? kept[2] : kept[3]);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const std::int64_t c = lane + 32 * i;
      outputs[i] *= factor;
      if (is_kept && p != 0 && c < call.value_dim) outputs[i] += p * to_compute(value.data[k * value.stride + c]);
    }
  }
  if (call.sinks) {  // one more score, without a value
    const float sink = static_cast<float>(call.sinks[rule.head]), largest = sink > maximum ? sink : maximum;
    const float factor = sum == 0 ? 0.f : expf(maximum - largest);
    sum = sum * factor + (sink == -INFINITY ? 0.f : expf(sink - largest));
    for (float& o : outputs) o *= factor;
    maximum = largest;
  }
  if (lane == 0) *logsumexp = sum == 0 ? -INFINITY : maximum + logf(sum);
  const float factor = sum == 0 ? 0.f : static_cast<float>(call.dropout.scale) / sum;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const std::int64_t c = lane + 32 * i;
    if (c < call.value_dim) output[c] = from_compute<T>(outputs[i] * factor);
  }
}

// All rows of all heads, a warp at a time: those that are not finite are computed again.
template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    repair_kernel(const __grid_constant__ AttentionCall call, const __grid_constant__ SpoiltRows spoilt) {
  cudaGridDependencySynchronize();
  if (*spoilt.not_finite == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t heads = call.sequence_count * call.heads, rows_of_head = call.query_length;
  for (std::int64_t i = blockIdx.x * kWarps + warp; i < heads * rows_of_head; i += gridDim.x * kWarps) {
    const std::int64_t head = i / rows_of_head, q = i % rows_of_head;
    const ScoreRule<float> rule(call, head / call.heads, head % call.heads);
    const TileRows<T> rows = rows_at<T>(spoilt.output, rule.sequence.batch, rule.head, rule.sequence.query_begin,
                                        rule.sequence.query_length);
    if (q >= rows.count) continue;
    T* row = const_cast<T*>(rows.data) + q * rows.stride;
    bool is_finite = true;
    for (std::int64_t c = lane; c < call.value_dim; c += 32) is_finite = is_finite && isfinite(to_compute(row[c]));
    if (__all_sync(0xFFFFFFFFu, is_finite)) continue;
    compute_row(call, rule, q, row, spoilt.logsumexp + call.first_row(rule.sequence, rule.head) + q);
  }
  // The last block to end leaves the words as the next call wants them.
  __syncthreads();
  if (threadIdx.x == 0 && atomicInc(spoilt.repaired_blocks, gridDim.x - 1) == gridDim.x - 1) *spoilt.not_finite = 0;
}

}  // namespace

void repair_rows(const AttentionCall& call, DType dtype, const SpoiltRows& rows) {
  const auto blocks = static_cast<unsigned>(device_properties().multiprocessors);
  const auto kernel = dtype == DType::float16 ? repair_kernel<__half> : repair_kernel<__nv_bfloat16>;
  launch_early(kernel, blocks, kWarps * 32, 0, call, rows);
}

}  // namespace headway::inline v0::internal::cuda
