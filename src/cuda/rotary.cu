// Rotary positions: the table of cosines and sines, and the rows that are turned by it.
#include <algorithm>
#include <cstdint>

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

// Some neighbouring frequencies, passed by value so that a recorded step needs no copy of them.
constexpr std::int64_t kFrequencies = 128;
struct Frequencies {
  double values[kFrequencies];
  std::int64_t first, count;
};

// The positions of the rows of the table: given ones in the device's memory, or those from an offset on.
struct RowPositions {
  const std::int64_t* given;
  std::int64_t offset;
  __device__ std::int64_t operator()(std::int64_t row) const { return given ? given[row] : offset + row; }
};

// table (rows, half): the turns of the rows' positions, with the CPU's angles; a negative factor of the sine turns
// back.
template <typename Real>
__global__ void fill_turns(Turn<Real>* table, Frequencies frequencies, RowPositions positions, std::int64_t rows,
                           std::int64_t half, double cosine_factor, double sine_factor) {
  const std::int64_t step = gridDim.x * std::int64_t{kThreads};
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < rows * frequencies.count; i += step) {
    const std::int64_t row = i / frequencies.count, column = i % frequencies.count, position = positions(row);
    const double frequency = frequencies.values[column];
    Turn<double> high, low;
    sincos(static_cast<double>(position / kPositions * kPositions) * frequency, &high.sine, &high.cosine);
    sincos(static_cast<double>(position % kPositions) * frequency, &low.sine, &low.cosine);
    const double cosine = high.cosine * low.cosine - high.sine * low.sine;
    const double sine = high.sine * low.cosine + high.cosine * low.sine;
    table[row * half + frequencies.first + column] = {static_cast<Real>(cosine_factor * cosine),
                                                      static_cast<Real>(sine_factor * sine)};
  }
}

// The sizes of a problem: x (outer..., length, head_dim), of which blocks take runs of positions of one matrix.
struct RotarySizes {
  std::int64_t outer_sizes[Shape::kMaxRank];
  std::int64_t outer_strides[Shape::kMaxRank];  // of x, in elements
  int outer_dims;
  std::int64_t matrices;          // the product of outer_sizes
  std::int64_t matrices_per_row;  // of positions: all, or those of one entry of the first dimension
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
    const Turn<Compute<T>>* matrix_table = table + matrix / sizes.matrices_per_row * sizes.length * pairs;
    for (std::int64_t position = first + threadIdx.y; position < end; position += kWarps) {
      const T* from = matrix_x + position * sizes.row_stride;
      T* to = matrix_result + position * sizes.head_dim;
      for (std::int64_t item = threadIdx.x; item < items; item += kWarp) {
        if (item >= pairs) {
          to[item + pairs] = from[item + pairs];
          continue;
        }
        const std::int64_t a = sizes.interleaved ? 2 * item : item, b = sizes.interleaved ? a + 1 : item + pairs;
        const Turn<Compute<T>> turn = matrix_table[position * pairs + item];
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
  sizes.matrices_per_row = sizes.matrices / problem.position_rows;
  sizes.run = std::clamp<std::int64_t>(kBlockPairs / (sizes.head_dim - sizes.half), 1, sizes.length);
  sizes.runs = (sizes.length + sizes.run - 1) / sizes.run;
  return sizes;
}

// The table of a problem: (position_rows, length, half).
template <typename Real>
DeviceBuffer make_table(const RotaryProblem& problem, const RotarySizes& sizes) {
  const std::int64_t rows = problem.position_rows * sizes.length;
  DeviceBuffer table(static_cast<std::size_t>(rows * sizes.half) * sizeof(Turn<Real>));
  const double factor = problem.options.factor;
  for (std::int64_t first = 0; first < sizes.half; first += kFrequencies) {
    Frequencies frequencies = {};
    frequencies.first = first;
    frequencies.count = std::min(kFrequencies, sizes.half - first);
    std::copy_n(problem.options.frequencies.begin() + first, frequencies.count, frequencies.values);
    fill_turns<<<grid_for(rows * frequencies.count, kThreads), kThreads, 0, current_stream()>>>(
        table.as<Turn<Real>>(), frequencies, RowPositions{problem.positions, problem.options.offset}, rows, sizes.half,
        factor, problem.backward ? -factor : factor);
    check_launch("fill_turns");
  }
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
