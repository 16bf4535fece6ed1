#include "cuda/hopper_backward_passes.h"
#include "cuda/hopper_backward_rows.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kWholeWarp = 0xffffffffu;

// Zeros in the sums of dQ of a block's 16 rows, as many as they take.
__device__ void clear_sums(const BackwardParameters& p, int dim) {
  const int count = kThreads / 16 * dim;
  float* sums = p.d_query_sums + static_cast<std::int64_t>(blockIdx.x) * count;
  for (int i = threadIdx.x * 4; i < count; i += kThreads * 4) {
    *reinterpret_cast<float4*>(sums + i) = make_float4(0.f, 0.f, 0.f, 0.f);
  }
}

// 16 threads a row. Block: 16 rows, which are of one head; it clears their sums too.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    prepare_kernel(const __grid_constant__ BackwardParameters p, const __grid_constant__ BackwardPasses passes) {
  const int lane = threadIdx.x % 16, slot = blockIdx.x * (kThreads / 16) + threadIdx.x / 16;  // of reference and delta
  const QueryPlace place = query_at(p, slot);
  const int batch = place.its.batch, head = place.head, row = place.its.query_begin + place.row;
  const std::int64_t at = (static_cast<std::int64_t>(batch) * p.heads + head) * p.query_length + row;
  const bool inside = place.inside;
  clear_sums(p, passes.dim);
  const float logsumexp = inside ? passes.logsumexp[at] : -INFINITY;
  bool suspicious = false;
  // A row that sees nothing has an output of zeros, and its dO may be anything. With a sink its delta counts all the
  // same.
  float sum = 0.f, seen_sum = 0.f;
  if (inside) {
    const T* output = row_of<T>(passes.output, batch, head, row);
    const T* d_output = row_of<T>(passes.d_output, batch, head, row);
    for (int c = lane * 8; c < passes.output.columns; c += 128) {
      float a[8], b[8];
      load_eight(output + c, a);
      load_eight(d_output + c, b);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sum = fmaf(a[i], b[i], sum);
        seen_sum = a[i] == 0.f ? seen_sum : fmaf(a[i], b[i], seen_sum);
      }
    }
    // Of a row that sees nothing, nothing else shows whether its own values are finite.
    if (passes.hides && (logsumexp == -INFINITY || passes.sinks != nullptr)) {
      const T* query = row_of<T>(passes.query, batch, head, row);
      for (int c = lane * 8; c < passes.query.columns; c += 128) {
        float values[8];
        load_eight(query + c, values);
        suspicious = suspicious || !all_finite(values);
      }
    }
  }
#pragma unroll
  for (int step = 8; step > 0; step /= 2) {
    sum += __shfl_xor_sync(kWholeWarp, sum, step);
    seen_sum += __shfl_xor_sync(kWholeWarp, seen_sum, step);
  }
  const float d_logsumexp = inside && passes.d_logsumexp != nullptr ? passes.d_logsumexp[at] : 0.f;
  const float delta = (passes.sinks == nullptr ? sum : seen_sum) - d_logsumexp;
  const float reference = logsumexp == -INFINITY ? INFINITY : logsumexp == INFINITY ? NAN : logsumexp * kBackwardLog2E;
  suspicious = suspicious || is_broken(reference, sum - d_logsumexp);
  if (passes.hides && suspicious) *passes.suspicious = 1;
  if (lane != 0) return;
  passes.reference[slot] = reference;
  passes.delta[slot] = delta;
  if (passes.rest != nullptr) passes.rest[slot] = 0.f;
}

// A thread: one row and eight columns. Block: a part of one tile of 64 rows.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    finish_kernel(const __grid_constant__ BackwardParameters p, const __grid_constant__ BackwardPasses passes) {
  const int per_row = passes.dim / 8, parts = kBackwardRows * per_row / kThreads;
  const int tile = blockIdx.x / parts, index = blockIdx.x % parts * kThreads + threadIdx.x;
  const int r = index / per_row, chunk = index % per_row;
  const QueryPlace place = query_at(p, tile * kBackwardRows + r);
  if (!place.inside || chunk * 8 >= passes.d_query.columns) return;
  const int half = chunk / (per_row / 2), j = chunk % (per_row / 2);
  // sums: (tiles, 2 halves of the columns, dim / 16, 128 threads, 4)
  const float* sums = p.d_query_sums + static_cast<std::int64_t>(tile) * kBackwardRows * passes.dim +
                      half * (kBackwardRows * passes.dim / 2) + (j * 128 + r / 16 * 32 + r % 8 * 4) * 4 +
                      r % 16 / 8 * 2;
  float values[8];
