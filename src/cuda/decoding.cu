// Steps of decoding: indices, positions and lengths are read from the GPU's memory, so that a recorded step serves
// every token.
#include <limits>

#include "cuda/backend.h"
#include "cuda/reduce.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

template <typename T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.raw_data());
}

// ---- embeddings ----

template <typename T>
struct EmbedArguments {
  const T* weight;             // (count, features)
  const std::int64_t* tokens;  // (rows)
  const T* positions;          // (length, features)
  const std::int64_t* position;
  T* result;  // (rows, features)
  std::int64_t count, length, rows, features;
  Compute<T> scale;
};

// result = weight[tokens] * scale + positions[position]; NaN where an index is out of range. A warp per row.
template <typename T>
__global__ void embed_kernel(const __grid_constant__ EmbedArguments<T> a) {
  const std::int64_t position = *a.position;
  for (std::int64_t row = first_row<kWarp>(); row < a.rows; row += row_step<kWarp>()) {
    const std::int64_t token = a.tokens[row];
    const bool is_there = token >= 0 && token < a.count && position >= 0 && position < a.length;
    for_each_pack<kWarp, 1>(a.features, [&](std::int64_t i) {
      Compute<T> value = NAN;
      if (is_there) {
        value = to_compute(a.weight[token * a.features + i]) * a.scale;
        value += to_compute(a.positions[position * a.features + i]);
      }
      a.result[row * a.features + i] = from_compute<T>(value);
    });
  }
}

// ---- attention ----

constexpr int kAttentionWarps = 4;
constexpr int kMostHeadDim = 256;

template <typename T>
struct AttentionArguments {
  const T* query;                // (rows, features), rows `query_stride` apart
  const T* fresh;                // (rows, 2 * features), rows `fresh_stride` apart; null: none
  T* cache;                      // (entries, capacity, 2 * features)
  std::int32_t* origins;         // (rows, capacity) with fresh ones, else (rows)
  const std::int64_t* position;  // with fresh ones
  const std::int64_t* lengths;   // (entries) without
  T* result;                     // (rows, features)
  std::int64_t query_stride, fresh_stride, entries, capacity, features, head_dim, heads;
  Compute<T> scale;
};

// The tokens that a row sees.
template <typename T>
struct RowTokens {
  const AttentionArguments<T>& a;
  std::int64_t row;
  std::int64_t position = -1;  // of the fresh token; -1: there is none
  std::int64_t entry = -1;     // of all tokens, without a fresh one
  std::int64_t count = 0;

  __device__ RowTokens(const AttentionArguments<T>& arguments, std::int64_t index) : a(arguments), row(index) {
    if (a.fresh) {
      position = *a.position;
      position = position < 0 ? 0 : position;
      count = position < a.capacity ? position + 1 : a.capacity;
    } else {
      entry = a.origins[row];
      if (entry < 0 || entry >= a.entries) return;
      count = a.lengths[entry] < a.capacity ? a.lengths[entry] : a.capacity;
    }
  }
  // Key and value of token t, (2 * features); null where there is none.
  __device__ const T* at(std::int64_t t) const {
    if (t == position) return a.fresh + row * a.fresh_stride;
    const std::int64_t from = a.fresh ? a.origins[row * a.capacity + t] : entry;
    if (from < 0 || from >= a.entries) return nullptr;
    return a.cache + (from * a.capacity + t) * 2 * a.features;
  }
};

// What one warp has summed: of P = exp(score - largest), and of P times values.
template <typename Real, int kColumns>
struct WarpSums {
  Real largest = -static_cast<Real>(INFINITY);
  Real sum = 0;
  Real output[kColumns] = {};  // columns lane, lane + 32, ...

  // Makes `found` the reference where it is larger.
  __device__ void raise(Real found) {
    if (!(found > largest)) return;
    const Real factor = ::exp(largest - found);
    largest = found;
    sum *= factor;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) output[c] *= factor;
  }
};

// query . key over head_dim elements; kPack of them are read at once.
template <int kPack, typename T>
__device__ Compute<T> dot(const Compute<T>* query, const T* key, int head_dim) {
  Compute<T> sum = 0;
#pragma unroll 8
  for (int d = 0; d < head_dim; d += kPack) {
    const auto values = load_values<kPack>(key + d);
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum += query[d + j] * values[j];
  }
  return sum;
}

