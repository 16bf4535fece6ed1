// Products of few rows with a weight, as a decoding step has them: what counts is how fast the weight is read. Norms of
// the rows, bias, activation, gates and what is added are part of the pass.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "cuda/activation.cuh"
#include "cuda/backend.h"
#include "cuda/element.cuh"
#include "cuda/kernel_choice.h"
#include "cuda/mma_sync.cuh"
#include "cuda/step_launch.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kLanes = 32;
constexpr int kProductWarps = 8;
constexpr int kProductThreads = kProductWarps * kLanes;
constexpr int kWarpOutputs = 16;  // rows of the weight that a warp has at a time: those of mma.sync's first operand
constexpr int kStepDepth = 64;    // columns of the weight in a step of a warp: 128 bytes of each row
constexpr int kChunks = 4;        // of 16 bytes that a thread has in a step: two rows, two halves of the step
constexpr int kMostProductRows = 32;
constexpr int kStageBytes = kChunks * kProductThreads * 16;

// How the warps of a block share a tile of the weight, for products of up to 8 * kBlocks rows. With few rows all warps
// have the same rows of the weight and other columns, since then there are many tiles, and x is small. With more rows
// sums are larger, and fewer of them are joined.
template <int kBlocks>
struct ProductShape {
  static constexpr int kColumns = 8 * kBlocks;                             // rows of x, as columns of mma.sync's result
  static constexpr int kSplits = kBlocks == 1 ? 8 : kBlocks == 2 ? 4 : 2;  // warps that share the columns of the weight
  static constexpr int kOutputs = kProductWarps / kSplits;                 // warps that share its rows
  static constexpr int kGroup = kSplits * kStepDepth;                      // columns of a step of all warps
  static constexpr int kSums = kWarpOutputs * kColumns;                    // of a warp
  // Steps that a thread has under way. A block leaves space for one or two others: then the next kernel's weights are
  // loaded while this one ends.
  static constexpr int kStages = kBlocks == 4 ? 2 : 3;
  static constexpr int kStreamBytes = kStages * kStageBytes;
  static constexpr int kSumBytes = 2 * kProductWarps * kSums * 4;
};

template <typename T>
struct ProductArguments {
  const T* x;            // (rows, depth), rows `x_stride` apart
  const T* norm_weight;  // (depth); null: ones
  const T* norm_bias;    // (depth); null: zeros
  const T* weight;       // (results, depth), or (2 * results, depth) where gated
  const T* bias;         // (the weight's rows); null: zeros
  const T* added;        // (rows, results); null: zeros
  T* result;             // (rows, results)
  std::int64_t x_stride;
  int rows, depth, results;
  StepNorm norm;
  float epsilon;
  Activation activation;
  bool gated;
  int warp_results = 0;  // of a warp's rows of the weight: 16, or 8 where gated
  int tile_results = 0;  // of the rows that the warps of a block have at a time
  int tiles = 0;
  int cluster = 1;  // blocks that share tiles: each has every cluster-th group of columns
  int groups = 0;   // of columns that one block of a cluster has
  int pitch = 0;    // of a row of x in shared memory, in elements
};

// ---- the rows ----

// The sum of a value over the warps that share a row; all threads of the block call it.
__device__ float row_sum(float value, int warps) {
  __shared__ float parts[kProductWarps];
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(0xFFFFFFFF, value, distance);
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  __syncthreads();  // the parts of the call before have been read
  if (threadIdx.x % kLanes == 0) parts[warp] = value;
  __syncthreads();
  const int first = warp / warps * warps;
  float sum = parts[first];
  for (int w = 1; w < warps; ++w) sum += parts[first + w];
  return sum;
}

template <typename T>
__device__ void unpack(uint4 bits, float (&values)[8]) {
  const T* elements = reinterpret_cast<const T*>(&bits);
#pragma unroll
  for (int j = 0; j < 8; ++j) values[j] = to_compute(elements[j]);
}

