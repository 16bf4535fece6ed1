// A residual connection and its norm in one pass: every row stays in registers between its sums and its results.
#include <algorithm>

#include "backend/add_norm.h"
#include "cuda/backend.h"
#include "cuda/dropout.cuh"
#include "cuda/eight.cuh"
#include "cuda/reduce.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

template <typename T>
T* data_of(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw_data()) : nullptr;
}

// Where a thread's eight number `pack` begin in the row that its team shares.
template <int kTeam>
__device__ std::int64_t begin_of(int pack) {
  return (std::int64_t{kTeam} * pack + team_rank<kTeam>()) * kEight;
}

// ---- forward ----

template <typename T>
struct AddNormCall {
  std::int64_t rows;
  std::int64_t features;
  float epsilon;
  ElementDropout rule;
  const T* x;       // (rows, features)
  const T* y;       // (rows, features); null: nothing is added
  const T* weight;  // (features); null: ones
  const T* bias;    // (features); null: zeros
  T* sum;           // (rows, features): x + dropout(y); null without y
  T* normed;        // (rows, features)
  float* mean;      // (rows); null: RMS norm
  float* inverse;   // (rows)
};

// The thread's eights of sum = x + dropout(y), which are also stored.
template <typename T, int kTeam, int kPacks>
__device__ void add_row(const AddNormCall<T>& call, std::int64_t row, Eight<T> (&sums)[kPacks]) {
  const float scale = static_cast<float>(call.rule.scale);
  Eight<T> added[kPacks];  // all are read before the draws, which take their time
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    const std::int64_t i = begin_of<kTeam>(pack), at = row * call.features + i;
    if (i >= call.features) continue;
    sums[pack] = load_eight(call.x + at);
    if (call.y) added[pack] = load_eight(call.y + at);
  }
  if (!call.y) return;
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    const std::int64_t i = begin_of<kTeam>(pack), at = row * call.features + i;
    const std::uint32_t kept = call.rule.threshold != 0 ? kept_of_eight(call.rule, at) : 0xFF;
    if (i >= call.features) continue;
#pragma unroll
    for (int j = 0; j < kEight; ++j) {
      const float y = dropped(to_compute(added[pack].values[j]), kept >> j & 1, scale);
      sums[pack].values[j] = from_compute<T>(to_compute(sums[pack].values[j]) + y);
    }
    store_eight(sums[pack], call.sum + at);
  }
}

// normed = (sum - mean) / sqrt(variance + epsilon) * weight + bias, with a mean of zero for RMS norm.
template <typename T, int kTeam, int kPacks>
__global__ void __launch_bounds__(kRowThreads) add_norm_kernel(AddNormCall<T> call) {
  const std::int64_t n = call.features;
  for (std::int64_t row = first_row<kTeam>(); row < call.rows; row += row_step<kTeam>()) {
    Eight<T> sums[kPacks];
    add_row<T, kTeam, kPacks>(call, row, sums);
    const auto sum_of = [&](const auto& term) {
      float sum = 0;
#pragma unroll
      for (int pack = 0; pack < kPacks; ++pack) {
        if (begin_of<kTeam>(pack) >= n) continue;
#pragma unroll
        for (int j = 0; j < kEight; ++j) sum += term(to_compute(sums[pack].values[j]));
      }
      return team_sum<kTeam>(sum) / static_cast<float>(n);
    };
    const float mean = call.mean ? sum_of([](float v) { return v; }) : 0.0f;
    const float variance = sum_of([&](float v) { return (v - mean) * (v - mean); });
    const float inverse = 1 / sqrtf(variance + call.epsilon);
    if (team_rank<kTeam>() == 0) {
      if (call.mean) call.mean[row] = mean;
      call.inverse[row] = inverse;
    }
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const std::int64_t i = begin_of<kTeam>(pack);
      if (i >= n) continue;
      const Eight<T> weight = load_eight_or(call.weight, i, 1), bias = load_eight_or(call.bias, i, 0);
      Eight<T> normed;
#pragma unroll
      for (int j = 0; j < kEight; ++j) {
        const float x_hat = (to_compute(sums[pack].values[j]) - mean) * inverse;
        normed.values[j] = from_compute<T>(x_hat * to_compute(weight.values[j]) + to_compute(bias.values[j]));
      }
      store_eight(normed, call.normed + row * n + i);
    }
  }
}

// ---- backward ----

template <typename T>
struct AddNormBackwardCall {
  std::int64_t rows;
  std::int64_t features;
  std::int64_t chunk_rows;  // of a block
  ElementDropout rule;
  const T* x;            // (rows, features): the sum that was normed
  const T* weight;       // (features); null: ones
  const float* mean;     // (rows); null: RMS norm
  const float* inverse;  // (rows)
  const T* d_y;          // (rows, features)
  const T* d_sum;        // (rows, features): what came for the sum itself; null: nothing
  T* d_x;                // (rows, features), may be d_y; null: not wanted
  T* d_dropped;          // (rows, features): d_x through the dropout; null: not wanted
  float* weight_parts;   // (chunks, features): sums of d_y * x_hat over a chunk; null: not wanted
  float* bias_parts;     // (chunks, features): sums of d_y
};

