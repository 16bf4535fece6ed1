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

// cosines, sines (positions, width): the angles offset + p of all frequencies. A position's values do not depend on the
// offset: position 32 q + j is the turn of 32 q followed by the turn of j, both by the library's functions.
template <typename Real>
class RotaryTable {
 public:
  RotaryTable(const RotaryOptions& options, std::int64_t positions, bool backward)
      : options_(options),
        half_(options.dims / 2),
        width_(options.interleaved ? options.dims : half_),
        positions_(positions),
        sign_(backward ? -1.0 : 1.0),
        memory_(static_cast<std::size_t>(2 * positions * width_) * sizeof(Real)) {
    for (std::int64_t i = 0; i < half_; ++i) {
      frequencies_.push_back(std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(options.dims)));
    }
    const std::int64_t small = std::min(kPositions, positions);  // as many remainders as occur
    low_.resize(static_cast<std::size_t>(kPositions * half_));
    for (std::int64_t p = 0; p < small; ++p) fill_turns((options.offset + p) % kPositions, low_row(p));
    const std::int64_t first = options.offset / kPositions, last = (options.offset + positions - 1) / kPositions;
    parallel_for(last - first + 1, [&](std::int64_t block, int) { fill_block(first + block); });
  }

  const std::byte* cosines(std::int64_t position) const { return row(position); }
  const std::byte* sines(std::int64_t position) const { return row(positions_ + position); }

 private:
  const std::byte* row(std::int64_t index) const {
    return memory_.data() + index * width_ * static_cast<std::int64_t>(sizeof(Real));
  }
  Turn* low_row(std::int64_t position) { return low_.data() + (options_.offset + position) % kPositions * half_; }

  void fill_turns(std::int64_t position, Turn* turns) const {
    for (std::int64_t i = 0; i < half_; ++i) {
      const double angle = static_cast<double>(position) * frequencies_[static_cast<std::size_t>(i)];
      turns[i] = {std::cos(angle), std::sin(angle)};
    }
  }

  void fill_block(std::int64_t block) {
    std::vector<Turn> high(static_cast<std::size_t>(half_));
    fill_turns(block * kPositions, high.data());
    const std::int64_t begin = std::max<std::int64_t>(0, block * kPositions - options_.offset);
    const std::int64_t end = std::min(positions_, (block + 1) * kPositions - options_.offset);
    for (std::int64_t p = begin; p < end; ++p) {
      Real* cosine = memory_.template as<Real>() + p * width_;
      Real* sine = memory_.template as<Real>() + (positions_ + p) * width_;
      const Turn* low = low_row(p);
      for (std::int64_t i = 0; i < half_; ++i) {
        const Turn& h = high[static_cast<std::size_t>(i)];
        const auto c = static_cast<Real>(h.cosine * low[i].cosine - h.sine * low[i].sine);
        const auto s = static_cast<Real>(sign_ * (h.sine * low[i].cosine + h.cosine * low[i].sine));
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
  }

  RotaryOptions options_;
  std::int64_t half_, width_, positions_;
  double sign_;
  ScratchBuffer memory_;             // (2, positions, width)
  std::vector<double> frequencies_;  // (half)
  std::vector<Turn> low_;            // (32, half)
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

  const RotaryTable<Real> table(problem.options, length, problem.backward);
  // A piece is a run of positions of one matrix; a task has as many pieces as make a chunk.
  const std::int64_t run = std::clamp<std::int64_t>(kRotaryChunk / head_dim, 1, length);
  const std::int64_t runs = (length + run - 1) / run;
  const std::int64_t pieces = std::max<std::int64_t>(1, kRotaryChunk / (run * head_dim));
  const auto rotate_piece = [&](std::int64_t piece) {
    const std::int64_t matrix = piece / runs, position = piece % runs * run;
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
                    .cosines = table.cosines(position),
                    .sines = table.sines(position)});
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