// Blocks (rows, heads). A warp takes 32 tokens at a time, a lane each: it computes their scores, then all lanes add up
// the values, a lane for each column. The warps' sums are joined in their order.
template <typename T, int kColumns, int kPack>
__global__ void __launch_bounds__(kAttentionWarps* kWarp)
    attention_kernel(const __grid_constant__ AttentionArguments<T> a) {
  using Real = Compute<T>;
  __shared__ Real query[kMostHeadDim];
  __shared__ Real part_largest[kAttentionWarps], part_sums[kAttentionWarps];
  __shared__ Real part_outputs[kAttentionWarps][kColumns * kWarp];
  const std::int64_t row = blockIdx.x, first = blockIdx.y * a.head_dim;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int head_dim = static_cast<int>(a.head_dim);
  for (int d = static_cast<int>(threadIdx.x); d < head_dim; d += kAttentionWarps * kWarp) {
    query[d] = to_compute(a.query[row * a.query_stride + first + d]) * a.scale;
  }
  __syncthreads();

  const RowTokens<T> tokens(a, row);
  WarpSums<Real, kColumns> sums;
  for (std::int64_t begin = warp * kWarp; begin < tokens.count; begin += kAttentionWarps * kWarp) {
    const T* token = begin + lane < tokens.count ? tokens.at(begin + lane) : nullptr;
    Real score = token ? dot<kPack>(query, token + first, head_dim) : -static_cast<Real>(INFINITY);
    Real largest = score;
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) largest = fmax(largest, exchange(largest, distance));
    sums.raise(largest);
    const Real weight = token ? ::exp(score - sums.largest) : Real(0);
    Real total = weight;
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) total += exchange(total, distance);
    sums.sum += total;
    const int here = static_cast<int>(tokens.count - begin < kWarp ? tokens.count - begin : kWarp);
    const auto address = reinterpret_cast<unsigned long long>(token);
#pragma unroll 8
    for (int t = 0; t < here; ++t) {
      const T* value = reinterpret_cast<const T*>(__shfl_sync(0xFFFFFFFF, address, t));
      const Real p = __shfl_sync(0xFFFFFFFF, weight, t);
      if (value == nullptr) continue;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int d = lane + c * kWarp;
        if (d < head_dim) sums.output[c] += p * to_compute(value[a.features + first + d]);
      }
    }
  }
  if (lane == 0) {
    part_largest[warp] = sums.largest;
    part_sums[warp] = sums.sum;
  }
#pragma unroll
  for (int c = 0; c < kColumns; ++c) part_outputs[warp][lane + c * kWarp] = sums.output[c];
  __syncthreads();

  Real largest = part_largest[0], sum = 0;
  for (int w = 1; w < kAttentionWarps; ++w) largest = fmax(largest, part_largest[w]);
  Real factors[kAttentionWarps];
  for (int w = 0; w < kAttentionWarps; ++w) {
    factors[w] = ::exp(part_largest[w] - power_reference(largest));
    sum += part_sums[w] * factors[w];
  }
  for (int d = static_cast<int>(threadIdx.x); d < head_dim; d += kAttentionWarps * kWarp) {
    Real output = 0;
    for (int w = 0; w < kAttentionWarps; ++w) output += part_outputs[w][d] * factors[w];
    a.result[row * a.features + first + d] = from_compute<T>(sum == 0 ? Real(0) : output / sum);
    // The fresh token joins the past in the row's own entry, where no other row looks in this step.
    if (a.fresh && tokens.position < a.capacity) {
      const T* from = a.fresh + row * a.fresh_stride + first + d;
      T* to = a.cache + (row * a.capacity + tokens.position) * 2 * a.features + first + d;
      to[0] = from[0];
      to[a.features] = from[a.features];
    }
  }
  const bool is_first = blockIdx.y == 0 && threadIdx.x == 0;
  if (is_first && a.fresh && tokens.position < a.capacity) {
    a.origins[row * a.capacity + tokens.position] = static_cast<std::int32_t>(row);
  }
}

// ---- the best tokens ----

// A logit with its class. Better is a larger one; of equal ones the lower class.
template <typename Real>
struct Scored {
  Real value;
  std::int64_t token;  // -1: none

  __device__ bool is_better_than(const Scored& other) const {
    if (token < 0 || other.token < 0) return token >= 0;
    return value > other.value || (value == other.value && token < other.token);
  }
};
template <typename Real>
__device__ Scored<Real> exchange(Scored<Real> scored, int distance) {
  return {cuda::exchange(scored.value, distance), __shfl_xor_sync(0xFFFFFFFF, scored.token, distance)};
}

template <typename T>
struct TopArguments {
  const T* logits;       // (rows, classes)
  std::int64_t* tokens;  // (rows, count)
  float* values;         // (rows, count)
  float* logsumexp;      // (rows)
  std::int64_t rows, classes, count, excluded;
};

