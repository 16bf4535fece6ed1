// Steps of decoding beside products and attention: embeddings, the best tokens, rows. Indices and positions are read
// from the GPU's memory, so that a recorded step serves every token.
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "cuda/backend.h"
#include "cuda/reduce.cuh"
#include "cuda/step_launch.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

template <typename T>
T* data_of(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw_data()) : nullptr;
}

// ---- embeddings ----

template <typename T>
struct EmbedArguments {
  const T* weight;               // (count, features)
  const std::int64_t* tokens;    // (rows)
  const T* positions;            // (length, features); null: none
  const std::int64_t* position;  // (rows)
  T* result;                     // (rows, features)
  std::int64_t count, length, rows, features;
  Compute<T> scale;
};

// result = weight[tokens] * scale + positions[position]; NaN where an index is out of range. A block per row.
template <typename T, int kPack>
__global__ void embed_kernel(const __grid_constant__ EmbedArguments<T> a) {
  let_next_start();
  wait_for_previous();
  for (std::int64_t row = first_row<kRowThreads>(); row < a.rows; row += row_step<kRowThreads>()) {
    const std::int64_t token = a.tokens[row], position = a.positions ? a.position[row] : 0;
    bool is_there = token >= 0 && token < a.count;
    if (a.positions) is_there = is_there && position >= 0 && position < a.length;
    const T* weight = is_there ? a.weight + token * a.features : nullptr;
    const T* added = is_there && a.positions ? a.positions + position * a.features : nullptr;
    for_each_pack<kRowThreads, kPack>(a.features, [&](std::int64_t i) {
      auto values = load_values_or<kPack>(weight, i, NAN);
      const auto more = load_values_or<kPack>(added, i, 0);
#pragma unroll
      for (int j = 0; j < kPack; ++j) values[j] = values[j] * a.scale + more[j];
      store_values<kPack>(values, a.result + row * a.features + i);
    });
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
using cuda::exchange;
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
  int cluster;  // blocks that share a row; more than one only where the grid has blocks for all rows

  __device__ void store(std::int64_t row, std::int64_t k, Scored<Compute<T>> best) const {
    tokens[row * count + k] = best.token;
    values[row * count + k] = best.token < 0 ? -INFINITY : static_cast<float>(best.value);
  }
};

constexpr int kTopThreads = 512;
constexpr int kTopWarps = kTopThreads / kWarp;
constexpr int kMostTopCluster = 8;

// Joins the values of a block's threads: every thread gets the result. The order of operands must not matter.
template <typename Value, typename Join>
__device__ Value block_reduce(Value value, const Join& join) {
  __shared__ Value parts[kTopWarps];
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) value = join(value, exchange(value, distance));
  __syncthreads();  // the parts of the call before have been read
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = parts[threadIdx.x % kTopWarps];
#pragma unroll
  for (int distance = kTopWarps / 2; distance > 0; distance /= 2) value = join(value, exchange(value, distance));
  return value;
}

struct Sum {
  template <typename Real>
  __device__ Real operator()(Real x, Real y) const {
    return x + y;
  }
};
struct Largest {
  template <typename Real>
  __device__ Real operator()(Real x, Real y) const {
    return fmax(x, y);
  }
};
struct Best {
  template <typename Real>
  __device__ Scored<Real> operator()(Scored<Real> x, Scored<Real> y) const {
    return y.is_better_than(x) ? y : x;
  }
};

// visit(values, i) for this thread's packs of a row. Several are under way at once; -infinity stands for what is not
// there.
template <int kPack, typename T, typename Visit>
__device__ void for_each_logits(const TopArguments<T>& a, const T* row, int rank, const Visit& visit) {
  constexpr int kAtOnce = 4;
  const std::int64_t step = static_cast<std::int64_t>(a.cluster) * kTopThreads * kPack;
  for (std::int64_t i = (rank * kTopThreads + static_cast<int>(threadIdx.x)) * kPack; i < a.classes;
       i += kAtOnce * step) {
    Values<Compute<T>, kPack> values[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const T* from = i + k * step < a.classes ? row + i + k * step : nullptr;
      values[k] = load_values_or<kPack>(from, 0, -std::numeric_limits<Compute<T>>::infinity());
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) visit(values[k], i + k * step);
  }
}