// What a thread adds up over its rows: a row of sums for each of its eights.
template <int kPacks>
struct ColumnParts {
  float weight[kPacks][kEight] = {};
  float bias[kPacks][kEight] = {};
};

// A thread's eights of a row.
template <typename T, int kPacks>
struct BackwardRow {
  Eight<T> x[kPacks];
  Eight<T> d_y[kPacks];
};

template <typename T, int kTeam, int kPacks>
__device__ void load_row(const AddNormBackwardCall<T>& call, std::int64_t row, BackwardRow<T, kPacks>& values) {
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    const std::int64_t i = begin_of<kTeam>(pack), at = row * call.features + i;
    if (i >= call.features) continue;
    values.x[pack] = load_eight(call.x + at);
    values.d_y[pack] = load_eight(call.d_y + at);
  }
}

// With x_hat = (x - mean) * inverse and g = d_y * weight: d_x = inverse * (g - mean(g) - x_hat * mean(g * x_hat)) +
// d_sum, where RMS norm has no mean(g).
template <typename T, int kTeam, int kPacks>
__device__ void row_backward(const AddNormBackwardCall<T>& call, std::int64_t row, const BackwardRow<T, kPacks>& values,
                             ColumnParts<kPacks>& parts) {
  const auto& [x, d_y] = values;
  const std::int64_t n = call.features;
  const float mean = call.mean ? call.mean[row] : 0.0f, inverse = call.inverse[row];
  float sum = 0, product = 0;  // of g, and of g * x_hat
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    const std::int64_t i = begin_of<kTeam>(pack);
    if (i >= n) continue;
    const Eight<T> weight = load_eight_or(call.weight, i, 1);
#pragma unroll
    for (int j = 0; j < kEight; ++j) {
      const float d = to_compute(d_y[pack].values[j]), x_hat = (to_compute(x[pack].values[j]) - mean) * inverse;
      const float g = d * to_compute(weight.values[j]);
      sum += g;
      product += g * x_hat;
      parts.weight[pack][j] += d * x_hat;
      parts.bias[pack][j] += d;
    }
  }
  if (!call.d_x && !call.d_dropped) return;
  const float g_mean = call.mean ? team_sum<kTeam>(sum) / static_cast<float>(n) : 0.0f;
  const float g_x_hat = team_sum<kTeam>(product) / static_cast<float>(n);
  const float scale = static_cast<float>(call.rule.scale);
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    const std::int64_t i = begin_of<kTeam>(pack), at = row * n + i;
    const std::uint32_t kept = call.d_dropped ? kept_of_eight(call.rule, at) : 0;
    if (i >= n) continue;
    const Eight<T> weight = load_eight_or(call.weight, i, 1), d_sum = load_eight_or(call.d_sum, at, 0);
    Eight<T> d_x, d_dropped;
#pragma unroll
    for (int j = 0; j < kEight; ++j) {
      const float x_hat = (to_compute(x[pack].values[j]) - mean) * inverse;
      const float g = to_compute(d_y[pack].values[j]) * to_compute(weight.values[j]);
      const float d = inverse * (g - g_mean - x_hat * g_x_hat) + to_compute(d_sum.values[j]);
      d_x.values[j] = from_compute<T>(d);
      d_dropped.values[j] = from_compute<T>(dropped(to_compute(d_x.values[j]), kept >> j & 1, scale));
    }
    if (call.d_x) store_eight(d_x, call.d_x + at);
    if (call.d_dropped) store_eight(d_dropped, call.d_dropped + at);
  }
}

// parts (features) of a block: the teams' sums, in the order of the teams.
template <int kTeam, int kPacks>
__device__ void join_teams(const float (&sums)[kPacks][kEight], std::int64_t features, float* parts) {
  constexpr int kTeams = kRowThreads / kTeam, kColumns = kTeam * kPacks * kEight;
  if constexpr (kTeams == 1) {
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const std::int64_t i = begin_of<kTeam>(pack);
      if (i >= features) continue;
#pragma unroll
      for (int j = 0; j < kEight; ++j) parts[i + j] = sums[pack][j];
    }
  } else {
    __shared__ float all[kTeams][kColumns];  // (teams, columns)
    __syncthreads();                         // the sums of a call before have been read
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
#pragma unroll
      for (int j = 0; j < kEight; ++j) all[threadIdx.x / kTeam][begin_of<kTeam>(pack) + j] = sums[pack][j];
    }
    __syncthreads();
    for (std::int64_t column = threadIdx.x; column < features; column += kRowThreads) {
      float sum = 0;
#pragma unroll
      for (int team = 0; team < kTeams; ++team) sum += all[team][column];
      parts[column] = sum;
    }
  }
}

