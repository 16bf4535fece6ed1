// The gradient of a bias that is added to the scores of several heads: dS summed over them in registers. A block has
// 128 queries and 128 keys of one plane of the gradient, computes their S and dP for one head after the other, and
// writes the sum.
#include <algorithm>
#include <cstdint>

#include "cuda/hopper_backward_bias.h"
#include "cuda/hopper_backward_rules.cuh"
#include "cuda/hopper_backward_tiles.cuh"
#include "cuda/hopper_wgmma.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kSide = 128;            // queries and keys of a block
constexpr int kHalfBytes = 64 * 128;  // one copy: 64 rows, 64 columns

// The shared memory. A stage holds 64 columns of Q and K, or of dO and V: (kSide, 64) each, rows of 128 bytes,
// swizzled.
constexpr int kStages = 6, kStageBytes = 4 * kHalfBytes;
constexpr int kBiasAt = kStages * kStageBytes;     // the bias: (2, 2, 64 queries, 64 keys), likewise
constexpr int kFullAt = kBiasAt + 4 * kHalfBytes;  // barriers: (kStages)
constexpr int kEmptyAt = kFullAt + 8 * kStages;    // likewise
constexpr int kBiasFullAt = kEmptyAt + 8 * kStages;
constexpr int kBytes = kBiasFullAt + 8 + 1024;  // the base is rounded up to 1024
constexpr int kThreads = 384, kProducerRegisters = 40, kConsumerRegisters = 232, kConsumerWarps = 8;

// ---- work ----
// A block's place, and the heads that it sums up.
struct BiasWork {
  int split, target;
  int query0, key0;  // of the block
  int first, end;    // of the target's heads, all batch entries counted

  __device__ BiasWork(const BackwardParameters& p, const BiasGradient& g) {
    int rest = static_cast<int>(blockIdx.x);
    key0 = rest % g.key_tiles * kSide;
    rest /= g.key_tiles;
    query0 = rest % g.query_tiles * kSide;
    rest /= g.query_tiles;
    split = rest % g.splits;
    target = rest / g.splits;
    const std::int64_t count = (g.batch > 1 ? 1 : p.batch) * (g.heads > 1 ? 1 : p.heads);
    first = static_cast<int>(count * split / g.splits);
    end = static_cast<int>(count * (split + 1) / g.splits);
  }
  // Whether a query of the block sees a key of the block.
  __device__ bool is_seen(const BackwardParameters& p, const BackwardSequence& its) const {
    const int last_query = min(query0 + kSide, its.query_length) - 1;
    return query0 < its.query_length && key0 < its.key_count && key0 <= last_query + its.query_offset + p.right &&
           key0 + kSide - 1 >= query0 + its.query_offset - p.left;
  }
};

// Goes over a block's heads, those of one batch entry after the other.
struct BiasCursor {
  const BackwardParameters& p;
  const BiasGradient& g;
  const BiasWork& work;
  int left;  // heads, this one counted
  int batch, head, kv_head;
  int left_of_group;  // query heads of the key head, this one counted
  BackwardSequence its;
  bool seen;

  __device__ __forceinline__ BiasCursor(const BackwardParameters& parameters, const BiasGradient& gradient,
                                        const BiasWork& its_work)
      : p(parameters), g(gradient), work(its_work), left(work.end - work.first) {
    const int heads = g.heads > 1 ? 1 : p.heads, group = p.heads / p.kv_heads;
    batch = g.batch > 1 ? work.target / g.heads : work.first / heads;
    head = g.heads > 1 ? work.target % g.heads : work.first % heads;
    kv_head = head / group;
    left_of_group = group - head % group;
    enter_batch();
  }
  __device__ __forceinline__ void enter_batch() {
    its = sequence_at(p, batch);
    seen = work.is_seen(p, its);
  }
  __device__ __forceinline__ void advance() {
    --left;
    if (g.heads > 1 || head + 1 == p.heads) {
      if (g.heads == 1) {
        head = kv_head = 0;
        left_of_group = p.heads / p.kv_heads;
      }
      ++batch;
      if (left > 0) enter_batch();
    } else {
      ++head;
      if (--left_of_group == 0) {
        ++kv_head;
        left_of_group = p.heads / p.kv_heads;
      }
    }
  }
};

