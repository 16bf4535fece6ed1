// Steps of decoding beside products and attention: embeddings, the best tokens, rows. Indices and positions are read
// from the GPU's memory, so that a recorded step serves every token.
#include <cstdint>

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
template <typename T>
__global__ void embed_kernel(const __grid_constant__ EmbedArguments<T> a) {
  let_next_start();
  wait_for_previous();
  for (std::int64_t row = first_row<kRowThreads>(); row < a.rows; row += row_step<kRowThreads>()) {
    const std::int64_t token = a.tokens[row], position = a.positions ? a.position[row] : 0;
    bool is_there = token >= 0 && token < a.count;
    if (a.positions) is_there = is_there && position >= 0 && position < a.length;
    for_each_pack<kRowThreads, 1>(a.features, [&](std::int64_t i) {
      Compute<T> value = NAN;
      if (is_there) {
        value = to_compute(a.weight[token * a.features + i]) * a.scale;
        if (a.positions) value += to_compute(a.positions[position * a.features + i]);
      }
      a.result[row * a.features + i] = from_compute<T>(value);
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
template <int kTeam, int kPack, typename T>
__device__ Scored<Compute<T>> best_after(const TopArguments<T>& a, const T* row, Scored<Compute<T>> last) {
  Scored<Compute<T>> best = {0, -1};
  for_each_pack<kTeam, kPack>(a.classes, [&](std::int64_t i) {
    const auto values = load_values<kPack>(row + i);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const Scored<Compute<T>> found = {values[j], i + j};
      const bool may_be = i + j != a.excluded && found.value > -static_cast<Compute<T>>(INFINITY);
      if (may_be && (last.token < 0 || last.is_better_than(found)) && found.is_better_than(best)) best = found;
    }
  });
  return best;
}

// A block per row. Every thread keeps the best of its classes; the thread that held the last winner finds its next.
template <typename T, int kTeam, int kPack>
__global__ void __launch_bounds__(kTeam) top_kernel(const __grid_constant__ TopArguments<T> a) {
  using Real = Compute<T>;
  let_next_start();
  wait_for_previous();
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const T* logits = a.logits + row * a.classes;
    const PowerSum<Real> all = power_sum_row<kTeam, kPack>(logits, a.classes);
    if (threadIdx.x == 0) a.logsumexp[row] = static_cast<float>(all.largest + ::log(all.sum));
    Scored<Real> mine = best_after<kTeam, kPack, T>(a, logits, {0, -1});
    for (std::int64_t k = 0; k < a.count; ++k) {
      const Scored<Real> best =
          team_reduce<kTeam>(mine, [](Scored<Real> x, Scored<Real> y) { return y.is_better_than(x) ? y : x; });
      if (threadIdx.x == 0) {
        a.tokens[row * a.count + k] = best.token;
        a.values[row * a.count + k] = best.token < 0 ? -INFINITY : static_cast<float>(best.value);
      }
      if (k + 1 < a.count && best.token >= 0 && best.token == mine.token) {
        mine = best_after<kTeam, kPack, T>(a, logits, best);
      }
    }
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

template <typename T, int kTeam, int kPack>
void launch_top(const TopArguments<T>& a) {
  launch_step({.name = "top_kernel", .grid = dim3(grid_for(a.rows, 1)), .threads = kTeam}, top_kernel<T, kTeam, kPack>,
              a);
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
    launch_step({.name = "embed_kernel", .grid = dim3(row_blocks<kRowThreads>(rows)), .threads = kRowThreads},
                embed_kernel<T>, a);
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
    constexpr std::int64_t kManyClasses = 4096;
    constexpr int kFull = 16 / sizeof(T);
    if (a.classes < kManyClasses) return launch_top<T, kRowThreads, 1>(a);
    const bool packs = a.classes % kFull == 0 && reinterpret_cast<std::uintptr_t>(a.logits) % 16 == 0;
    packs ? launch_top<T, 1024, kFull>(a) : launch_top<T, 1024, 1>(a);
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
