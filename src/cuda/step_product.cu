// Products of few rows with a weight in one pass, from Hopper on: bulk copies bring the weight, a warp's products take it.
#include "cuda/step_product.h"

#include <algorithm>
#include <cstdint>

#include "cuda/activation.cuh"
#include "cuda/element.cuh"
#include "cuda/mma_sync.cuh"
#include "cuda/step_launch.cuh"
#include "cuda/step_norm.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kProductWarps = 8;  // that multiply; each has its own columns of a stage
constexpr int kFinishWarps = 4;   // that add up the sums of these while they go on
constexpr int kWeightWarp = kProductWarps + kFinishWarps, kRowsWarp = kWeightWarp + 1;  // that load the weight and x
constexpr int kProductThreads = (kRowsWarp + 1) * kWarp;
constexpr int kTileRows = 16;  // of the weight: those of mma.sync's first operand
// Rows in shared memory are 64 bytes apart beyond whole lines of 128: neighbours are in different banks.
constexpr int kRowGap = 32;
constexpr int kSumPitch = 20;  // of the 16 sums of a warp and a row of x: no two of a warp's stores meet in a bank
constexpr int kMostStages = 3;
constexpr int kMostProductRows = 32;
constexpr int kMostNormedRows = 2;  // that each block norms for itself
static_assert(kNormWarps == kProductWarps);

// Sizes of a stage for 8 * kBlocks rows of x.
template <int kBlocks>
struct StageShape {
  static constexpr int kWarpColumns = kBlocks == 4 ? 64 : 128;
  static constexpr int kColumns = kProductWarps * kWarpColumns;  // of the weight
  static constexpr int kPitch = kColumns + kRowGap;              // of a row
};

template <typename T>
struct ProductArguments {
  const T* x;       // (rows, depth), rows `x_stride` apart
  const T* weight;  // (results, depth), or (2 * results, depth) where gated
  const T* bias;    // (the weight's rows); null: zeros
  const T* added;   // (rows, results); null: zeros
  T* result;        // (rows, results)
  std::int64_t x_stride;
  int rows, depth, results;
  RowNorm<T> norm;
  Activation activation;
  bool gated;
  int tile_results = 0;  // of a tile's rows: 16, or 8 where gated
  int tiles = 0;
  int stages = 0;    // that are loaded ahead
  bool kept = true;  // all of x is in shared memory; else its columns come with those of the weight
};

// The shared memory of a block, in elements but for the sums.
template <typename T, class S>
struct ProductMemory {
  int stage;    // (16 rows of the weight, and the rows of x where it is not kept; kPitch)
  int x_pitch;  // of a row of x
  int x;        // where it begins, after all stages
  int sums;     // where they begin, in bytes: (2, warps, rows, kSumPitch)
  int buffer;   // of sums, in numbers
  int bytes;

  __host__ __device__ explicit ProductMemory(const ProductArguments<T>& a) {
    stage = (kTileRows + (a.kept ? 0 : a.rows)) * S::kPitch;
    x_pitch = a.kept ? (a.depth + 63) / 64 * 64 + kRowGap : S::kPitch;
    x = a.stages * stage;
    sums = (x + (a.kept ? a.rows * x_pitch : 0)) * static_cast<int>(sizeof(T));
    buffer = kProductWarps * a.rows * kSumPitch;
    bytes = sums + 2 * buffer * static_cast<int>(sizeof(float));
  }
};

// ---- loading ----

// Stages, or buffers, in their order, round and round.
struct Cursor {
  int place = 0, parity = 0;
  __device__ void advance(int count) {
    if (++place < count) return;
    place = 0;
    parity ^= 1;
  }
};

// The barriers of stages, or of buffers: `full` when they may be read, `empty` when they have been.
struct Barriers {
  std::uint32_t first;
  __device__ std::uint32_t full(int place) const { return first + place * 16; }
  __device__ std::uint32_t empty(int place) const { return first + place * 16 + 8; }
  __device__ void init(int count, int writers, int readers) const {
    for (int place = 0; place < count; ++place) {
      barrier_init(full(place), writers);
      barrier_init(empty(place), readers);
    }
  }
};