// ---- copies: one warp for the queries' side, one for the keys' ----
// The bias, once.
__device__ __forceinline__ void copy_bias(const BackwardParameters& p, const BiasWork& work, const BiasCursor& at,
                                          std::uint32_t base) {
  barrier_expect(base + kBiasFullAt, 4 * kHalfBytes);
  for (int half = 0; half < 4; ++half) {
    load_columns(base + kBiasAt + half * kHalfBytes, &p.bias.map, base + kBiasFullAt, work.key0 + half % 2 * 64,
                 p.bias.stride[2] == 0 ? 0 : work.query0 + half / 2 * 64, p.bias.stride[1] == 0 ? 0 : at.head,
                 p.bias.stride[0] == 0 ? 0 : at.batch);
  }
}

// All stages' Q and dO, or K and V.
template <int kDim, bool kQueries>
__device__ __forceinline__ void copy_stages(const BackwardParameters& p, const BiasGradient& g, const BiasWork& work,
                                            std::uint32_t base) {
  const bool elected = threadIdx.x % 32 == 0;
  BiasCursor at(p, g, work);
  if (kQueries && elected) copy_bias(p, work, at, base);
  int stage = 0, phase = 0;
  for (; at.left > 0; at.advance()) {
    if (!at.seen) continue;
    const int row = kQueries ? work.query0 : work.key0;
    const int head = kQueries ? at.head : at.kv_head;
#pragma unroll
    for (int c = 0; c < 2 * kDim; c += 64) {
      const CUtensorMap* map = kQueries ? (c < kDim ? &p.query : &p.d_output) : (c < kDim ? &g.key : &g.value);
      const std::uint32_t full = base + kFullAt + 8 * stage;
      barrier_wait(base + kEmptyAt + 8 * stage, phase ^ 1);
      if (elected) {
        if (kQueries) barrier_expect(full, kStageBytes);
        for (int half = 0; half < 2; ++half) {
          const std::uint32_t to = base + stage * kStageBytes + (kQueries ? half : 2 + half) * kHalfBytes;
          load_columns(to, map, full, c % kDim, row + 64 * half, head, at.batch);
        }
      }
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }
}

// ---- a consumer warpgroup: 64 queries of the block, all its keys ----
// A thread holds, per 8 keys j, the elements 4 j + 2 y + x of query own_query + 8 y and key 8 j + 2 (lane % 4) + x.
template <typename T, int kDim>
struct BiasConsumer {
  static constexpr int kChunks = kDim / 64, kElements = kSide / 2;
  const BackwardParameters& p;
  const BiasGradient& g;
  const BiasWork& work;
  const std::uint32_t base;
  const int group, lane, warp;
  const int own_query;   // of the thread
  float s[kElements];    // S, then P: (64 queries, kSide)
  float dp[kElements];   // dP: likewise
  float sum[kElements];  // of dS over the heads: likewise
  int stage = 0, phase = 0;
  int released = 0;  // the next stage to be released

  __device__ __forceinline__ BiasConsumer(const BackwardParameters& parameters, const BiasGradient& gradient,
                                          const BiasWork& its_work, std::uint32_t base_address)
      : p(parameters),
        g(gradient),
        work(its_work),
        base(base_address),
        group(warp_uniform(static_cast<int>(threadIdx.x) / 128 - 1)),
        lane(threadIdx.x % 32),
        warp(warp_uniform(static_cast<int>(threadIdx.x) / 32 % 4)),
        own_query(work.query0 + group * 64 + warp * 16 + lane / 4) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) sum[i] = 0.f;
  }

  static __device__ __forceinline__ int stage_after(int stage) { return stage + 1 == kStages ? 0 : stage + 1; }

  // D = A B^T of the next kChunks stages, as one group.
  __device__ __forceinline__ void issue_product(float (&d)[kElements]) {
    const int first = stage;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      barrier_wait(base + kFullAt + 8 * stage, phase);
      stage = stage_after(stage);
      if (stage == 0) phase ^= 1;
    }
    wgmma_fence();
    int its = first;