// Eight elements of a row; zeros past its end.
template <typename T>
__device__ uint4 load_columns(const T* row, int column, int depth) {
  return column < depth ? *reinterpret_cast<const uint4*>(row + column) : make_uint4(0, 0, 0, 0);
}

// The mean, which is zero in an RMS norm, and 1 / sqrt(variance + epsilon) of a row that `warps` warps share; a thread
// has eight columns at `place` and every `step` further. All threads of the block call it.
template <typename T>
__device__ float2 statistics_of(const ProductArguments<T>& a, const T* x, int place, int step, int warps) {
  const auto count = static_cast<float>(a.depth);
  float mean = 0, squares = 0, values[8];
  if (a.norm == StepNorm::layer) {
    float sum = 0;
    for (int column = place; column < a.depth; column += step) {
      unpack<T>(load_columns(x, column, a.depth), values);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum += values[j];
    }
    mean = row_sum(sum, warps) / count;
  }
  for (int column = place; column < a.depth; column += step) {
    unpack<T>(load_columns(x, column, a.depth), values);
#pragma unroll
    for (int j = 0; j < 8; ++j) squares += (values[j] - mean) * (values[j] - mean);
  }
  return make_float2(mean, 1 / sqrtf(row_sum(squares, warps) / count + a.epsilon));
}

// Asks for the norm's weights, which would come late when the rows are there.
template <typename T>
__device__ void prefetch_norm(const ProductArguments<T>& a) {
  constexpr int kLine = 128 / sizeof(T);
  if (a.norm == StepNorm::none) return;
  for (int column = static_cast<int>(threadIdx.x) * kLine; column < a.depth; column += kProductThreads * kLine) {
    if (a.norm_weight) prefetch(a.norm_weight + column);
    if (a.norm_bias) prefetch(a.norm_bias + column);
  }
}

// (x - mean) * inverse * weight + bias of eight columns.
template <typename T>
__device__ uint4 normed(const ProductArguments<T>& a, uint4 bits, int column, float2 statistics) {
  float values[8], weight[8], bias[8];
  unpack<T>(bits, values);
  if (a.norm_weight) unpack<T>(load_columns(a.norm_weight, column, a.depth), weight);
  if (a.norm_bias) unpack<T>(load_columns(a.norm_bias, column, a.depth), bias);
  T* elements = reinterpret_cast<T*>(&bits);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float value = (values[j] - statistics.x) * statistics.y;
    if (a.norm_weight) value *= weight[j];
    if (a.norm_bias) value += bias[j];
    elements[j] = from_compute<T>(value);
  }
  return bits;
}

// The block's columns of norm(x) into shared memory: (rows, pitch). Its groups of columns lie side by side there.
template <typename T, int kGroup>
__device__ void load_rows(const ProductArguments<T>& a, int rank, T* shared) {
  const int warp = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
  int warps = kProductWarps;  // of a row
  while (warps > 1 && kProductWarps / warps < a.rows) warps /= 2;
  const int at_once = kProductWarps / warps, place = (warp % warps * kLanes + lane) * 8, step = warps * kLanes * 8;
  for (int first = 0; first < a.rows; first += at_once) {
    const int row = first + warp / warps;
    const T* x = a.x + (row < a.rows ? row : 0) * a.x_stride;
    const float2 statistics = a.norm == StepNorm::none ? make_float2(0, 1) : statistics_of(a, x, place, step, warps);
    if (row >= a.rows) continue;
    for (int own = place; own < a.groups * kGroup; own += step) {
      const int column = (own / kGroup * a.cluster + rank) * kGroup + own % kGroup;
      uint4 bits = load_columns(x, column, a.depth);
      if (a.norm != StepNorm::none && column < a.depth) bits = normed(a, bits, column, statistics);
      *reinterpret_cast<uint4*>(shared + row * a.pitch + own) = bits;
    }
  }
}

// ---- the weight ----

