// Attention of a decoding step, and new tokens that are put into its cache.
#include <algorithm>
#include <cstdint>

#include "cuda/backend.h"
#include "cuda/step_attention.cuh"
#include "cuda/step_attention_mma.cuh"
#include "cuda/step_heads.cuh"
#include "cuda/step_launch.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

template <typename T>
T* data_of(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw_data()) : nullptr;
}

// For accesses of 16 bytes.
bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

constexpr int kAppendWarps = 8;

// A block per row, a warp per head.
template <typename T>
__global__ void __launch_bounds__(kAppendWarps* kWarp) append_kernel(const __grid_constant__ AppendArguments<T> a) {
  __shared__ Compute<T> memory[kAppendWarps][kMostHeadDim];
  let_next_start();
  wait_for_previous();
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const NewToken<T> token(a, row);
    T* projected = a.projected + row * a.stride;
    for (int head = warp; head < a.heads + 2 * a.kv_heads; head += kAppendWarps) {
      T* source = projected + static_cast<std::int64_t>(head) * a.head_dim;
      if (head < a.heads) {
        if (!a.query_norm && !token.rotation) continue;
        transform_head(a, source, a.query_norm, token.rotation, memory[warp],
                       [&](int d, Compute<T> value) { source[d] = from_compute<T>(value); });
      } else if (token.is_inside) {
        const bool is_key = head < a.heads + a.kv_heads;
        T* target = token.key(a, head - a.heads);  // values follow the keys
        if (is_key) {
          transform_head(a, source, a.key_norm, token.rotation, memory[warp],
                         [&](int d, Compute<T> value) { target[d] = from_compute<T>(value); });
        } else {
          for (int d = lane; d < a.head_dim; d += kWarp) target[d] = source[d];
        }
      }
    }
    if (token.is_inside && a.origins && threadIdx.x == 0) {
      a.origins[row * a.capacity + token.position] = static_cast<std::int32_t>(token.entry);
    }
  }
}

// ---- host ----

template <typename T>
AppendArguments<T> append_arguments(const CacheAppend& task) {
  if (!task.projected.defined()) return {};
  return {.projected = data_of<T>(task.projected),
          .positions = data_of<const std::int64_t>(task.positions),
          .entries = data_of<const std::int32_t>(task.entries),
          .cache = data_of<T>(task.cache),
          .origins = data_of<std::int32_t>(task.origins),
          .query_norm = data_of<const T>(task.query_norm),
          .key_norm = data_of<const T>(task.key_norm),
          .rotation = data_of<const float>(task.rotation),
          .rows = task.projected.size(0),
          .stride = task.projected.stride(0),
          .entry_count = task.cache.size(0),
          .capacity = task.cache.size(1),
          .rotation_length = task.rotation.defined() ? task.rotation.size(0) : 0,
          .heads = static_cast<int>(task.heads),
          .kv_heads = static_cast<int>(task.kv_heads),
          .head_dim = static_cast<int>(task.head_dim),
          .dims = task.rotation.defined() ? static_cast<int>(task.rotation.size(1)) : 0,
          .epsilon = static_cast<Compute<T>>(task.norm_epsilon),
          .interleaved = task.interleaved};
}

template <typename T>
StepAttentionArguments<T> attention_arguments(const CacheAttention& task) {
  const StepScores& scores = task.scores;
  const bool has_bias = scores.distance_bias.defined();
  return {.append = append_arguments<T>(task.append),
          .query = data_of<const T>(task.query),
          .cache = data_of<const T>(task.cache),
          .origins = data_of<const std::int32_t>(task.origins),
          .lengths = data_of<const std::int64_t>(task.lengths),
          .result = data_of<T>(task.result),
          .query_stride = task.query.defined() ? task.query.stride(0) : 0,
          .entry_count = task.cache.size(0),
          .capacity = task.cache.size(1),
          .heads = static_cast<int>(scores.heads),
          .kv_heads = static_cast<int>(scores.kv_heads),
          .head_dim = static_cast<int>(scores.head_dim),
          .group = static_cast<int>(scores.heads / scores.kv_heads),
          .chunks = 1,
          .cluster = 1,
          .starts_early = starts_early(),
          .scale = static_cast<Compute<T>>(scores.scale),
          .softcap = static_cast<Compute<T>>(scores.softcap),
          .window = scores.window,
          .alibi_slopes = data_of<const float>(scores.alibi_slopes),
          .distance_bias = data_of<const float>(scores.distance_bias),
          .distances = has_bias ? scores.distance_bias.size(1) : 0,
          .sinks = data_of<const float>(scores.sinks)};
}

template <typename T, int kGroup, int kColumns, int kPack>
void launch_attention(StepAttentionArguments<T> a, std::int64_t rows) {
  a.chunks = (a.group + kGroup - 1) / kGroup;
  const std::int64_t items = rows * a.kv_heads * a.chunks;
  // Tokens are shared out to several blocks where there are few rows: at most to as many as there can be at once.
  constexpr std::int64_t kTokensOfBlock = 64;
  const DeviceProperties& properties = device_properties();
  const int most = sizeof(Compute<T>) == sizeof(float) && properties.capability >= 90 ? 8 : 1;
  while (2 * a.cluster <= most && items * a.cluster <= properties.multiprocessors &&
         2 * a.cluster * kTokensOfBlock <= a.capacity) {
    a.cluster *= 2;
  }
  const AttentionMemory memory(kGroup, a.head_dim);
  launch_step({.name = "step_attention_kernel",
               .grid = dim3(static_cast<unsigned>(items * a.cluster)),
               .threads = kAttentionThreads,
               .shared_bytes = static_cast<std::size_t>(memory.total) * sizeof(Compute<T>),
               .cluster = static_cast<unsigned>(a.cluster)},
              step_attention_kernel<T, kGroup, kColumns, kPack>, a);
}