// The best of this thread's classes that is worse than `last`; without a `last`, the best of all.
template <typename T>
__device__ Scored<Compute<T>> best_after(const TopArguments<T>& a, const T* row, Scored<Compute<T>> last) {
  Scored<Compute<T>> best = {0, -1};
  for_each_pack<kRowThreads, 1>(a.classes, [&](std::int64_t i) {
    const Scored<Compute<T>> found = {to_compute(row[i]), i};
    const bool may_be = i != a.excluded && found.value > -static_cast<Compute<T>>(INFINITY);
    if (may_be && (last.token < 0 || last.is_better_than(found)) && found.is_better_than(best)) best = found;
  });
  return best;
}

// A block per row. Every thread keeps the best of its classes; the thread that held the last winner finds its next.
template <typename T>
__global__ void top_kernel(const __grid_constant__ TopArguments<T> a) {
  using Real = Compute<T>;
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const T* logits = a.logits + row * a.classes;
    const PowerSum<Real> all = power_sum_row<kRowThreads, 1>(logits, a.classes);
    if (threadIdx.x == 0) a.logsumexp[row] = static_cast<float>(all.largest + ::log(all.sum));
    Scored<Real> mine = best_after<T>(a, logits, {0, -1});
    for (std::int64_t k = 0; k < a.count; ++k) {
      const Scored<Real> best =
          team_reduce<kRowThreads>(mine, [](Scored<Real> x, Scored<Real> y) { return y.is_better_than(x) ? y : x; });
      if (threadIdx.x == 0) {
        a.tokens[row * a.count + k] = best.token;
        a.values[row * a.count + k] = best.token < 0 ? -INFINITY : static_cast<float>(best.value);
      }
      if (k + 1 < a.count && best.token >= 0 && best.token == mine.token) mine = best_after<T>(a, logits, best);
    }
  }
}

// ---- greedy search ----

struct TakeArguments {
  const std::int64_t* best_tokens;  // (rows, count)
  const float* best_logits;         // (rows, count)
  const float* logsumexp;           // (rows)
  std::int64_t* newest;             // (rows)
  std::int64_t* tokens;             // (capacity, rows)
  float* scores;                    // (capacity, rows)
  std::int64_t* position;
  std::int64_t rows, count, capacity;
};

// One block: the position moves on when all rows have read it.
__global__ void take_best_kernel(const __grid_constant__ TakeArguments a) {
  const std::int64_t position = *a.position;
  for (std::int64_t row = threadIdx.x; row < a.rows; row += blockDim.x) {
    const std::int64_t token = a.best_tokens[row * a.count];
    a.newest[row] = token;
    if (position < 0 || position >= a.capacity) continue;
    a.tokens[position * a.rows + row] = token;
    a.scores[position * a.rows + row] = a.best_logits[row * a.count] - a.logsumexp[row];
  }
  __syncthreads();
  if (threadIdx.x == 0) *a.position = position + 1;
}

// ---- rows ----

// result (rows, units) = rows `indices` of source (count, units); zeros where there is none. A warp per row.
template <typename Unit>
__global__ void gather_kernel(const Unit* source, std::int64_t count, const std::int64_t* indices, std::int64_t rows,
                              std::int64_t units, Unit* result) {
  for (std::int64_t row = first_row<kWarp>(); row < rows; row += row_step<kWarp>()) {
    const std::int64_t index = indices[row];
    const bool is_there = index >= 0 && index < count;
    for_each_pack<kWarp, 1>(
        units, [&](std::int64_t i) { result[row * units + i] = is_there ? source[index * units + i] : Unit(0); });
  }
}

// ---- host ----

template <typename T, int kColumns>
void launch_attention(const AttentionArguments<T>& a, std::int64_t rows) {
  constexpr int kFull = 16 / sizeof(T);
  const auto is_aligned = [](const T* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; };
  const bool packs =
      a.head_dim % kFull == 0 && a.fresh_stride % kFull == 0 && is_aligned(a.fresh) && is_aligned(a.cache);
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(a.heads));
  const auto kernel = packs ? attention_kernel<T, kColumns, kFull> : attention_kernel<T, kColumns, 1>;
  kernel<<<grid, kAttentionWarps * kWarp, 0, current_stream()>>>(a);
  check_launch("cache attention_kernel");
}

}  // namespace

void CudaBackend::embed_step(const EmbedStep& task) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = task.tokens.size(0), features = task.weight.size(1);
  if (rows == 0 || features == 0) return;
  dispatch_elements(task.weight.dtype(), [&]<typename T>() {
    const EmbedArguments<T> a = {.weight = data_of<const T>(task.weight),
                                 .tokens = data_of<const std::int64_t>(task.tokens),
                                 .positions = data_of<const T>(task.positions),
                                 .position = data_of<const std::int64_t>(task.position),
                                 .result = data_of<T>(task.result),
                                 .count = task.weight.size(0),
                                 .length = task.positions.size(0),
                                 .rows = rows,
                                 .features = features,
                                 .scale = static_cast<Compute<T>>(task.scale)};
    embed_kernel<T><<<row_blocks<kWarp>(rows), kRowThreads, 0, current_stream()>>>(a);
    check_launch("embed_kernel");
  });
}

