// Rotary positions: the table of cosines and sines, and the rows that are turned by it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/backend.h"
#include "cuda/element.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;  // of a block
constexpr int kThreads = kWarp * kWarps;
constexpr std::int64_t kPositions = 32;     // position 32 q + j is the turn of 32 q followed by the turn of j
constexpr std::int64_t kBlockPairs = 2048;  // that one block turns

// A point on the unit circle.
template <typename Real>
struct alignas(2 * sizeof(Real)) Turn {
  Real cosine, sine;
};

// table (positions, half): the turns of positions offset + p, with the CPU's angles; sign -1 turns back.
template <typename Real>
__global__ void fill_turns(Turn<Real>* table, const double* frequencies, std::int64_t positions, std::int64_t half,
                           std::int64_t offset, double sign) {
  const std::int64_t step = gridDim.x * std::int64_t{kThreads};
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < positions * half; i += step) {
    const std::int64_t position = offset + i / half;
    const double frequency = frequencies[i % half];
    Turn<double> high, low;
    sincos(static_cast<double>(position / kPositions * kPositions) * frequency, &high.sine, &high.cosine);
    sincos(static_cast<double>(position % kPositions) * frequency, &low.sine, &low.cosine);
    const double cosine = high.cosine * low.cosine - high.sine * low.sine;
    const double sine = high.sine * low.cosine + high.cosine * low.sine;
    table[i] = {static_cast<Real>(cosine), static_cast<Real>(sign * sine)};
  }
}

// The sizes of a problem: x (outer..., length, head_dim), of which blocks take runs of positions of one matrix.
struct RotarySizes {
  std::int64_t outer_sizes[Shape::kMaxRank];
  std::int64_t outer_strides[Shape::kMaxRank];  // of x, in elements
  int outer_dims;
  std::int64_t matrices;  // the product of outer_sizes
  std::int64_t length, row_stride, head_dim;
  std::int64_t half;  // pairs of a row
  bool interleaved;
  std::int64_t run;   // positions of a block
  std::int64_t runs;  // of a matrix

  // Where a matrix of x begins.
  __device__ std::int64_t matrix_offset(std::int64_t matrix) const {
    std::int64_t offset = 0;
    for (int dim = outer_dims - 1; dim >= 0; --dim) {
      offset += matrix % outer_sizes[dim] * outer_strides[dim];
      matrix /= outer_sizes[dim];
    }
    return offset;
  }
};

// Turns the pairs of each row and copies what is behind them; a warp takes a row, a lane a pair or a copied element.
template <typename T>
__global__ void rotate(const T* x, T* result, const Turn<Compute<T>>* table, RotarySizes sizes) {
  const std::int64_t pairs = sizes.half, items = sizes.head_dim - pairs;  // pairs and copied elements of a row
  for (std::int64_t block = blockIdx.x; block < sizes.matrices * sizes.runs; block += gridDim.x) {
    const std::int64_t matrix = block / sizes.runs, first = block % sizes.runs * sizes.run;
    const std::int64_t end = ::min(first + sizes.run, sizes.length);
    const T* matrix_x = x + sizes.matrix_offset(matrix);
    T* matrix_result = result + matrix * sizes.length * sizes.head_dim;
    for (std::int64_t position = first + threadIdx.y; position < end; position += kWarps) {
      const T* from = matrix_x + position * sizes.row_stride;
      T* to = matrix_result + position * sizes.head_dim;
      for (std::int64_t item = threadIdx.x; item < items; item += kWarp) {
        if (item >= pairs) {
          to[item + pairs] = from[item + pairs];
          continue;
        }
        const std::int64_t a = sizes.interleaved ? 2 * item : item, b = sizes.interleaved ? a + 1 : item + pairs;
        const Turn<Compute<T>> turn = table[position * pairs + item];
        const Compute<T> from_a = to_compute(from[a]), from_b = to_compute(from[b]);
        to[a] = from_compute<T>(fma(-from_b, turn.sine, from_a * turn.cosine));
        to[b] = from_compute<T>(fma(from_a, turn.sine, from_b * turn.cosine));
      }
    }
  }
}

RotarySizes sizes_of(const RotaryProblem& problem) {
  RotarySizes sizes = {};
  sizes.outer_dims = problem.shape.rank() - 2;
  sizes.matrices = 1;
  for (int dim = 0; dim < sizes.outer_dims; ++dim) {
    sizes.outer_sizes[dim] = problem.shape[dim];
    sizes.outer_strides[dim] = problem.x_strides[dim];
    sizes.matrices *= problem.shape[dim];
  }
  sizes.length = problem.shape[-2];
  sizes.row_stride = problem.x_strides[-2];
  sizes.head_dim = problem.shape[-1];
  sizes.half = problem.options.dims / 2;
  sizes.interleaved = problem.options.interleaved;
  if (sizes.matrices * sizes.length * sizes.head_dim == 0) return sizes;
  sizes.run = std::clamp<std::int64_t>(kBlockPairs / (sizes.head_dim - sizes.half), 1, sizes.length);
  sizes.runs = (sizes.length + sizes.run - 1) / sizes.run;
  return sizes;
}

// The table of a problem: (length, half).
template <typename Real>
DeviceBuffer make_table(const RotaryProblem& problem, const RotarySizes& sizes) {
  DeviceBuffer table(static_cast<std::size_t>(sizes.length * sizes.half) * sizeof(Turn<Real>));
  if (sizes.half == 0) return table;
  std::vector<double> frequencies;  // (half)
  for (std::int64_t i = 0; i < sizes.half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(problem.options.dims);
    frequencies.push_back(std::pow(problem.options.base, exponent));
  }
  const DeviceBuffer uploaded = upload(std::span<const double>(frequencies));
  fill_turns<<<grid_for(sizes.length * sizes.half, kThreads), kThreads, 0, current_stream()>>>(
      table.as<Turn<Real>>(), uploaded.as<double>(), sizes.length, sizes.half, problem.options.offset,
      problem.backward ? -1.0 : 1.0);
  check_launch("fill_turns");
  return table;
}

}  // namespace

void CudaBackend::rotary(const RotaryProblem& problem) {
  const OnGpu here = on_gpu();
  const RotarySizes sizes = sizes_of(problem);
  if (sizes.matrices * sizes.length * sizes.head_dim == 0) return;
  dispatch_elements(problem.dtype, [&]<typename T>() {
    using Real = Compute<T>;
    const DeviceBuffer table = make_table<Real>(problem, sizes);
    rotate<<<grid_for(sizes.matrices * sizes.runs, 1), dim3(kWarp, kWarps), 0, current_stream()>>>(
        reinterpret_cast<const T*>(problem.x), reinterpret_cast<T*>(problem.result), table.as<Turn<Real>>(), sizes);
    check_launch("rotate");
  });
}

}  // namespace headway::inline v0::internal::cuda