template <typename T, int kGroup>
void choose_columns(const StepAttentionArguments<T>& a, std::int64_t rows) {
  constexpr int kFull = 16 / sizeof(T);
  if constexpr (kFull == 4) {
    if (a.head_dim % 8 == 0 && is_aligned(a.cache)) {
      if (a.head_dim <= 64) return launch_attention<T, kGroup, 2, kFull>(a, rows);
      if (a.head_dim <= 128) return launch_attention<T, kGroup, 4, kFull>(a, rows);
      return launch_attention<T, kGroup, 8, kFull>(a, rows);
    }
  }
  launch_attention<T, kGroup, kMostHeadDim / kWarp, 1>(a, rows);
}

// ---- products of warps ----

template <class S>
void launch_mma(StepAttentionArguments<typename S::T> a, std::int64_t rows) {
  a.chunks = (a.group + kMmaHeads - 1) / kMmaHeads;
  const std::int64_t items = rows * a.kv_heads * a.chunks;
  // A row's tokens are shared out to the blocks of a cluster as long as each has a multiprocessor of its own, and then to
  // more warps where these have many steps, as long as there are not more than can be at once.
  const DeviceProperties& properties = device_properties();
  const std::int64_t most = std::int64_t{S::kWarpsAtOnce} * properties.multiprocessors;
  const int most_cluster = properties.capability >= 90 ? 8 : 1;
  int warps = 4;
  while (a.cluster < most_cluster && items * a.cluster * 2 <= properties.multiprocessors &&
         a.cluster * S::kKeys < a.capacity) {
    a.cluster *= 2;
  }
  while (warps < S::kMostWarps && items * a.cluster * 2 * warps <= most &&
         4 * a.cluster * warps * S::kKeys < a.capacity) {
    warps *= 2;
  }
  const int bytes = MmaMemory<S>::total(std::min(a.group, kMmaHeads), a.head_dim, warps, a.cluster);
  launch_step({.name = "mma_step_attention_kernel",
               .grid = dim3(static_cast<unsigned>(items * a.cluster)),
               .threads = static_cast<unsigned>(warps * kWarp),
               .shared_bytes = static_cast<std::size_t>(bytes),
               .cluster = static_cast<unsigned>(a.cluster)},
              mma_step_attention_kernel<S>, a);
}

// Returns false where the kernel does not know the case.
template <typename T>
bool attention_by_mma(const StepAttentionArguments<T>& a, std::int64_t rows) {
  if constexpr (sizeof(T) == 2) {
    constexpr std::int64_t kMostTokens = 1 << 30;
    const bool is_aligned_query = a.append.projected ? is_aligned(a.append.projected) && a.append.stride % 8 == 0
                                                     : is_aligned(a.query) && a.query_stride % 8 == 0;
    if (!tuned_kernels_wanted() || a.head_dim % 8 != 0 || a.capacity > kMostTokens || !is_aligned_query ||
        !is_aligned(a.cache) || !is_aligned(a.append.query_norm) || !is_aligned(a.append.key_norm)) {
      return false;
    }
    if (a.head_dim <= 64) {
      launch_mma<StepShape<T, 64>>(a, rows);
    } else if (a.head_dim <= 128) {
      launch_mma<StepShape<T, 128>>(a, rows);
    } else {
      launch_mma<StepShape<T, 256>>(a, rows);
    }
    return true;
  }
  return false;
}

}  // namespace

void CudaBackend::cache_append(const CacheAppend& task) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = task.projected.size(0);
  if (rows == 0 || task.head_dim == 0) return;
  check(task.head_dim <= kMostHeadDim, "cuda: a cache: head_dim is ", task.head_dim, ", expected at most ",
        kMostHeadDim);
  dispatch_elements(task.projected.dtype(), [&]<typename T>() {
    launch_step({.name = "append_kernel", .grid = dim3(grid_for(rows, 1)), .threads = kAppendWarps * kWarp},
                append_kernel<T>, append_arguments<T>(task));
  });
}

void CudaBackend::cache_attention(const CacheAttention& task) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = task.result.size(0);
  if (rows == 0 || task.result.size(1) == 0) return;
  check(task.scores.head_dim <= kMostHeadDim, "cuda: attention over a cache: head_dim is ", task.scores.head_dim,
        ", expected at most ", kMostHeadDim);
  dispatch_elements(task.result.dtype(), [&]<typename T>() {
    const StepAttentionArguments<T> a = attention_arguments<T>(task);
    if (attention_by_mma(a, rows)) return;
    if constexpr (sizeof(T) < sizeof(double)) {
      if (a.group > 1) return choose_columns<T, kMostGroup>(a, rows);
    }
    choose_columns<T, 1>(a, rows);
  });
}

}  // namespace headway::inline v0::internal::cuda