// A block has the rows of one chunk.
template <typename T, int kTeam, int kPacks>
__global__ void __launch_bounds__(kRowThreads, kPacks < 4 ? 2 : 1)
    add_norm_backward_kernel(AddNormBackwardCall<T> call) {
  constexpr int kTeams = kRowThreads / kTeam;
  constexpr bool kReadsAhead = kPacks >= 4;  // few blocks run at once then
  ColumnParts<kPacks> parts;
  const std::int64_t begin = blockIdx.x * call.chunk_rows, end = ::min(begin + call.chunk_rows, call.rows);
  BackwardRow<T, kPacks> next;
  const std::int64_t first = begin + threadIdx.x / kTeam;
  if (kReadsAhead && first < end) load_row<T, kTeam, kPacks>(call, first, next);
  for (std::int64_t row = first; row < end; row += kTeams) {
    if (!kReadsAhead) load_row<T, kTeam, kPacks>(call, row, next);
    const BackwardRow<T, kPacks> current = next;
    if (kReadsAhead && row + kTeams < end) load_row<T, kTeam, kPacks>(call, row + kTeams, next);
    row_backward<T, kTeam, kPacks>(call, row, current, parts);
  }
  const std::int64_t place = blockIdx.x * call.features;
  if (call.weight_parts) join_teams<kTeam, kPacks>(parts.weight, call.features, call.weight_parts + place);
  if (call.bias_parts) join_teams<kTeam, kPacks>(parts.bias, call.features, call.bias_parts + place);
}

constexpr int kJoinColumns = 32, kJoinRows = 8;  // threads of a block that joins chunks

// d_weight and d_bias (features): the sums of their parts (chunks, features), in an order that follows from the number
// of chunks. Blocks (columns, which of the two).
template <typename T>
__global__ void join_chunks_kernel(const float* weight_parts, const float* bias_parts, std::int64_t chunks,
                                   std::int64_t features, T* d_weight, T* d_bias) {
  __shared__ float sums[kJoinRows][kJoinColumns];  // (rows, columns)
  const float* parts = blockIdx.y == 0 ? weight_parts : bias_parts;
  T* target = blockIdx.y == 0 ? d_weight : d_bias;
  if (!target) return;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kJoinColumns + threadIdx.x;
  float sum = 0;
  if (column < features) {
#pragma unroll 8
    for (std::int64_t chunk = threadIdx.y; chunk < chunks; chunk += kJoinRows) sum += parts[chunk * features + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= features) return;
  for (int row = 1; row < kJoinRows; ++row) sum += sums[row][threadIdx.x];
  target[column] = from_compute<T>(sum);
}

// ---- which kernel ----

// Rows of what is computed in float32, whose eights lie on boundaries of 16 bytes and, where they are dropped, in whole
// blocks of the rule; not too long for registers.
bool fits(DType dtype, std::int64_t features, bool drops, std::initializer_list<const void*> memory) {
  constexpr std::int64_t kLongest = 8192;
  if (dtype == DType::float64 || features == 0 || features > kLongest) return false;
  if (features % (drops ? ElementDropout::kBlock : kEight) != 0) return false;
  return std::all_of(memory.begin(), memory.end(),
                     [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; });
}

// Calls f.template operator()<kTeam, kPacks>() with a team that holds a row: a warp or a block.
template <typename Function>
void with_registers(std::int64_t features, const Function& f) {
  if (features <= kWarp * kEight) return f.template operator()<kWarp, 1>();
  if (features <= 2 * kWarp * kEight) return f.template operator()<kWarp, 2>();
  if (features <= 4 * kWarp * kEight) return f.template operator()<kWarp, 4>();
  if (features <= kRowThreads * kEight) return f.template operator()<kRowThreads, 1>();
  if (features <= 2 * kRowThreads * kEight) return f.template operator()<kRowThreads, 2>();
  return f.template operator()<kRowThreads, 4>();
}

// Calls f.template operator()<T>() with the GPU's type of a dtype that is computed in float32.
template <typename Function>
void dispatch_short_elements(DType dtype, const Function& f) {
  if (dtype == DType::bfloat16) return f.template operator()<__nv_bfloat16>();
  if (dtype == DType::float16) return f.template operator()<__half>();
  return f.template operator()<float>();
}

}  // namespace