#pragma unroll
    for (int c = 0; c < kChunks; ++c, its = stage_after(its)) {
      const std::uint32_t a = operand(base + its * kStageBytes + group * kHalfBytes, 16);
      const std::uint32_t b = operand(base + its * kStageBytes + 2 * kHalfBytes, 16);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (c == 0 && k == 0) {
          wgmma_ss_first<T>(d, descriptor(a, 0), descriptor(b, 0));
        } else {
          wgmma_ss<T>(d, descriptor(a, k * 32), descriptor(b, k * 32));
        }
      }
    }
    wgmma_commit();
  }
  // The oldest kChunks stages are not needed any more.
  __device__ __forceinline__ void release_product() {
    __syncwarp();
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (lane == 0) barrier_arrive(base + kEmptyAt + 8 * released);
      released = stage_after(released);
    }
  }

  // Where the lane's row of the bias lies.
  __device__ __forceinline__ std::uint32_t bias_row() const {
    const int its_lane = lane_here(), row = warp * 16 + its_lane % 16;
    return base + kBiasAt + 2 * group * kHalfBytes + row * 128 + ((its_lane / 16 ^ row % 8) << 4);
  }
  // The words of the bias for 16 keys: [2 * (second 8 keys) + (second 8 queries)]
  static __device__ __forceinline__ void load_bias(std::uint32_t (&word)[4], std::uint32_t row, int step) {
    ldmatrix(word, (row ^ (step % 4 << 5)) + step / 4 * kHalfBytes);
  }
  __device__ __forceinline__ bool bias_hides() const {
    const std::uint32_t from = bias_row();
    std::uint32_t largest = 0;
#pragma unroll
    for (int step = 0; step < kSide / 16; ++step) {
      std::uint32_t word[4];
      load_bias(word, from, step);
      largest = __vimax3_u16x2(largest, word[0], word[1]);
      largest = __vimax3_u16x2(largest, word[2], word[3]);
    }
    return may_hide<T>(largest);
  }

  // P = exp2(S * scale + bias - reference - rest)
  __device__ __forceinline__ void raise(const float (&reference)[2], const float (&rest)[2]) {
    const std::uint32_t from = bias_row();
#pragma unroll
    for (int step = 0; step < kSide / 16; ++step) {
      std::uint32_t word[4];
      load_bias(word, from, step);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 added = unpack_pair<T>(word[i]);
        float* pair = s + 8 * step + 2 * i;
        const float x = fmaf(pair[0], p.scale_log2, added.x * kBackwardLog2E);
        const float y = fmaf(pair[1], p.scale_log2, added.y * kBackwardLog2E);
        pair[0] = exp2_approximate(x - reference[i % 2] - rest[i % 2]);
        pair[1] = exp2_approximate(y - reference[i % 2] - rest[i % 2]);
      }
    }
  }
  // Sets P to zero where the bias hides the key or the query is out of its reach.
  __device__ __forceinline__ void hide(const BackwardSequence& its) {
    const unsigned reach = static_cast<unsigned>(p.left) + static_cast<unsigned>(p.right);
    const std::uint32_t from = bias_row();
    const int own_key = work.key0 + 2 * (lane % 4);
    const int distance = own_key - (own_query + its.query_offset) + p.left;
#pragma unroll
    for (int step = 0; step < kSide / 16; ++step) {
      std::uint32_t word[4];
      load_bias(word, from, step);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int y = i / 2 % 2 * 8, x = step * 16 + i / 4 * 8 + i % 2;
        const float2 added = unpack_pair<T>(word[i / 2]);
        const bool seen = own_key + x < its.key_count && static_cast<unsigned>(distance + x - y) <= reach;
        if (!seen || (i % 2 ? added.y : added.x) <= kBackwardHides) s[8 * step + i] = 0.f;
      }
    }
  }

  // Adds dS of one head.
  __device__ __forceinline__ void add_head(int batch, int head, const BackwardSequence& its, bool hides) {
    float reference[2] = {INFINITY, INFINITY}, rest[2] = {0.f, 0.f}, delta[2] = {0.f, 0.f};
    const std::int64_t row =
        ((static_cast<std::int64_t>(batch) * p.heads + head) * p.row_tiles + its.first_tile) * kBackwardRows;
#pragma unroll
    for (int y = 0; y < 2; ++y) {
      if (own_query + 8 * y >= its.query_length) continue;
      reference[y] = p.reference[row + own_query + 8 * y];
      rest[y] = p.rest[row + own_query + 8 * y];
      delta[y] = p.delta[row + own_query + 8 * y];
    }
    issue_product(s);
    if constexpr (kChunks > 2) {  // the stages of both products are too many
      wgmma_wait<0>();
      release_product();
    }
    issue_product(dp);
    if constexpr (kChunks <= 2) {
      wgmma_wait<1>();
      release_product();
    }
    raise(reference, rest);
    const int position = work.query0 + its.query_offset;
    const bool masked = hides || work.key0 + kSide > its.key_count || work.key0 + kSide - 1 > position + p.right ||
                        work.key0 < position + kSide - 1 - p.left;
    if (masked) hide(its);
    wgmma_wait<0>();
    release_product();
#pragma unroll
    for (int i = 0; i < kElements; ++i) dp[i] -= delta[i / 2 % 2];
    if (masked) {  // where P is zero dS is too, whatever dP is
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        if (s[i] == 0.f) dp[i] = 0.f;
      }
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) sum[i] = fmaf(s[i], dp[i], sum[i]);
  }

  // The sum to its plane.
  __device__ __forceinline__ void store(const BackwardSequence& its) const {
    const std::int64_t plane = static_cast<std::int64_t>(work.split) * g.batch * g.heads + work.target;
    const int key = work.key0 + 2 * (lane % 4), keys_left = its.key_length - key;
    float* to = g.data + (plane * p.query_length + own_query) * p.key_length + key;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int y = i / 2 % 2 * 8, x = i / 4 * 8 + i % 2;
      if (own_query + y >= its.query_length || x >= keys_left) continue;
      to[static_cast<std::int64_t>(y) * p.key_length + x] = sum[i];
    }
  }

  __device__ __forceinline__ void run() {
    barrier_wait(base + kBiasFullAt, 0);
    const bool hides = bias_hides();
    BiasCursor at(p, g, work);
    const BackwardSequence its = at.its;
    for (; at.left > 0; at.advance()) {
      if (at.seen) add_head(at.batch, at.head, at.its, hides);
    }
    store(its);
  }
};