void CudaBackend::cache_attention(const CacheAttention& task) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = task.query.size(0), features = task.query.size(1);
  if (rows == 0 || features == 0) return;
  const std::int64_t head_dim = features / task.heads;
  check(head_dim <= kMostHeadDim, "cuda: attention over a cache: head_dim is ", head_dim, ", expected at most ",
        kMostHeadDim);
  dispatch_elements(task.query.dtype(), [&]<typename T>() {
    const bool has_fresh = task.fresh.defined();
    const AttentionArguments<T> a = {.query = data_of<const T>(task.query),
                                     .fresh = has_fresh ? data_of<const T>(task.fresh) : nullptr,
                                     .cache = data_of<T>(task.cache),
                                     .origins = data_of<std::int32_t>(task.origins),
                                     .position = has_fresh ? data_of<const std::int64_t>(task.position) : nullptr,
                                     .lengths = has_fresh ? nullptr : data_of<const std::int64_t>(task.lengths),
                                     .result = data_of<T>(task.result),
                                     .query_stride = task.query.stride(0),
                                     .fresh_stride = has_fresh ? task.fresh.stride(0) : 0,
                                     .entries = task.cache.size(0),
                                     .capacity = task.cache.size(1),
                                     .features = features,
                                     .head_dim = head_dim,
                                     .heads = task.heads,
                                     .scale = 1 / std::sqrt(static_cast<Compute<T>>(head_dim))};
    if (head_dim <= 32) return launch_attention<T, 1>(a, rows);
    if (head_dim <= 64) return launch_attention<T, 2>(a, rows);
    if (head_dim <= 128) return launch_attention<T, 4>(a, rows);
    launch_attention<T, 8>(a, rows);
  });
}

void CudaBackend::top_tokens(const TopTask& task) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = task.logits.size(0);
  if (rows == 0) return;
  dispatch_elements(task.logits.dtype(), [&]<typename T>() {
    const TopArguments<T> a = {.logits = data_of<const T>(task.logits),
                               .tokens = data_of<std::int64_t>(task.top.tokens),
                               .values = data_of<float>(task.top.logits),
                               .logsumexp = data_of<float>(task.top.logsumexp),
                               .rows = rows,
                               .classes = task.logits.size(1),
                               .count = task.top.tokens.size(1),
                               .excluded = task.excluded};
    top_kernel<T><<<row_blocks<kRowThreads>(rows), kRowThreads, 0, current_stream()>>>(a);
    check_launch("top_kernel");
  });
}

void CudaBackend::take_best(const TakeBest& task) {
  const OnGpu here = on_gpu();
  constexpr int kThreads = 1024;
  const TakeArguments a = {.best_tokens = data_of<const std::int64_t>(task.top.tokens),
                           .best_logits = data_of<const float>(task.top.logits),
                           .logsumexp = data_of<const float>(task.top.logsumexp),
                           .newest = data_of<std::int64_t>(task.newest),
                           .tokens = data_of<std::int64_t>(task.history.tokens),
                           .scores = data_of<float>(task.history.scores),
                           .position = data_of<std::int64_t>(task.position),
                           .rows = task.newest.size(0),
                           .count = task.top.tokens.size(1),
                           .capacity = task.history.tokens.size(0)};
  take_best_kernel<<<1, kThreads, 0, current_stream()>>>(a);
  check_launch("take_best_kernel");
}

void CudaBackend::gather_rows(const GatherRows& task) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = task.indices.size(0), values = task.result.element_count();
  if (values == 0) return;
  const auto bytes = values / rows * static_cast<std::int64_t>(item_size(task.source.dtype()));
  const auto launch = [&]<typename Unit>(Unit) {
    gather_kernel<Unit><<<row_blocks<kWarp>(rows), kRowThreads, 0, current_stream()>>>(
        data_of<const Unit>(task.source), task.source.size(0), data_of<const std::int64_t>(task.indices), rows,
        bytes / static_cast<std::int64_t>(sizeof(Unit)), data_of<Unit>(task.result));
    check_launch("gather_kernel");
  };
  const auto bits = static_cast<std::uintptr_t>(bytes) | reinterpret_cast<std::uintptr_t>(task.source.raw_data()) |
                    reinterpret_cast<std::uintptr_t>(task.result.raw_data());
  bits % 4 == 0 ? launch(std::uint32_t()) : launch(std::uint8_t());
}

}  // namespace headway::inline v0::internal::cuda