// A thread's share of the weight, in the order in which its warp takes steps: rows l / 4 and l / 4 + 8 of the
// warp's 16. It comes into shared memory that no other thread reads.
template <typename T, class S>
struct WeightStream {
  const ProductArguments<T>& a;
  uint4* shared;  // (stages, chunks, threads), from this thread's place on
  int rank, clusters;
  int tile, group = 0;  // of the next step to load

  // The row of the weight that is row l / 4, or l / 4 + 8, of the warp's in a tile; past the last ones: negative. Where
  // gated, the lower eight rows are those that the upper ones are gates of.
  __device__ int row_of(int of_tile, bool lower) const {
    const int warp = static_cast<int>(threadIdx.x) / kLanes, quad = static_cast<int>(threadIdx.x) % kLanes / 4;
    const int first = of_tile * a.tile_results + warp / S::kSplits * a.warp_results;
    if (a.gated) return first + quad < a.results ? first + quad + (lower ? a.results : 0) : -1;
    const int result = first + quad + (lower ? kWarpOutputs / 2 : 0);
    return result < a.results ? result : -1;
  }

  // Starts the copies of the next step; without one, an empty group of copies.
  __device__ void load(int stage) {
    if (tile < a.tiles) {
      const int split = static_cast<int>(threadIdx.x) / kLanes % S::kSplits;
      const int column =
          ((group * a.cluster + rank) * S::kSplits + split) * kStepDepth + static_cast<int>(threadIdx.x) % 4 * 8;
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const int row = row_of(tile, chunk % 2 == 1), at = column + chunk / 2 * (kStepDepth / 2);
        const bool inside = row >= 0 && at < a.depth;
        const T* from = a.weight + (inside ? static_cast<std::int64_t>(row) * a.depth + at : 0);
        copy_async(shared_address(shared + (stage * kChunks + chunk) * kProductThreads), from, inside);
      }
      if (++group == a.groups) {
        group = 0;
        tile += clusters;
      }
    }
    copy_commit();
  }
};

// ---- the tiles ----

// One result of a tile: what it needs beside the sums, loaded ahead of them, and where it goes.
template <typename T>
struct Finish {
  int row = 0, result = 0;  // of x; of the weight
  bool inside = false;
  float bias = 0, second_bias = 0, added = 0;

  __device__ void load(const ProductArguments<T>& a, int tile, int index) {
    row = index / a.tile_results;
    result = tile * a.tile_results + index % a.tile_results;
    inside = row < a.rows && result < a.results;
    bias = second_bias = added = 0;
    if (!inside) return;
    if (a.bias) bias = to_compute(a.bias[result]);
    if (a.bias && a.gated) second_bias = to_compute(a.bias[result + a.results]);
    if (a.added) added = to_compute(a.added[static_cast<std::int64_t>(row) * a.results + result]);
  }

  __device__ void store(const ProductArguments<T>& a, float first, float second) const {
    const float value = activated(a.activation, first + bias);
    a.result[static_cast<std::int64_t>(row) * a.results + result] =
        from_compute<T>(a.gated ? value * (second + second_bias) : value + added);
  }
};

// Joins the sums of the warps, and of the cluster's blocks, in their order: the sum of one result of a tile, and that
// of what it gates.
template <typename T, class S>
__device__ float2 joined_sums(const ProductArguments<T>& a, const float* sums, int result, int row) {
  const int warp = result / a.warp_results * S::kSplits;
  const float* sum = sums + warp * S::kSums + result % a.warp_results * S::kColumns + row;
  float2 joined = make_float2(0, 0);
  for (int rank = 0; rank < a.cluster; ++rank) {
#pragma unroll
    for (int split = 0; split < S::kSplits; ++split) {
      joined.x += load_of_rank(sum + split * S::kSums, rank, a.cluster);
      if (a.gated) joined.y += load_of_rank(sum + split * S::kSums + 8 * S::kColumns, rank, a.cluster);
    }
  }
  return joined;
}

