// Rotary positions: the table of cosines and sines, and the rows that are rotated by it.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/scratch.h"
#include "core/thread_pool.h"
#include "cpu/backend.h"
#include "cpu/isa.h"

namespace headway::inline v0::internal::cpu {
namespace {

constexpr std::int64_t kPositions = 32;  // of a block whose first angle is computed; the others are turned on from it
constexpr std::int64_t kRotaryChunk = 1 << 14;  // elements of a task

// A point on the unit circle.
struct Turn {
  double cosine, sine;
};

// cosines, sines (rows, width): the angles of all frequencies at the positions offset + row, or at given ones. A
// position's values do not depend on where it is: position 32 q + j is the turn of 32 q followed by the turn of j, both
// by the library's functions.
template <typename Real>
class RotaryTable {
 public:
  RotaryTable(const RotaryProblem& problem, std::int64_t rows)
      : options_(problem.options),
        positions_(problem.positions),
        half_(options_.dims / 2),
        width_(options_.interleaved ? options_.dims : half_),
        rows_(rows),
        sign_(problem.backward ? -1.0 : 1.0),
        memory_(static_cast<std::size_t>(2 * rows * width_) * sizeof(Real)) {
    low_.resize(static_cast<std::size_t>(kPositions * half_));
    // As many remainders as occur; given positions may have all.
    const std::int64_t small = positions_ && rows > 1 ? kPositions : std::min(kPositions, rows);
    for (std::int64_t p = 0; p < small; ++p) {
      const std::int64_t remainder = (position(0) + p) % kPositions;
      fill_turns(remainder, low_.data() + remainder * half_);
    }
    // Without given positions, a task's rows share one turn of 32 q.
    const std::int64_t before = position(0) % kPositions;
    parallel_for((before + rows - 1) / kPositions + 1, [&](std::int64_t task, int) {
      fill_rows(std::max<std::int64_t>(0, task * kPositions - before),
                std::min(rows, (task + 1) * kPositions - before));
    });
  }

  const std::byte* cosines(std::int64_t row) const { return row_at(row); }
  const std::byte* sines(std::int64_t row) const { return row_at(rows_ + row); }

 private:
  const std::byte* row_at(std::int64_t index) const {
    return memory_.data() + index * width_ * static_cast<std::int64_t>(sizeof(Real));
  }
  std::int64_t position(std::int64_t row) const { return positions_ ? positions_[row] : options_.offset + row; }

  void fill_turns(std::int64_t position, Turn* turns) const {
    for (std::int64_t i = 0; i < half_; ++i) {
      const double angle = static_cast<double>(position) * options_.frequencies[static_cast<std::size_t>(i)];
      turns[i] = {std::cos(angle), std::sin(angle)};
    }
  }

  void fill_rows(std::int64_t begin, std::int64_t end) {
    std::vector<Turn> high(static_cast<std::size_t>(half_));
    std::int64_t block = -1;  // the one that `high` is the turn of
    for (std::int64_t row = begin; row < end; ++row) {
      if (position(row) / kPositions != block) {
        block = position(row) / kPositions;
        fill_turns(block * kPositions, high.data());
      }
      fill_row(row, high.data(), low_.data() + position(row) % kPositions * half_);
    }
  }

  void fill_row(std::int64_t row, const Turn* high, const Turn* low) {
    Real* cosine = memory_.template as<Real>() + row * width_;
    Real* sine = memory_.template as<Real>() + (rows_ + row) * width_;
    for (std::int64_t i = 0; i < half_; ++i) {
      const double factor = options_.factor;
      const auto c = static_cast<Real>(factor * (high[i].cosine * low[i].cosine - high[i].sine * low[i].sine));
      const auto s = static_cast<Real>(factor * sign_ * (high[i].sine * low[i].cosine + high[i].cosine * low[i].sine));
      if (options_.interleaved) {
        cosine[2 * i] = cosine[2 * i + 1] = c;
        sine[2 * i] = -s;
        sine[2 * i + 1] = s;
      } else {
        cosine[i] = c;
        sine[i] = s;
      }
    }
  }

  const RotaryOptions& options_;
  const std::int64_t* positions_;
  std::int64_t half_, width_, rows_;
  double sign_;
  ScratchBuffer memory_;   // (2, rows, width)
  std::vector<Turn> low_;  // (32, half)
};

template <typename Real>
void rotate(const RotaryProblem& problem) {
  const PointwiseKernels& kernels = pointwise_kernels();
  const int rank = problem.shape.rank();
  const std::int64_t length = problem.shape[-2], head_dim = problem.shape[-1];
  const auto item = static_cast<std::int64_t>(item_size(problem.dtype));
  std::int64_t outer = 1;
  for (int dim = 0; dim < rank - 2; ++dim) outer *= problem.shape[dim];
  if (outer * length * head_dim == 0) return;

  // Each row of given positions serves the matrices of one entry of the first dimension.
  const RotaryTable<Real> table(problem, problem.position_rows * length);
  const std::int64_t matrices_per_row = outer / problem.position_rows;
  // A piece is a run of positions of one matrix; a task has as many pieces as make a chunk.
  const std::int64_t run = std::clamp<std::int64_t>(kRotaryChunk / head_dim, 1, length);
  const std::int64_t runs = (length + run - 1) / run;
  const std::int64_t pieces = std::max<std::int64_t>(1, kRotaryChunk / (run * head_dim));
  const auto rotate_piece = [&](std::int64_t piece) {
    const std::int64_t matrix = piece / runs, position = piece % runs * run;
    const std::int64_t table_row = matrix / matrices_per_row * length + position;
    std::int64_t rest = matrix, at = position * problem.x_strides[-2];
    for (int dim = rank - 3; dim >= 0; --dim) {
      at += rest % problem.shape[dim] * problem.x_strides[dim];
      rest /= problem.shape[dim];
    }
    kernels.rotary({.dtype = problem.dtype,
                    .interleaved = problem.options.interleaved,
                    .rows = std::min(run, length - position),
                    .head_dim = head_dim,
                    .dims = problem.options.dims,
                    .x = problem.x + at * item,
                    .x_row_stride = problem.x_strides[-2],
                    .result = problem.result + (matrix * length + position) * head_dim * item,
                    .cosines = table.cosines(table_row),
                    .sines = table.sines(table_row)});
  };
  parallel_for((outer * runs + pieces - 1) / pieces, [&](std::int64_t task, int) {
    const std::int64_t end = std::min((task + 1) * pieces, outer * runs);
    for (std::int64_t piece = task * pieces; piece < end; ++piece) rotate_piece(piece);
  });
}

}  // namespace

void CpuBackend::rotary(const RotaryProblem& problem) {
  if (problem.dtype == DType::float64) {
    rotate<double>(problem);
  } else {
    rotate<float>(problem);
  }
}

}  // namespace headway::inline v0::internal::cpu