template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    bias_kernel(const __grid_constant__ BackwardParameters p, const __grid_constant__ BiasGradient g) {
  extern __shared__ char raw[];
  const std::uint32_t base = (shared_address(raw) + 1023) / 1024 * 1024;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      barrier_init(base + kFullAt + 8 * s, 1);
      barrier_init(base + kEmptyAt + 8 * s, kConsumerWarps);
    }
    barrier_init(base + kBiasFullAt, 1);
    barrier_init_fence();
  }
  __syncthreads();
  const BiasWork work(p, g);
  if (threadIdx.x < 128) {
    registers_less<kProducerRegisters>();
    if (threadIdx.x < 32) {
      copy_stages<kDim, true>(p, g, work, base);
    } else if (threadIdx.x < 64) {
      copy_stages<kDim, false>(p, g, work, base);
    }
  } else {
    registers_more<kConsumerRegisters>();
    BiasConsumer<T, kDim>(p, g, work, base).run();
  }
}

// target = the sum of the splits, (splits, elements). Thread: one element.
__global__ void __launch_bounds__(256)
    sum_splits_kernel(const float* from, float* target, std::int64_t elements, int splits) {
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (element >= elements) return;
  float sum = 0.f;
#pragma unroll 4
  for (int s = 0; s < splits; ++s) sum += from[s * elements + element];
  target[element] = sum;
}