// The row of the weight that is row i of a tile; past the last ones: negative. Where gated, the lower eight rows are
// those that the upper ones are gates of.
template <typename T>
__device__ int weight_row(const ProductArguments<T>& a, int tile, int i) {
  const int result = tile * a.tile_results + (a.gated ? i % 8 : i);
  if (result >= a.results) return -1;
  return a.gated && i >= 8 ? result + a.results : result;
}

// One warp: copies `rows` rows of `bytes` each, row i from source(i), which may be null, `pitch` elements apart.
template <typename T, typename Source>
__device__ void load_rows(std::uint32_t to, int pitch, int rows, int bytes, std::uint32_t barrier,
                          const Source& source) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;  // there are at most as many rows as lanes
  const T* from = lane < rows ? source(lane) : nullptr;
  const int count = __popc(__ballot_sync(0xFFFFFFFF, from != nullptr));
  if (lane == 0) barrier_expect(barrier, count * bytes);
  __syncwarp();
  if (from) bulk_load(to + lane * pitch * static_cast<int>(sizeof(T)), from, bytes, barrier);
}

// load(tile, column, columns, stage) for every stage of this block, when it is empty.
template <class S, typename T, typename Load>
__device__ void fill_stages(const ProductArguments<T>& a, Barriers barriers, const Load& load) {
  Cursor cursor;
  for (int tile = static_cast<int>(blockIdx.x); tile < a.tiles; tile += static_cast<int>(gridDim.x)) {
    for (int column = 0; column < a.depth; column += S::kColumns) {
      barrier_wait(barriers.empty(cursor.place), cursor.parity ^ 1);
      load(tile, column, a.depth - column < S::kColumns ? a.depth - column : S::kColumns, cursor.place);
      cursor.advance(a.stages);
    }
  }
}

// ---- multiplying ----

// d += a warp's columns of a stage. `weight` and `x` are this lane's: of its rows of both operands, and of x the one of
// each block. `left`: columns from the warp's first to the end of the rows.
template <typename T, int kBlocks>
__device__ void multiply_stage(float (&d)[kBlocks][4], const T* weight, const T* const (&x)[kBlocks], int offset,
                               int left) {
  using S = StageShape<kBlocks>;
  const int own = static_cast<int>(threadIdx.x) % 4 * 8;
#pragma unroll
  for (int column = 0; column < S::kWarpColumns; column += 32) {
    if (column >= left) break;
    uint4 upper = {}, lower = {};
    const bool inside = column + own < left;  // what lies past the end may be anything
    if (inside) {
      upper = *reinterpret_cast<const uint4*>(weight + column);
      lower = *reinterpret_cast<const uint4*>(weight + 8 * S::kPitch + column);
    }
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const uint4 b = inside ? *reinterpret_cast<const uint4*>(x[block] + offset + column) : uint4{};
      multiply_add_columns<T>(d[block], upper, lower, b);
    }
  }
}