// A cluster of blocks takes a tile of the weight's rows at a time. kBlocks: of 8 rows of x.
template <typename T, int kBlocks>
__global__ void __launch_bounds__(kProductThreads, 2) product_kernel(const __grid_constant__ ProductArguments<T> a) {
  using S = ProductShape<kBlocks>;
  extern __shared__ uint4 memory[];
  float* sums = reinterpret_cast<float*>(memory + S::kStreamBytes / 16);        // (2, warps, 16, columns)
  T* x = reinterpret_cast<T*>(memory + (S::kStreamBytes + S::kSumBytes) / 16);  // (rows, pitch)
  const int warp = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
  const int rank = a.cluster > 1 ? cluster_rank() : 0, clusters = static_cast<int>(gridDim.x) / a.cluster;
  const int first_tile = static_cast<int>(blockIdx.x) / a.cluster;

  WeightStream<T, S> stream = {a, memory + threadIdx.x, rank, clusters, first_tile};
#pragma unroll
  for (int stage = 0; stage < S::kStages; ++stage) stream.load(stage);
  prefetch_norm(a);
  let_next_start();
  wait_for_previous();
  load_rows<T, S::kGroup>(a, rank, x);
  __syncthreads();

  const T* own_x[kBlocks];  // this lane's row of each block of rows; those past the last are not used
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    const int row = block * 8 + lane / 4;
    own_x[block] = x + (row < a.rows ? row : a.rows - 1) * a.pitch + warp % S::kSplits * kStepDepth + lane % 4 * 8;
  }
  const int own_result = static_cast<int>(threadIdx.x) + rank * kProductThreads;  // the first; blocks share them out
  int stage = 0, buffer = 0;
  for (int tile = first_tile; tile < a.tiles; tile += clusters, buffer ^= 1) {
    Finish<T> finish;
    finish.load(a, tile, own_result);
    float d[kBlocks][4] = {};
    for (int group = 0; group < a.groups; ++group) {
      copy_wait<S::kStages - 1>();
      const uint4* chunks = stream.shared + stage * kChunks * kProductThreads;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 upper = chunks[2 * half * kProductThreads], lower = chunks[(2 * half + 1) * kProductThreads];
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          const uint4 b = *reinterpret_cast<const uint4*>(own_x[block] + group * S::kGroup + half * (kStepDepth / 2));
          multiply_add_columns<T>(d[block], upper, lower, b);
        }
      }
      stream.load(stage);
      stage = stage + 1 == S::kStages ? 0 : stage + 1;
    }

    float* tile_sums = sums + buffer * kProductWarps * S::kSums;
    float* own_sums = tile_sums + warp * S::kSums + lane / 4 * S::kColumns + lane % 4 * 2;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      *reinterpret_cast<float2*>(own_sums + block * 8) = make_float2(d[block][0], d[block][1]);
      *reinterpret_cast<float2*>(own_sums + 8 * S::kColumns + block * 8) = make_float2(d[block][2], d[block][3]);
    }
    // One barrier per tile: the sums of the tile after the next, which lie where these do, come after the next one.
    cluster_sync(a.cluster);
    for (int index = own_result; index < a.tile_results * a.rows; index += a.cluster * kProductThreads) {
      if (index != own_result) finish.load(a, tile, index);
      if (!finish.inside) continue;
      const float2 joined = joined_sums<T, S>(a, tile_sums, index % a.tile_results, finish.row);
      finish.store(a, joined.x, joined.y);
    }
  }
  if (a.cluster > 1) cluster_sync(a.cluster);  // no block leaves while its sums are read
}