// Makes `best` the best of it and of values that may be chosen: those that are worse than `last`, where there is one.
template <int kPack, typename T>
__device__ void keep_best(const TopArguments<T>& a, const Values<Compute<T>, kPack>& values, std::int64_t i,
                          Scored<Compute<T>> last, Scored<Compute<T>>& best) {
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    const Scored<Compute<T>> found = {values[j], i + j};
    const bool may_be = i + j != a.excluded && found.value > -static_cast<Compute<T>>(INFINITY);
    if (may_be && (last.token < 0 || last.is_better_than(found)) && found.is_better_than(best)) best = found;
  }
}

// Adds the powers of values to a sum; see power_sum_row().
template <int kPack, typename Real>
__device__ void add_powers(PowerSum<Real>& all, const Values<Real, kPack>& values) {
  Real largest = all.largest;
#pragma unroll
  for (int j = 0; j < kPack; ++j) largest = fmax(largest, values[j]);
  const Real reference = power_reference(largest);
  if (largest != all.largest) all.sum *= ::exp(all.largest - reference);
#pragma unroll
  for (int j = 0; j < kPack; ++j) all.sum += ::exp(values[j] - reference);
  all.largest = largest;
}

// A warp makes one list of the best of those of a cluster's blocks. lists (cluster, count): value and the bits of a
// token; amounts (cluster): the largest logit and the sum of powers.
template <typename T>
__device__ void join_lists(const TopArguments<T>& a, std::int64_t row, const float2* lists, const float2* amounts) {
  using Real = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float2 amount = lane < a.cluster ? amounts[lane] : float2{-INFINITY, 0};
  float largest = amount.x;
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) largest = fmaxf(largest, exchange(largest, distance));
  float sum = amount.y * expf(amount.x - power_reference(largest));
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) sum += exchange(sum, distance);
  if (lane == 0) a.logsumexp[row] = largest + logf(sum);
  std::int64_t place = 0;  // in the lane's list
  for (std::int64_t k = 0; k < a.count; ++k) {
    Scored<Real> mine = {0, -1};
    if (lane < a.cluster) {
      const float2 found = lists[lane * a.count + place];
      mine = {found.x, __float_as_int(found.y)};
    }
    Scored<Real> best = mine;
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) best = Best()(best, exchange(best, distance));
    if (lane == 0) a.store(row, k, best);
    if (best.token >= 0 && best.token == mine.token) ++place;
  }
}