// A warp's part of all tiles of the block: the products of its columns. Sums go to the warps that finish.
template <typename T, int kBlocks>
__device__ void multiply_tiles(const ProductArguments<T>& a, const ProductMemory<T, StageShape<kBlocks>>& memory,
                               T* shared, float* sums, Barriers stages, Barriers buffers) {
  using S = StageShape<kBlocks>;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int own_column = warp * S::kWarpColumns + lane % 4 * 8;
  const T* own_x[kBlocks];  // this lane's row of each block of rows; those past the last are not used
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    const int row = block * 8 + lane / 4;
    own_x[block] = shared + (a.kept ? memory.x : kTileRows * S::kPitch) +
                   (row < a.rows ? row : a.rows - 1) * memory.x_pitch + own_column;
  }
  Cursor stage, buffer;
  for (int tile = static_cast<int>(blockIdx.x); tile < a.tiles; tile += static_cast<int>(gridDim.x)) {
    float d[kBlocks][4] = {};
    for (int column = 0; column < a.depth; column += S::kColumns) {
      barrier_wait(stages.full(stage.place), stage.parity);
      const int offset = stage.place * memory.stage;
      multiply_stage<T, kBlocks>(d, shared + offset + lane / 4 * S::kPitch + own_column, own_x,
                                 a.kept ? column : offset, a.depth - column - warp * S::kWarpColumns);
      __syncwarp();
      if (lane == 0) barrier_arrive(stages.empty(stage.place));
      stage.advance(a.stages);
    }

    barrier_wait(buffers.empty(buffer.place), buffer.parity ^ 1);
    float* own_sums = sums + buffer.place * memory.buffer + warp * a.rows * kSumPitch + lane / 4;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = block * 8 + lane % 4 * 2 + i % 2;
        if (row < a.rows) own_sums[row * kSumPitch + i / 2 * 8] = d[block][i];
      }
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(buffers.full(buffer.place));
    buffer.advance(2);
  }
}

// ---- finishing ----

// One result of a tile: what it needs beside the sums, loaded ahead of them, and where it goes.
template <typename T>
struct Finish {
  int row = 0, place = 0, result = 0;  // of x; of the tile's results; of all results
  bool inside = false;
  float bias = 0, second_bias = 0, added = 0;

  __device__ Finish(const ProductArguments<T>& a, int tile, int index) {
    row = index / a.tile_results;
    place = index % a.tile_results;
    result = tile * a.tile_results + place;
    inside = row < a.rows && result < a.results;
    if (!inside) return;
    if (a.bias) bias = to_compute(a.bias[result]);
    if (a.bias && a.gated) second_bias = to_compute(a.bias[result + a.results]);
    if (a.added) added = to_compute(a.added[static_cast<std::int64_t>(row) * a.results + result]);
  }

  // sums: (warps, rows, kSumPitch). They are added in the order of the warps.
  __device__ void store(const ProductArguments<T>& a, const float* sums) const {
    if (!inside) return;
    const float* sum = sums + row * kSumPitch + place;
    float first = 0, second = 0;
#pragma unroll
    for (int warp = 0; warp < kProductWarps; ++warp) {
      first += sum[warp * a.rows * kSumPitch];
      if (a.gated) second += sum[warp * a.rows * kSumPitch + 8];
    }
    const float value = activated(a.activation, first + bias);
    a.result[static_cast<std::int64_t>(row) * a.results + result] =
        from_compute<T>(a.gated ? value * (second + second_bias) : value + added);
  }
};

// The results of all tiles of the block, by the warps that finish.
template <typename T>
__device__ void finish_tiles(const ProductArguments<T>& a, const float* sums, int buffer_size, Barriers buffers) {
  constexpr int kThreads = kFinishWarps * kWarp;
  const int thread = static_cast<int>(threadIdx.x) - kProductWarps * kWarp;
  Cursor buffer;
  for (int tile = static_cast<int>(blockIdx.x); tile < a.tiles; tile += static_cast<int>(gridDim.x)) {
    const Finish<T> first(a, tile, thread);
    barrier_wait(buffers.full(buffer.place), buffer.parity);
    const float* tile_sums = sums + buffer.place * buffer_size;
    first.store(a, tile_sums);
    for (int index = thread + kThreads; index < a.tile_results * a.rows; index += kThreads) {
      Finish<T>(a, tile, index).store(a, tile_sums);
    }
    __syncwarp();
    if (thread % kWarp == 0) barrier_arrive(buffers.empty(buffer.place));
    buffer.advance(2);
  }
}