// activation(first half of a row) * second half: y (rows, 2 * results) -> (rows, results).
template <typename T>
struct GateArguments {
  const T* y;
  T* result;
  std::int64_t rows, results;
  Activation activation;
};
template <typename T>
__global__ void gate_kernel(const __grid_constant__ GateArguments<T> a) {
  constexpr std::int64_t kThreads = 256;
  const std::int64_t step = gridDim.x * kThreads;
  for (std::int64_t i = blockIdx.x * kThreads + threadIdx.x; i < a.rows * a.results; i += step) {
    const T* y = a.y + i / a.results * 2 * a.results + i % a.results;
    a.result[i] = from_compute<T>(activated(a.activation, to_compute(y[0])) * to_compute(y[a.results]));
  }
}

// ---- host ----

bool is_aligned(const Tensor& tensor) {
  return !tensor.defined() || reinterpret_cast<std::uintptr_t>(tensor.raw_data()) % 16 == 0;
}

template <typename T>
const T* optional_data(const Tensor& tensor) {
  return tensor.defined() ? static_cast<const T*>(tensor.raw_data()) : nullptr;
}

template <typename T>
ProductArguments<T> arguments_of(const LinearStep& task) {
  return {.x = optional_data<T>(task.x),
          .norm_weight = optional_data<T>(task.norm.weight),
          .norm_bias = optional_data<T>(task.norm.bias),
          .weight = optional_data<T>(task.weight),
          .bias = optional_data<T>(task.bias),
          .added = optional_data<T>(task.added),
          .result = static_cast<T*>(task.result.raw_data()),
          .x_stride = task.x.stride(0),
          .rows = static_cast<int>(task.x.size(0)),
          .depth = static_cast<int>(task.x.size(1)),
          .results = static_cast<int>(task.result.size(1)),
          .norm = task.norm.kind,
          .epsilon = static_cast<float>(task.norm.epsilon),
          .activation = task.activation,
          .gated = task.gated};
}

// Shares the columns out to the blocks of a cluster where the rows would not fit, and where there are too few tiles for
// the GPU.
template <typename T, class S>
void choose_tiles(ProductArguments<T>& a) {
  constexpr std::int64_t kMostRowBytes = 104 << 10;
  const int most = device_properties().capability >= 90 ? 8 : 1, multiprocessors = device_properties().multiprocessors;
  a.warp_results = a.gated ? kWarpOutputs / 2 : kWarpOutputs;
  a.tile_results = a.warp_results * S::kOutputs;
  a.tiles = (a.results + a.tile_results - 1) / a.tile_results;
  const int all_groups = (a.depth + S::kGroup - 1) / S::kGroup;
  for (a.cluster = 1;; a.cluster *= 2) {
    a.groups = (all_groups + a.cluster - 1) / a.cluster;
    // Rows 64 bytes apart beyond whole lines of 128: neighbours are in different banks.
    a.pitch = a.groups * S::kGroup + 32;
    const bool is_large = std::int64_t{a.rows} * a.pitch * 2 > kMostRowBytes;
    const bool is_idle = 10 * a.cluster * a.tiles < 9 * multiprocessors;
    if (2 * a.cluster > most || 2 * a.cluster > all_groups || (!is_large && !is_idle)) return;
  }
}

template <typename T, int kBlocks>
bool launch_product(ProductArguments<T> a) {
  using S = ProductShape<kBlocks>;
  choose_tiles<T, S>(a);
  const std::size_t bytes = S::kStreamBytes + S::kSumBytes + static_cast<std::size_t>(a.rows * a.pitch) * sizeof(T);
  const DeviceProperties& properties = device_properties();
  if (bytes > static_cast<std::size_t>(properties.shared_memory_per_block)) return false;
  constexpr std::size_t kMostOfTwo = 112 << 10;  // of one of two blocks
  const int at_once = properties.multiprocessors * (bytes <= kMostOfTwo ? 2 : 1);
  const int clusters = std::min(a.tiles, std::max(1, at_once / a.cluster));
  launch_step({.name = "step product_kernel",
               .grid = dim3(static_cast<unsigned>(clusters * a.cluster)),
               .threads = kProductThreads,
               .shared_bytes = bytes,
               .cluster = static_cast<unsigned>(a.cluster)},
              product_kernel<T, kBlocks>, a);
  return true;
}