template <typename T, int kDim>
void launch_bias_kernel(const BackwardParameters& p, const BiasGradient& g, std::int64_t blocks) {
  const auto kernel = bias_kernel<T, kDim>;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
             "attention_backward: shared memory");
  kernel<<<static_cast<unsigned>(blocks), kThreads, kBytes, current_stream()>>>(p, g);
  check_launch("attention_backward: bias");
}

template <typename T>
void launch_bias_kernel(const BackwardParameters& p, const BiasGradient& g, std::int64_t blocks, int dim) {
  if (dim == 64) return launch_bias_kernel<T, 64>(p, g, blocks);
  if (dim == 128) return launch_bias_kernel<T, 128>(p, g, blocks);
  launch_bias_kernel<T, 256>(p, g, blocks);
}

// Into how many sums the heads of a plane are split so that `blocks` for each fill the GPU's multiprocessors well.
int choose_splits(std::int64_t blocks, std::int64_t planes) {
  constexpr std::int64_t kMostSplits = 64;
  constexpr double kWellFilled = 0.85;
  const std::int64_t processors = device_properties().multiprocessors;
  double best = 0;
  int result = 1;
  for (std::int64_t splits = 1; splits <= std::min(planes, kMostSplits) && best < kWellFilled; ++splits) {
    const std::int64_t waves = (blocks * splits + processors - 1) / processors;
    const double filled = static_cast<double>(blocks * splits) / static_cast<double>(waves * processors);
    if (filled > best) {
      best = filled;
      result = static_cast<int>(splits);
    }
  }
  return result;
}

}  // namespace

void add_up_bias_gradient(const BackwardParameters& p, BiasGradient g, DType dtype, int dim) {
  g.query_tiles = (p.query_length + kSide - 1) / kSide;
  g.key_tiles = (p.key_length + kSide - 1) / kSide;
  const std::int64_t planes = static_cast<std::int64_t>(g.batch > 1 ? 1 : p.batch) * (g.heads > 1 ? 1 : p.heads);
  const std::int64_t blocks = static_cast<std::int64_t>(g.query_tiles) * g.key_tiles * g.batch * g.heads;
  g.splits = choose_splits(blocks, planes);
  const std::int64_t elements = static_cast<std::int64_t>(g.batch) * g.heads * p.query_length * p.key_length;
  float* target = g.data;
  DeviceBuffer parts;  // (splits, batch, heads, query_length, key_length)
  if (g.splits > 1) {
    parts = DeviceBuffer(static_cast<std::size_t>(g.splits * elements) * sizeof(float));
    g.data = parts.as<float>();
  }
  if (dtype == DType::float16) {
    launch_bias_kernel<__half>(p, g, blocks * g.splits, dim);
  } else {
    launch_bias_kernel<__nv_bfloat16>(p, g, blocks * g.splits, dim);
  }
  if (g.splits == 1) return;
  sum_splits_kernel<<<static_cast<unsigned>((elements + 255) / 256), 256, 0, current_stream()>>>(g.data, target,
                                                                                                 elements, g.splits);
  check_launch("attention_backward: sum of the bias");
}

}  // namespace headway::inline v0::internal::cuda