// A block takes a tile of 16 rows of the weight at a time, and all of its columns. kBlocks: of 8 rows of x.
template <typename T, int kBlocks>
__global__ void __launch_bounds__(kProductThreads, kBlocks == 1 ? 2 : 1)
    product_kernel(const __grid_constant__ ProductArguments<T> a) {
  using S = StageShape<kBlocks>;
  extern __shared__ uint4 product_memory[];
  __shared__ std::uint64_t barrier_memory[2 * kMostStages + 5];
  T* shared = reinterpret_cast<T*>(product_memory);
  const ProductMemory<T, S> memory(a);
  float* sums = reinterpret_cast<float*>(reinterpret_cast<unsigned char*>(shared) + memory.sums);
  const Barriers stages = {shared_address(barrier_memory)};
  const Barriers buffers = {shared_address(barrier_memory + 2 * kMostStages)};
  const std::uint32_t x_loaded = shared_address(barrier_memory + 2 * kMostStages + 4);
  if (threadIdx.x == 0) {
    stages.init(a.stages, a.kept ? 1 : 2, kProductWarps);
    buffers.init(2, kProductWarps, kFinishWarps);
    barrier_init(x_loaded, 1);
    barrier_init_fence();
  }
  __syncthreads();
  let_next_start();

  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const bool norms = a.norm.kind != StepNorm::none;
  const auto stage_address = [&](int stage) { return shared_address(shared + stage * memory.stage); };
  if (warp == kWeightWarp) {  // does not wait: no kernel of a step writes weights
    fill_stages<S>(a, stages, [&](int tile, int column, int columns, int stage) {
      load_rows<T>(stage_address(stage), S::kPitch, kTileRows, columns * 2, stages.full(stage), [&](int i) -> const T* {
        const int row = weight_row(a, tile, i);
        return row < 0 ? nullptr : a.weight + static_cast<std::int64_t>(row) * a.depth + column;
      });
    });
    return;
  }
  if (norms && warp < kNormWarps) prefetch_norm(a.norm);
  wait_for_previous();
  if (warp == kRowsWarp) {
    const auto row_of = [&](int column) { return [&a, column](int i) { return a.x + i * a.x_stride + column; }; };
    if (!a.kept) {
      fill_stages<S>(a, stages, [&](int, int column, int columns, int stage) {
        load_rows<T>(stage_address(stage) + kTileRows * S::kPitch * 2, S::kPitch, a.rows, columns * 2,
                     stages.full(stage), row_of(column));
      });
    } else if (!norms) {
      load_rows<T>(shared_address(shared + memory.x), memory.x_pitch, a.rows, a.depth * 2, x_loaded, row_of(0));
    }
    return;
  }
  if (warp >= kProductWarps) return finish_tiles(a, sums, memory.buffer, buffers);
  if (norms) {
    for (int row = 0; row < a.rows; ++row) {
      norm_row(a.norm, a.x + row * a.x_stride, shared + memory.x + row * memory.x_pitch);
    }
    norm_barrier();
  } else if (a.kept) {
    barrier_wait(x_loaded, 0);
  }
  multiply_tiles<T, kBlocks>(a, memory, shared, sums, stages, buffers);
}

// norm(x) of each row, a block each: for products of more rows than blocks norm for themselves.
template <typename T>
struct NormArguments {
  const T* x;  // (rows, depth), rows `x_stride` apart
  T* result;   // (rows, depth)
  std::int64_t x_stride;
  RowNorm<T> norm;
};
template <typename T>
__global__ void __launch_bounds__(kNormThreads) step_norm_kernel(const __grid_constant__ NormArguments<T> a) {
  prefetch_norm(a.norm);
  let_next_start();
  wait_for_previous();
  norm_row(a.norm, a.x + blockIdx.x * a.x_stride, a.result + static_cast<std::int64_t>(blockIdx.x) * a.norm.depth);
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
  const int depth = static_cast<int>(task.x.size(1));
  return {.x = optional_data<T>(task.x),
          .weight = optional_data<T>(task.weight),
          .bias = optional_data<T>(task.bias),
          .added = optional_data<T>(task.added),
          .result = static_cast<T*>(task.result.raw_data()),
          .x_stride = task.x.stride(0),
          .rows = static_cast<int>(task.x.size(0)),
          .depth = depth,
          .results = static_cast<int>(task.result.size(1)),
          .norm = {.weight = optional_data<T>(task.norm.weight),
                   .bias = optional_data<T>(task.norm.bias),
                   .depth = depth,
                   .kind = task.norm.kind,
                   .epsilon = static_cast<float>(task.norm.epsilon)},
          .activation = task.activation,
          .gated = task.gated};
}