// The task in one pass; false, with nothing done, where it has too many rows, or is not of aligned 16-bit numbers.
bool product_in_one_pass(const LinearStep& task) {
  const DType dtype = task.x.dtype();
  if (item_size(dtype) != 2 || task.x.size(0) > kMostProductRows) return false;
  if (task.x.size(1) % 8 != 0 || task.x.stride(0) % 8 != 0 || !is_aligned(task.x) || !is_aligned(task.weight)) {
    return false;
  }
  const auto launch = [&]<typename T>() {
    const ProductArguments<T> a = arguments_of<T>(task);
    if (a.rows <= 8) return launch_product<T, 1>(a);
    return a.rows <= 16 ? launch_product<T, 2>(a) : launch_product<T, 4>(a);
  };
  return dtype == DType::bfloat16 ? launch.template operator()<__nv_bfloat16>() : launch.template operator()<__half>();
}

Matrix dense_matrix(const Tensor& tensor) {
  return {.data = static_cast<std::byte*>(tensor.raw_data()),
          .row_stride = tensor.stride(0),
          .column_stride = 1,
          .dtype = tensor.dtype()};
}

}  // namespace

void CudaBackend::linear_step(const LinearStep& task) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = task.x.size(0), outputs = task.weight.size(0);
  if (rows == 0 || task.result.size(1) == 0) return;
  if (task.x.size(1) > 0 && tuned_kernels_wanted() && product_in_one_pass(task)) return;

  const DType dtype = task.x.dtype();
  Tensor x = task.x;
  if (task.norm.kind != StepNorm::none) {
    x = Tensor::empty(task.x.shape(), dtype, task.x.device());
    const DType statistics = dtype == DType::float64 ? DType::float64 : DType::float32;
    NormResult result = {.y = x, .mean = {}, .inverse = Tensor::empty({rows}, statistics, x.device())};
    if (task.norm.kind == StepNorm::layer) result.mean = Tensor::empty({rows}, statistics, x.device());
    norm(task.x.contiguous(), task.norm.weight, task.norm.bias, task.norm.epsilon, result);
  }
  const Tensor y = task.gated ? Tensor::empty({rows, outputs}, dtype, x.device()) : task.result;
  // What is added may be the result itself: then the product adds to it, where it does so in one rounding.
  const bool accumulates = task.added.defined();
  const Tensor sums = accumulates ? Tensor::empty({rows, outputs}, dtype, x.device()) : y;
  MatmulProblem problem = {.rows = rows, .columns = outputs, .depth = x.size(1)};
  problem.a = dense_matrix(x);
  problem.b = {.data = static_cast<std::byte*>(task.weight.raw_data()),
               .row_stride = 1,
               .column_stride = task.weight.stride(0),
               .dtype = dtype};
  problem.result = dense_matrix(sums);
  if (task.bias.defined()) problem.bias = static_cast<const std::byte*>(task.bias.raw_data());
  if (!task.gated) problem.activation = task.activation;
  matmul(problem);
  if (accumulates) {
    binary({.operation = Binary::add,
            .dtype = dtype,
            .columns = rows * outputs,
            .a = static_cast<const std::byte*>(task.added.raw_data()),
            .b = static_cast<const std::byte*>(sums.raw_data()),
            .result = static_cast<std::byte*>(task.result.raw_data())});
  }
  if (!task.gated) return;
  dispatch_elements(dtype, [&]<typename T>() {
    const GateArguments<T> a = {static_cast<const T*>(y.raw_data()), static_cast<T*>(task.result.raw_data()), rows,
                                task.result.size(1), task.activation};
    gate_kernel<T><<<grid_for(rows * a.results, 256), 256, 0, current_stream()>>>(a);
    check_launch("gate_kernel");
  });
}

}  // namespace headway::inline v0::internal::cuda