// A block or a cluster per row. Every thread keeps the best of its classes; the thread that held the last winner finds
// its next. The first block of a cluster joins the lists of all.
template <typename T, int kPack>
__global__ void __launch_bounds__(kTopThreads, 1) top_kernel(const __grid_constant__ TopArguments<T> a) {
  using Real = Compute<T>;
  extern __shared__ float2 lists[];  // (cluster, count)
  __shared__ float2 amounts[kMostTopCluster];
  const int rank = a.cluster > 1 ? cluster_rank() : 0;
  let_next_start();
  cluster_arrive(a.cluster);
  wait_for_previous();
  for (std::int64_t row = blockIdx.x / a.cluster; row < a.rows; row += gridDim.x / a.cluster) {
    const T* logits = a.logits + row * a.classes;
    PowerSum<Real> all = {-static_cast<Real>(INFINITY), 0};
    Scored<Real> mine = {0, -1};
    for_each_logits<kPack>(a, logits, rank, [&](const Values<Real, kPack>& values, std::int64_t i) {
      add_powers(all, values);
      keep_best(a, values, i, {0, -1}, mine);
    });
    const Real largest = block_reduce(all.largest, Largest());
    const Real sum = block_reduce(all.sum * ::exp(all.largest - power_reference(largest)), Sum());
    cluster_wait(a.cluster);  // every block has started
    if (threadIdx.x == 0) {
      if (a.cluster == 1) a.logsumexp[row] = static_cast<float>(largest + ::log(sum));
      const float2 amount = {static_cast<float>(largest), static_cast<float>(sum)};
      if (a.cluster > 1) store_of_rank(amounts + rank, 0, a.cluster, amount);
    }
    for (std::int64_t k = 0; k < a.count; ++k) {
      const Scored<Real> best = block_reduce(mine, Best());
      if (threadIdx.x == 0) {
        const float2 found = {static_cast<float>(best.value), __int_as_float(static_cast<int>(best.token))};
        a.cluster == 1 ? a.store(row, k, best) : store_of_rank(lists + rank * a.count + k, 0, a.cluster, found);
      }
      if (k + 1 < a.count && best.token >= 0 && best.token == mine.token) {
        mine = {0, -1};
        for_each_logits<kPack>(a, logits, rank, [&](const Values<Real, kPack>& values, std::int64_t i) {
          keep_best(a, values, i, best, mine);
        });
      }
    }
    if (a.cluster == 1) continue;
    cluster_sync(a.cluster);
    if (rank == 0 && threadIdx.x < kWarp) join_lists(a, row, lists, amounts);
  }
}

// ---- the chosen tokens ----

struct TakeArguments {
  const std::int64_t* best_tokens;  // (rows, count)
  const float* best_logits;         // (rows, count)
  const float* logsumexp;           // (rows)
  std::int64_t* newest;             // (rows)
  std::int64_t* tokens;             // (capacity, rows)
  float* scores;                    // (capacity, rows)
  std::int64_t* positions;          // (rows)
  std::int64_t* step;
  std::int64_t rows, count, capacity;
};

// One block: the step moves on when all rows have read it.
__global__ void take_best_kernel(const __grid_constant__ TakeArguments a) {
  let_next_start();
  wait_for_previous();
  const std::int64_t step = *a.step;
  for (std::int64_t row = threadIdx.x; row < a.rows; row += blockDim.x) {
    const std::int64_t token = a.best_tokens[row * a.count];
    a.newest[row] = token;
    ++a.positions[row];
    if (step < 0 || step >= a.capacity) continue;
    a.tokens[step * a.rows + row] = token;
    a.scores[step * a.rows + row] = a.best_logits[row * a.count] - a.logsumexp[row];
  }
  __syncthreads();
  if (threadIdx.x == 0) *a.step = step + 1;
}

// ---- rows ----

template <typename Unit>
struct GatherArguments {
  const Unit* source;           // (count, units)
  const std::int64_t* indices;  // (rows)
  Unit* result;                 // (rows, units)
  std::int64_t count, rows, units;
};

// result = rows `indices` of source; zeros where there is none. A warp per row.
template <typename Unit>
__global__ void gather_kernel(const __grid_constant__ GatherArguments<Unit> a) {
  let_next_start();
  wait_for_previous();
  for (std::int64_t row = first_row<kWarp>(); row < a.rows; row += row_step<kWarp>()) {
    const std::int64_t index = a.indices[row];
    const bool is_there = index >= 0 && index < a.count;
    for_each_pack<kWarp, 1>(a.units, [&](std::int64_t i) {
      a.result[row * a.units + i] = is_there ? a.source[index * a.units + i] : Unit(0);
    });
  }
}

// True where rows of so many elements can be read 16 bytes at a time.
template <typename T>
bool has_packs(std::int64_t columns, std::initializer_list<const void*> rows) {
  bool packs = columns % (16 / sizeof(T)) == 0;
  for (const void* row : rows) packs = packs && reinterpret_cast<std::uintptr_t>(row) % 16 == 0;
  return packs;
}

