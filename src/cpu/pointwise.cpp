// Elementwise operations: whole tensors, cut into chunks of a fixed size and spread over the threads.
#include <algorithm>

#include "core/convert.h"
#include "core/dispatch.h"
#include "core/scratch.h"
#include "cpu/backend.h"
#include "cpu/chunks.h"
#include "cpu/isa.h"

namespace headway::inline v0::internal::cpu {
namespace {

constexpr std::int64_t kSumRows = 64;       // rows that are summed in float32
constexpr std::int64_t kSumColumns = 8192;  // columns of such a block: long runs, which prefetchers like

static_assert(kElementChunk % ElementDropout::kBlock == 0);  // a chunk begins where a block of draws does

DType compute_dtype(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

// Blocks of rows and columns whose sums are kept until all are there.
class BlockSums {
 public:
  BlockSums(DType dtype, std::int64_t rows, std::int64_t columns)
      : dtype_(compute_dtype(dtype)),
        rows_(rows),
        columns_(columns),
        row_blocks_(divide_up(rows, kSumRows)),
        column_blocks_(divide_up(columns, kSumColumns)),
        partial_(static_cast<std::size_t>(row_blocks_ * columns) * item_size(dtype_)) {}

  struct Block {
    std::int64_t row, rows, column, columns;
    std::byte* sums;  // (columns) of the type that sums are taken in
  };

  // Calls body(Block) for every block.
  template <typename Body>
  void for_blocks(const Body& body) const {
    const auto run = [&](std::int64_t index, int) {
      Block block = {};
      block.row = index / column_blocks_ * kSumRows;
      block.rows = std::min(kSumRows, rows_ - block.row);
      block.column = index % column_blocks_ * kSumColumns;
      block.columns = std::min(kSumColumns, columns_ - block.column);
      block.sums = skip(partial_.data(), index / column_blocks_ * columns_ + block.column, dtype_);
      body(block);
    };
    const std::int64_t blocks = row_blocks_ * column_blocks_;
    if (rows_ * columns_ > kOneTask) return parallel_for(blocks, run);
    for (std::int64_t index = 0; index < blocks; ++index) run(index, 0);
  }

  // sums (columns) = the blocks' sums, joined from the first to the last.
  void join(std::byte* sums, DType sums_dtype) const {
    if (dtype_ == DType::float64) {
      join_from<double>(sums, sums_dtype);
    } else {
      join_from<float>(sums, sums_dtype);
    }
  }

 private:
  template <typename Real>
  void join_from(std::byte* sums, DType sums_dtype) const {
    dispatch_floating(sums_dtype, [&]<typename T>() {
      constexpr std::int64_t kStrip = 256;
      const Real* partial = partial_.as<Real>();
      T* result = reinterpret_cast<T*>(sums);
      for_chunks(divide_up(columns_, kStrip), kStrip * row_blocks_, [&](std::int64_t begin, std::int64_t count) {
        for (std::int64_t strip = begin; strip < begin + count; ++strip) {
          const std::int64_t column = strip * kStrip, columns = std::min(kStrip, columns_ - column);
          double total[kStrip] = {};
          for (std::int64_t block = 0; block < row_blocks_; ++block) {
            const Real* part = partial + block * columns_ + column;
            for (std::int64_t c = 0; c < columns; ++c) total[c] += static_cast<double>(part[c]);
          }
          for (std::int64_t c = 0; c < columns; ++c) result[column + c] = convert<T>(total[c]);
        }
      });
    });
  }

  DType dtype_;
  std::int64_t rows_, columns_, row_blocks_, column_blocks_;
  ScratchBuffer partial_;  // (row_blocks, columns)
};

}  // namespace

void CpuBackend::binary(const BinaryTask& task) {
  const PointwiseKernels& kernels = pointwise_kernels();
  const auto run = [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    BinaryTask part = task;
    part.rows = rows;
    part.columns = columns;
    part.a = skip(task.a, row * task.a_row_stride + column, task.dtype);
    part.b = skip(task.b, row * task.b_row_stride + column, task.dtype);
    part.result = skip(task.result, row * task.columns + column, task.dtype);
    kernels.binary(part);
  };
  if (task.rows == 1) {
    for_chunks(task.columns, 1, [&](std::int64_t begin, std::int64_t count) { run(0, 1, begin, count); });
  } else if (task.columns > 0) {
    for_chunks(task.rows, task.columns,
               [&](std::int64_t begin, std::int64_t count) { run(begin, count, 0, task.columns); });
  }
}

void CpuBackend::unary(const UnaryTask& task) {
  const PointwiseKernels& kernels = pointwise_kernels();
  for_chunks(task.count, 1, [&](std::int64_t begin, std::int64_t count) {
    UnaryTask part = task;
    part.count = count;
    part.x = skip(task.x, begin, task.dtype);
    part.result = skip(task.result, begin, task.dtype);
    kernels.unary(part);
  });
}

void CpuBackend::scale(const ScaleTask& task) {
  const PointwiseKernels& kernels = pointwise_kernels();
  for_chunks(task.count, 1, [&](std::int64_t begin, std::int64_t count) {
    ScaleTask part = task;
    part.count = count;
    part.x = skip(task.x, begin, task.dtype);
    part.result = skip(task.result, begin, task.dtype);
    kernels.scale(part);
  });
}

void CpuBackend::lerp(const LerpTask& task) {
  constexpr int kSlot = 0;
  const PointwiseKernels& kernels = pointwise_kernels();
  for_chunks(task.count, 1, [&](std::int64_t begin, std::int64_t count) {
    std::byte* target = skip(task.target, begin, task.dtype);
    std::byte* change = thread_scratch(kSlot, static_cast<std::size_t>(count) * item_size(task.dtype));  // (count)
    BinaryTask step = {.operation = Binary::subtract, .dtype = task.dtype, .columns = count};
    step.a = skip(task.source, begin, task.dtype);
    step.b = target;
    step.result = change;
    kernels.binary(step);
    kernels.scale({.dtype = task.dtype, .count = count, .x = change, .result = change, .factor = task.share});
    step.operation = Binary::add;
    step.a = target;
    step.b = change;
    step.result = target;
    kernels.binary(step);
  });
}

void CpuBackend::activate(const ActivateTask& task) {
  const PointwiseKernels& kernels = pointwise_kernels();
  for_chunks(task.count, 1, [&](std::int64_t begin, std::int64_t count) {
    ActivateTask part = task;
    part.count = count;
    part.x = skip(task.x, begin, task.dtype);
    part.result = skip(task.result, begin, task.dtype);
    kernels.activate(part);
  });
}

void CpuBackend::dropout(const DropoutTask& task) {
  const PointwiseKernels& kernels = pointwise_kernels();
  for_chunks(task.count, 1, [&](std::int64_t begin, std::int64_t count) {
    DropoutTask part = task;
    part.first = task.first + begin;
    part.count = count;
    part.base = skip(task.base, begin, task.dtype);
    part.x = skip(task.x, begin, task.dtype);
    part.result = skip(task.result, begin, task.dtype);
    kernels.dropout(part);
  });
}

void CpuBackend::activation_backward(const ActivationBackward& task) {
  ActivationBackward problem = task;
  if (task.factor != 1) {
    scale({.dtype = task.dtype,
           .count = task.rows * task.columns,
           .x = task.d_after,
           .result = task.d_before,
           .factor = task.factor});
    problem.d_after = task.d_before;
  }
  const PointwiseKernels& kernels = pointwise_kernels();
  const auto task_at = [&](std::int64_t first) {
    ActivationBackwardTask task;
    task.activation = problem.activation;
    task.dtype = problem.dtype;
    task.row_stride = problem.columns;
    task.d_after = skip(problem.d_after, first, problem.dtype);
    task.saved = skip(problem.saved, first, problem.dtype);
    task.d_before = skip(problem.d_before, first, problem.dtype);
    return task;
  };
  if (problem.sums == nullptr) {
    for_chunks(problem.rows * problem.columns, 1, [&](std::int64_t begin, std::int64_t count) {
      ActivationBackwardTask task = task_at(begin);
      task.columns = count;
      kernels.activation_backward(task);
    });
    return;
  }
  const BlockSums blocks(problem.dtype, problem.rows, problem.columns);
  blocks.for_blocks([&](const BlockSums::Block& block) {
    ActivationBackwardTask task = task_at(block.row * problem.columns + block.column);
    task.rows = block.rows;
    task.columns = block.columns;
    task.sums = block.sums;
    kernels.activation_backward(task);
  });
  blocks.join(problem.sums, problem.sums_dtype);
}

// Sums blocks of rows in float32 (float64 for float64) and joins the blocks in float64.
void CpuBackend::column_sums(const ColumnSums& problem) {
  const PointwiseKernels& kernels = pointwise_kernels();
  const BlockSums blocks(problem.dtype, problem.rows, problem.columns);
  blocks.for_blocks([&](const BlockSums::Block& block) {
    kernels.column_sums({.dtype = problem.dtype,
                         .rows = block.rows,
                         .columns = block.columns,
                         .row_stride = problem.columns,
                         .x = skip(problem.x, block.row * problem.columns + block.column, problem.dtype),
                         .sums = block.sums});
  });
  blocks.join(problem.sums, problem.sums_dtype);
}

}  // namespace headway::inline v0::internal::cpu