// Norms the rows in a kernel of its own; the result holds them.
template <typename T>
Tensor norm_rows(ProductArguments<T>& a, const Tensor& x) {
  Tensor normed = Tensor::empty(x.shape(), x.dtype(), x.device());
  const NormArguments<T> arguments = {a.x, static_cast<T*>(normed.raw_data()), a.x_stride, a.norm};
  launch_step({.name = "step_norm_kernel", .grid = dim3(static_cast<unsigned>(a.rows)), .threads = kNormThreads},
              step_norm_kernel<T>, arguments);
  a.x = arguments.result;
  a.x_stride = a.depth;
  a.norm.kind = StepNorm::none;
  return normed;
}

template <typename T, int kBlocks>
bool launch_product(ProductArguments<T> a, const Tensor& x) {
  // Two blocks of a multiprocessor load more evenly than one, and while a kernel ends its successor's blocks have
  // begun: more stages would leave no memory for them.
  constexpr int kHalf = 112 << 10;
  const DeviceProperties& properties = device_properties();
  Tensor normed;
  if (a.norm.kind != StepNorm::none && a.rows > kMostNormedRows) normed = norm_rows(a, x);
  a.tile_results = a.gated ? kTileRows / 2 : kTileRows;
  a.tiles = (a.results + a.tile_results - 1) / a.tile_results;
  const auto bytes_with = [&](int stages) {
    a.stages = stages;
    return ProductMemory<T, StageShape<kBlocks>>(a).bytes;
  };
  const int most = properties.shared_memory_per_block - 1024;  // the rest is for barriers and norms
  a.kept = bytes_with(2) <= most;
  if (bytes_with(2) > most) return false;
  const int bytes = bytes_with(bytes_with(kMostStages) <= most ? kMostStages : 2);
  const int blocks = properties.multiprocessors * (bytes <= kHalf ? 2 : 1);
  launch_step({.name = "step product_kernel",
               .grid = dim3(static_cast<unsigned>(std::min(a.tiles, blocks))),
               .threads = kProductThreads,
               .shared_bytes = static_cast<std::size_t>(bytes)},
              product_kernel<T, kBlocks>, a);
  return true;
}

}  // namespace

bool product_in_one_pass(const LinearStep& task) {
  const DType dtype = task.x.dtype();
  if (device_properties().capability < 90) return false;  // bulk copies
  if (item_size(dtype) != 2 || task.x.size(0) > kMostProductRows) return false;
  if (task.x.size(1) % 8 != 0 || task.x.stride(0) % 8 != 0 || !is_aligned(task.x) || !is_aligned(task.weight) ||
      !is_aligned(task.norm.weight) || !is_aligned(task.norm.bias)) {
    return false;
  }
  const auto launch = [&]<typename T>() {
    const ProductArguments<T> a = arguments_of<T>(task);
    if (a.rows <= 8) return launch_product<T, 1>(a, task.x);
    return a.rows <= 16 ? launch_product<T, 2>(a, task.x) : launch_product<T, 4>(a, task.x);
  };
  return dtype == DType::bfloat16 ? launch.template operator()<__nv_bfloat16>() : launch.template operator()<__half>();
}

}  // namespace headway::inline v0::internal::cuda