bool add_norm_in_one_pass(const AddNormInputs& inputs, const Tensor& sum, const NormResult& result) {
  const std::int64_t features = inputs.x.size(-1);
  const bool drops = inputs.y.defined() && inputs.rule.threshold != 0;
  if (!fits(inputs.x.dtype(), features, drops,
            {data_of<void>(inputs.x), data_of<void>(inputs.y), data_of<void>(inputs.weight), data_of<void>(inputs.bias),
             data_of<void>(sum), data_of<void>(result.y)})) {
    return false;
  }
  const std::int64_t rows = inputs.x.element_count() / features;
  if (rows == 0) return true;
  dispatch_short_elements(inputs.x.dtype(), [&]<typename T>() {
    const AddNormCall<T> call = {rows,
                                 features,
                                 static_cast<float>(inputs.epsilon),
                                 drops ? inputs.rule : ElementDropout(),
                                 data_of<const T>(inputs.x),
                                 data_of<const T>(inputs.y),
                                 data_of<const T>(inputs.weight),
                                 data_of<const T>(inputs.bias),
                                 data_of<T>(sum),
                                 data_of<T>(result.y),
                                 data_of<float>(result.mean),
                                 data_of<float>(result.inverse)};
    with_registers(features, [&]<int kTeam, int kPacks>() {
      add_norm_kernel<T, kTeam, kPacks><<<row_blocks<kTeam>(rows), kRowThreads, 0, current_stream()>>>(call);
      check_launch("add_norm_kernel");
    });
  });
  return true;
}

bool add_norm_backward_in_one_pass(const AddNormBackwardInputs& inputs, const AddNormGradients& gradients) {
  constexpr std::int64_t kLeastRows = 16, kLongRow = 512;
  const NormBackwardInputs& norm = inputs.norm;
  const std::int64_t features = norm.x.size(-1);
  if (!fits(norm.x.dtype(), features, gradients.y.defined(),
            {data_of<void>(norm.x), data_of<void>(norm.weight), data_of<void>(norm.d_y), data_of<void>(inputs.d_sum),
             data_of<void>(gradients.x), data_of<void>(gradients.y)})) {
    return false;
  }
  const std::int64_t rows = norm.x.element_count() / features;
  if (rows == 0) return false;
  const std::int64_t most_chunks = features > kLongRow ? 128 : 256;  // about as many blocks as run at once
  const std::int64_t chunk_rows = std::max(kLeastRows, (rows + most_chunks - 1) / most_chunks);
  const std::int64_t chunks = (rows + chunk_rows - 1) / chunk_rows;
  const bool wants_weight = gradients.weight.defined(), wants_bias = gradients.bias.defined();
  const std::int64_t size = chunks * features;
  const DeviceBuffer parts((wants_weight || wants_bias ? 2 : 0) * static_cast<std::size_t>(size) *
                           sizeof(float));  // (2, chunks, features)
  dispatch_short_elements(norm.x.dtype(), [&]<typename T>() {
    const AddNormBackwardCall<T> call = {rows,
                                         features,
                                         chunk_rows,
                                         inputs.rule,
                                         data_of<const T>(norm.x),
                                         data_of<const T>(norm.weight),
                                         data_of<const float>(norm.mean),
                                         data_of<const float>(norm.inverse),
                                         data_of<const T>(norm.d_y),
                                         data_of<const T>(inputs.d_sum),
                                         data_of<T>(gradients.x),
                                         data_of<T>(gradients.y),
                                         wants_weight ? parts.as<float>() : nullptr,
                                         wants_bias ? parts.as<float>() + size : nullptr};
    with_registers(features, [&]<int kTeam, int kPacks>() {
      add_norm_backward_kernel<T, kTeam, kPacks>
          <<<static_cast<unsigned>(chunks), kRowThreads, 0, current_stream()>>>(call);
      check_launch("add_norm_backward_kernel");
    });
    if (!wants_weight && !wants_bias) return;
    const dim3 grid(static_cast<unsigned>((features + kJoinColumns - 1) / kJoinColumns), 2);
    join_chunks_kernel<T><<<grid, dim3(kJoinColumns, kJoinRows), 0, current_stream()>>>(
        call.weight_parts, call.bias_parts, chunks, features, data_of<T>(gradients.weight), data_of<T>(gradients.bias));
    check_launch("join_chunks_kernel");
  });
  return true;
}

void CudaBackend::add_norm(const AddNormInputs& inputs, const Tensor& sum, const NormResult& result) {
  const OnGpu here = on_gpu();
  if (!add_norm_in_one_pass(inputs, sum, result)) add_norm_in_steps(*this, inputs, sum, result);
}

void CudaBackend::add_norm_backward(const AddNormBackwardInputs& inputs, const AddNormGradients& gradients) {
  const OnGpu here = on_gpu();
  if (!add_norm_backward_in_one_pass(inputs, gradients)) add_norm_backward_in_steps(*this, inputs, gradients);
}

}  // namespace headway::inline v0::internal::cuda