template <typename T, int kPack>
void launch_top(TopArguments<T> a) {
  // A row is shared out to several blocks where there are few rows, as long as each has something for all threads.
  constexpr std::int64_t kMostCount = 256;  // of lists that are joined
  const DeviceProperties& properties = device_properties();
  const bool has_clusters = sizeof(Compute<T>) == sizeof(float) && properties.capability >= 90 &&
                            a.count <= kMostCount && a.classes <= std::numeric_limits<int>::max();
  while (has_clusters && a.cluster < kMostTopCluster && a.rows * a.cluster <= properties.multiprocessors &&
         a.cluster * kTopThreads * kPack < a.classes) {
    a.cluster *= 2;
  }
  const unsigned blocks = a.cluster > 1 ? static_cast<unsigned>(a.rows * a.cluster) : grid_for(a.rows, 1);
  launch_step({.name = "top_kernel",
               .grid = dim3(blocks),
               .threads = kTopThreads,
               .shared_bytes = a.cluster > 1 ? static_cast<std::size_t>(a.cluster * a.count) * sizeof(float2) : 0,
               .cluster = static_cast<unsigned>(a.cluster)},
              top_kernel<T, kPack>, a);
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
                                 .length = task.positions.defined() ? task.positions.size(0) : 0,
                                 .rows = rows,
                                 .features = features,
                                 .scale = static_cast<Compute<T>>(task.scale)};
    const bool packs = has_packs<T>(features, {a.weight, a.positions, a.result});
    launch_step({.name = "embed_kernel", .grid = dim3(row_blocks<kRowThreads>(rows)), .threads = kRowThreads},
                packs ? embed_kernel<T, 16 / sizeof(T)> : embed_kernel<T, 1>, a);
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
                               .excluded = task.excluded,
                               .cluster = 1};
    has_packs<T>(a.classes, {a.logits}) ? launch_top<T, 16 / sizeof(T)>(a) : launch_top<T, 1>(a);
  });
}

void CudaBackend::take_best(const TakeBest& task) {
  const OnGpu here = on_gpu();
  const TakeArguments a = {.best_tokens = data_of<const std::int64_t>(task.top.tokens),
                           .best_logits = data_of<const float>(task.top.logits),
                           .logsumexp = data_of<const float>(task.top.logsumexp),
                           .newest = data_of<std::int64_t>(task.newest),
                           .tokens = data_of<std::int64_t>(task.history.tokens),
                           .scores = data_of<float>(task.history.scores),
                           .positions = data_of<std::int64_t>(task.positions),
                           .step = data_of<std::int64_t>(task.step),
                           .rows = task.newest.size(0),
                           .count = task.top.tokens.size(1),
                           .capacity = task.history.tokens.size(0)};
  launch_step({.name = "take_best_kernel", .grid = dim3(1), .threads = 256}, take_best_kernel, a);
}

void CudaBackend::gather_rows(const GatherRows& task) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = task.indices.size(0), values = task.result.element_count();
  if (values == 0) return;
  const auto bytes = values / rows * static_cast<std::int64_t>(item_size(task.source.dtype()));
  const auto launch = [&]<typename Unit>(Unit) {
    const GatherArguments<Unit> a = {.source = data_of<const Unit>(task.source),
                                     .indices = data_of<const std::int64_t>(task.indices),
                                     .result = data_of<Unit>(task.result),
                                     .count = task.source.size(0),
                                     .rows = rows,
                                     .units = bytes / static_cast<std::int64_t>(sizeof(Unit))};
    launch_step({.name = "gather_kernel", .grid = dim3(row_blocks<kWarp>(rows)), .threads = kRowThreads},
                gather_kernel<Unit>, a);
  };
  const auto bits = static_cast<std::uintptr_t>(bytes) | reinterpret_cast<std::uintptr_t>(task.source.raw_data()) |
                    reinterpret_cast<std::uintptr_t>(task.result.raw_data());
  bits % 4 == 0 ? launch(std::uint32_t()) : launch(std::uint8_t());
}

}  // namespace headway::inline v0::internal::cuda
