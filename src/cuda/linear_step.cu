// Products of few rows with a weight, in float32 on tensor cores. With so few rows it is not arithmetic that takes time
// but waiting for memory, so every block has few columns, all of its loads are under way at once, and nothing goes
// through shared memory but the sums.
//
// A lane reads 16 bytes of a row at a time. They are its share of two instructions of depth 8: which column stands at
// which inner place is free, as long as both operands agree.
#include "cuda/decoding.h"
#include "cuda/tf32_mma.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kLinearWarps = 8;
constexpr int kColumnTiles = 2;                // of 8 columns
constexpr int kColumns = 8 * kColumnTiles;     // of a block
constexpr int kGroup = 2;                      // 16-byte loads of a row between two roundings of the sums: depth 32
constexpr std::int64_t kMostLinearRows = 128;  // more rows are a product like any other

struct LinearArguments {
  const float* x;       // (rows, inputs)
  const float* weight;  // (outputs, inputs)
  const float* bias;    // (outputs)
  const float* added;   // (rows, outputs); null: none
  float* result;        // (rows, outputs)
  int rows, inputs, outputs;
  bool relu;
};

// Four columns of a row from `column` on; zeros outside of the matrix.
__device__ __forceinline__ float4 load_columns(const float* matrix, int rows, int columns, int row, int column) {
  if (row >= rows || column >= columns) return make_float4(0.f, 0.f, 0.f, 0.f);
  return *reinterpret_cast<const float4*>(matrix + static_cast<std::int64_t>(row) * columns + column);
}

// Four values as high + low.
struct SplitColumns {
  std::uint32_t high[4], low[4];
  __device__ explicit SplitColumns(float4 values) {
    split(values.x, high[0], low[0]);
    split(values.y, high[1], low[1]);
    split(values.z, high[2], low[2]);
    split(values.w, high[3], low[3]);
  }
};

// large += high high, small += high low + low high, for 16 rows, 8 columns and a depth of 16.
__device__ __forceinline__ void multiply_split(float (&large)[4], float (&small)[4], const SplitColumns& upper,
                                               const SplitColumns& lower, const SplitColumns& right) {
#pragma unroll
  for (int half = 0; half < 4; half += 2) {
    const std::uint32_t high[4] = {upper.high[half], lower.high[half], upper.high[half + 1], lower.high[half + 1]};
    const std::uint32_t low[4] = {upper.low[half], lower.low[half], upper.low[half + 1], lower.low[half + 1]};
    const std::uint32_t right_high[2] = {right.high[half], right.high[half + 1]};
    const std::uint32_t right_low[2] = {right.low[half], right.low[half + 1]};
    multiply_tf32(small, high, right_low);
    multiply_tf32(small, low, right_high);
    multiply_tf32(large, high, right_high);
  }
}

// Blocks (columns, rows) of the result. The warps share the depth: warp w has 32 of every 256 inputs.
template <int kRowTiles>
__global__ void __launch_bounds__(kLinearWarps * 32) linear_step_kernel(const __grid_constant__ LinearArguments a) {
  constexpr int kRows = 16 * kRowTiles;
  __shared__ float sums[kLinearWarps][kRows][kColumns];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int first_column = static_cast<int>(blockIdx.x) * kColumns, first_row = static_cast<int>(blockIdx.y) * kRows;
  float total[kRowTiles][kColumnTiles][4] = {};
  for (int begin = warp * 16 * kGroup; begin < a.inputs; begin += kLinearWarps * 16 * kGroup) {
    float4 left[kGroup][kRowTiles][2], right[kGroup][kColumnTiles];
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      const int column = begin + 16 * g + 4 * (lane % 4);
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        right[g][n] = load_columns(a.weight, a.outputs, a.inputs, first_column + 8 * n + lane / 4, column);
      }
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        left[g][m][0] = load_columns(a.x, a.rows, a.inputs, first_row + 16 * m + lane / 4, column);
        left[g][m][1] = load_columns(a.x, a.rows, a.inputs, first_row + 16 * m + 8 + lane / 4, column);
      }
    }
    float large[kRowTiles][kColumnTiles][4] = {}, small[kRowTiles][kColumnTiles][4] = {};
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        const SplitColumns upper(left[g][m][0]), lower(left[g][m][1]);
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n) {
          multiply_split(large[m][n], small[m][n], upper, lower, SplitColumns(right[g][n]));
        }
      }
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total[m][n][i] += large[m][n][i] + small[m][n][i];
      }
    }
  }
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[warp][16 * m + 8 * (i / 2) + lane / 4][8 * n + 2 * (lane % 4) + i % 2] = total[m][n][i];
      }
    }
  }
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < kRows * kColumns; e += kLinearWarps * 32) {
    const int row = first_row + e / kColumns, column = first_column + e % kColumns;
    if (row >= a.rows || column >= a.outputs) continue;
    float sum = a.bias[column];
#pragma unroll
    for (int w = 0; w < kLinearWarps; ++w) sum += sums[w][e / kColumns][e % kColumns];
    const std::int64_t place = static_cast<std::int64_t>(row) * a.outputs + column;
    if (a.relu && sum < 0.f) sum = 0.f;
    a.result[place] = a.added ? a.added[place] + sum : sum;
  }
}

}  // namespace

bool linear_step(const LinearStep& task) {
  const std::int64_t rows = task.x.size(0), inputs = task.x.size(1), outputs = task.weight.size(0);
  const auto is_aligned = [](const Tensor& x) { return reinterpret_cast<std::uintptr_t>(x.raw_data()) % 16 == 0; };
  if (task.x.dtype() != DType::float32 || rows > kMostLinearRows || inputs % 4 != 0 || inputs == 0) return false;
  if (!is_aligned(task.x) || !is_aligned(task.weight) || inputs > (1 << 20) || outputs > (1 << 24)) return false;
  if (device_properties().capability < 80) return false;
  if (rows == 0 || outputs == 0) return true;
  const LinearArguments a = {.x = static_cast<const float*>(task.x.raw_data()),
                             .weight = static_cast<const float*>(task.weight.raw_data()),
                             .bias = static_cast<const float*>(task.bias.raw_data()),
                             .added = task.added.defined() ? static_cast<const float*>(task.added.raw_data()) : nullptr,
                             .result = static_cast<float*>(task.result.raw_data()),
                             .rows = static_cast<int>(rows),
                             .inputs = static_cast<int>(inputs),
                             .outputs = static_cast<int>(outputs),
                             .relu = task.relu};
  const auto launch = [&](auto kernel, std::int64_t block_rows) {
    const dim3 grid(static_cast<unsigned>((outputs + kColumns - 1) / kColumns),
                    static_cast<unsigned>((rows + block_rows - 1) / block_rows));
    kernel<<<grid, kLinearWarps * 32, 0, current_stream()>>>(a);
    check_launch("linear_step_kernel");
  };
  constexpr std::int64_t kWide = 4096;  // outputs; there are blocks enough then
  if (rows <= 16) {
    launch(linear_step_kernel<1>, 16);
  } else if (rows > 32 && outputs >= kWide) {
    launch(linear_step_kernel<4>, 64);
  } else {
    launch(linear_step_kernel<2>, 32);
  }
  return true;
}

}  // namespace headway::inline v0::internal::cuda