#pragma unroll
  for (int l = 0; l < 4; ++l) {
    const float2 pair = *reinterpret_cast<const float2*>(sums + 4 * l);
    values[2 * l] = pair.x;
    values[2 * l + 1] = pair.y;
  }
  store_eight(row_of<T>(passes.d_query, place.its.batch, place.head, place.its.query_begin + place.row) + chunk * 8,
              values, p.scale);
  if (passes.hides && !all_finite(values)) *passes.suspicious = 1;
}

// d_sink = sum of P_sink (d_logsumexp - sum(dO * O)) over the rows of a head. Block: one head.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    sink_kernel(const __grid_constant__ BackwardParameters p, const __grid_constant__ BackwardPasses passes) {
  __shared__ float sums[kThreads];
  const int head = blockIdx.x;
  const float sink = passes.sinks[head];
  float sum = 0.f;
  // The reference of padding is +inf.
  for (int i = threadIdx.x; i < p.batch * p.padded_rows && sink != -INFINITY; i += kThreads) {
    const std::int64_t plane = static_cast<std::int64_t>(i / p.padded_rows) * p.heads + head;
    const RowStatistics row = statistics_of(passes, plane * p.padded_rows + i % p.padded_rows);
    const float probability = exp2f(sink * kBackwardLog2E - row.reference - row.rest);
    if (probability != 0.f) sum = fmaf(-probability, row.delta, sum);
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) static_cast<T*>(passes.d_sinks)[head] = from_compute<T>(sums[0]);
}

// target (1 or batch, 1 or heads, elements) += planes (head_count * group, elements) of this launch's query heads, in
// their order. Thread: one element of one target plane.
__global__ void __launch_bounds__(kThreads)
    sum_planes_kernel(const __grid_constant__ BackwardParameters p, const __grid_constant__ BiasSums sums) {
  const std::int64_t elements = static_cast<std::int64_t>(p.query_length) * p.key_length;
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= elements) return;
  const int target = blockIdx.y, end = p.d_bias.first + p.head_count * (p.heads / p.kv_heads);
  int plane = p.d_bias.first, last = end, step = 1;
  if (sums.heads > 1) {  // the planes of one head in all batch entries
    step = p.heads;
    plane += (target - plane % p.heads + p.heads) % p.heads;
  } else if (sums.batch > 1) {  // all heads of one batch entry
    plane = max(plane, target * p.heads);
    last = min(end, (target + 1) * p.heads);
  }
  if (plane >= last) return;
  float* to = sums.target + target * elements + element;
  const float* from = p.d_bias.data + element;
  float sum = *to;
#pragma unroll 8
  for (; plane < last; plane += step) sum += from[(plane - p.d_bias.first) * elements];
  *to = sum;
}

}  // namespace

void prepare_backward_rows(const BackwardParameters& p, const BackwardPasses& passes) {
  const unsigned blocks = static_cast<unsigned>(p.batch * p.heads * (p.padded_rows / (kThreads / 16)));
  dispatch_16_bit(passes.dtype,
                  [&]<typename T>() { prepare_kernel<T><<<blocks, kThreads, 0, current_stream()>>>(p, passes); });
  check_launch("attention_backward: prepare");
}

void sum_sink_gradients(const BackwardParameters& p, const BackwardPasses& passes) {
  dispatch_elements(passes.sinks_dtype,
                    [&]<typename T>() { sink_kernel<T><<<p.heads, kThreads, 0, current_stream()>>>(p, passes); });
  check_launch("attention_backward: sinks");
}

void finish_query_gradient(const BackwardParameters& p, const BackwardPasses& passes) {
  const int parts = kBackwardRows * passes.dim / 8 / kThreads;
  const unsigned blocks = static_cast<unsigned>(p.batch * p.heads * p.row_tiles * parts);
  dispatch_16_bit(passes.dtype,
                  [&]<typename T>() { finish_kernel<T><<<blocks, kThreads, 0, current_stream()>>>(p, passes); });
  check_launch("attention_backward: finish");
}

void sum_bias_gradient(const BackwardParameters& p, const BiasSums& sums) {
  const std::int64_t elements = static_cast<std::int64_t>(p.query_length) * p.key_length;
  const dim3 blocks(static_cast<unsigned>((elements + kThreads - 1) / kThreads),
                    static_cast<unsigned>(sums.batch * sums.heads));
  sum_planes_kernel<<<blocks, kThreads, 0, current_stream()>>>(p, sums);
  check_launch("attention_backward: bias");
}

}  // namespace headway::inline v0::internal::cuda
