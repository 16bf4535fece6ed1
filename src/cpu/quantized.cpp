// Products in 8 bits: rows of x are quantized as they come, then the product is cut into strips of rows and ranges of
// panels. How, follows from the shapes alone.
#include "cpu/quantized.h"

#include <algorithm>
#include <memory>

#include "base/divide.h"
#include "core/thread_pool.h"
#include "cpu/gate.h"
#include "cpu/isa.h"
#include "cpu/scratch_slots.h"
#include "cpu/tensor_data.h"

namespace headway::inline v0::internal::cpu {
namespace {

constexpr std::int64_t kQuantizedElements = std::int64_t{32} << 10;  // of x, quantized by one task
constexpr std::int64_t kQuantizedStrip = 16;                         // the most rows of a task, in tiles
constexpr std::int64_t kQuantizedTasks = 16;                         // enough to keep threads evenly busy
// Multiply-adds that are worth a task of their own, where reading a weight counts as kWeightCost of them.
constexpr std::int64_t kLeastQuantizedTask = std::int64_t{1} << 20;
constexpr std::int64_t kWeightCost = 4;
constexpr std::size_t kSmallRows = std::size_t{1} << 20;  // bytes of rows that stay with the thread

const float* floats_of(const Tensor& tensor) { return tensor.defined() ? tensor_data<const float>(tensor) : nullptr; }

// norm(x) of some rows in 8 bits.
class QuantizedRows {
 public:
  explicit QuantizedRows(const LinearStep& task)
      : task_(task), rows_(task.x.size(0)), depth_(task.x.size(1)), row_bytes_(quantized_kernels().row_bytes(depth_)) {
    const auto values_bytes = static_cast<std::size_t>(rows_ * row_bytes_);
    const std::size_t bytes = values_bytes + static_cast<std::size_t>(rows_) * sizeof(float);
    if (bytes > kSmallRows) large_ = std::make_unique<ScratchBuffer>(bytes);
    values_ = large_ ? large_->data() : thread_scratch(kMatmulPackSlot, bytes);
    scales_ = reinterpret_cast<float*>(values_ + values_bytes);
    const std::int64_t together = std::max<std::int64_t>(1, kQuantizedElements / std::max<std::int64_t>(1, depth_));
    const auto quantize = [&](std::int64_t part, int) {
      quantize_part(part * together, std::min((part + 1) * together, rows_));
    };
    rows_ <= together ? quantize(0, 0) : parallel_for(divide_up(rows_, together), quantize);
  }

  const std::byte* values(std::int64_t row) const { return values_ + row * row_bytes_; }
  const float* scales(std::int64_t row) const { return scales_ + row; }

 private:
  void quantize_part(std::int64_t begin, std::int64_t end) const {
    const std::int64_t stride = task_.x.stride(0);
    const float* x = tensor_data<const float>(task_.x) + begin * stride;
    QuantizeRowsTask part = {.rows = end - begin,
                             .depth = depth_,
                             .x = x,
                             .x_stride = stride,
                             .values = values_ + begin * row_bytes_,
                             .scales = scales_ + begin};
    if (task_.norm.kind == StepNorm::none) return quantized_kernels().quantize_rows(part);
    // Row by row, which is quantized while it is in the cache.
    const std::size_t bytes = static_cast<std::size_t>(depth_) * sizeof(float);
    part.rows = 1;
    part.x = reinterpret_cast<const float*>(thread_scratch(kMatmulWorkspaceSlot, bytes));
    for (std::int64_t row = begin; row < end; ++row) {
      norm_row(x + (row - begin) * stride, const_cast<float*>(part.x));
      quantized_kernels().quantize_rows(part);
      part.values += row_bytes_;
      ++part.scales;
    }
  }

  void norm_row(const float* x, float* y) const {
    float mean = 0, inverse = 0;
    NormTask norm;
    norm.dtype = DType::float32;
    norm.features = depth_;
    norm.epsilon = task_.norm.epsilon;
    norm.end = 1;
    norm.x = x;
    norm.weight = floats_of(task_.norm.weight);
    norm.bias = floats_of(task_.norm.bias);
    norm.y = y;
    norm.mean = task_.norm.kind == StepNorm::layer ? &mean : nullptr;
    norm.inverse = &inverse;
    rowwise_kernels().norm(norm);
  }

  const LinearStep& task_;
  const std::int64_t rows_;
  const std::int64_t depth_;
  const std::int64_t row_bytes_;
  std::unique_ptr<ScratchBuffer> large_;
  std::byte* values_ = nullptr;  // (rows, row_bytes)
  float* scales_ = nullptr;      // (rows)
};

// The columns of the task's weight from one on, which begins a panel.
QuantizedColumns columns_from(const LinearStep& task, std::int64_t column) {
  const std::int64_t panel = column / quantized_kernels().panel_columns;
  return {.panels = tensor_data<const std::byte>(task.packed) + panel * task.packed.size(1),
          .scales = floats_of(task.scales) + column,
          .bias = task.bias.defined() ? floats_of(task.bias) + column : nullptr};
}

// result [rows, columns] = activation(x W^T + bias) + added for the first columns of the weight, multiplied by the
// outputs from `multiplied` on unless that is 0.
void multiply_quantized(const LinearStep& task, const QuantizedRows& x, const Tensor& result, Activation activation,
                        std::int64_t multiplied) {
  const QuantizedKernels& kernels = quantized_kernels();
  const std::int64_t rows = task.x.size(0), columns = result.size(1), depth = task.x.size(1);
  const std::int64_t panels = divide_up(columns, kernels.panel_columns);
  // Strips of about as many rows, all but the last of whole tiles.
  const std::int64_t tiles = divide_up(rows, kernels.tile_rows);
  const std::int64_t strip = divide_up(tiles, divide_up(tiles, kQuantizedStrip)) * kernels.tile_rows;
  const std::int64_t strips = divide_up(rows, strip);
  const std::int64_t work =
      (std::min(rows, strip) + kWeightCost) * kernels.panel_columns * std::max<std::int64_t>(1, depth);
  const std::int64_t wide = std::max(divide_up(panels * strips, kQuantizedTasks), divide_up(kLeastQuantizedTask, work));
  const std::int64_t ranges = divide_up(panels, wide);
  const auto run = [&](std::int64_t index, int) {
    const std::int64_t row = index / ranges * strip, column = index % ranges * wide * kernels.panel_columns;
    const std::int64_t stride = result.stride(0);
    QuantizedTask part = {.rows = std::min(strip, rows - row),
                          .columns = std::min(wide * kernels.panel_columns, columns - column),
                          .depth = depth,
                          .values = x.values(row),
                          .row_scales = x.scales(row),
                          .weight = columns_from(task, column)};
    if (multiplied != 0) part.multiplied = columns_from(task, multiplied + column);
    part.activation = activation;
    part.result = tensor_data<float>(result) + row * stride + column;
    part.result_stride = stride;
    if (task.added.defined()) {
      part.added = tensor_data<const float>(task.added) + row * task.added.stride(0) + column;
      part.added_stride = task.added.stride(0);
    }
    kernels.product(part);
  };
  strips* ranges == 1 ? run(0, 0) : parallel_for(strips * ranges, run);
}

}  // namespace

Tensor pack_quantized_weight(const Tensor& weight) {
  const QuantizedKernels& kernels = quantized_kernels();
  const std::int64_t outputs = weight.size(0), inputs = weight.size(1);
  const std::int64_t panels = divide_up(outputs, kernels.panel_columns), bytes = kernels.panel_bytes(inputs);
  const Tensor packed = Tensor::empty({panels, bytes}, DType::int8);
  parallel_for(panels, [&](std::int64_t panel, int) {
    const std::int64_t column = panel * kernels.panel_columns;
    kernels.pack({.weight = tensor_data<const std::int8_t>(weight) + column * inputs,
                  .columns = std::min(kernels.panel_columns, outputs - column),
                  .depth = inputs,
                  .panel = tensor_data<std::byte>(packed) + panel * bytes});
  });
  return packed;
}

void quantized_linear_step(const LinearStep& task) {
  const std::int64_t rows = task.x.size(0), hidden = task.result.size(1);
  if (rows * hidden == 0) return;
  const QuantizedRows x(task);
  if (!task.gated) return multiply_quantized(task, x, task.result, task.activation, 0);
  // Both halves in one pass where the second one begins a panel.
  if (hidden % quantized_kernels().panel_columns == 0) {
    return multiply_quantized(task, x, task.result, task.activation, hidden);
  }
  const Tensor y = Tensor::empty({rows, 2 * hidden});
  multiply_quantized(task, x, y, Activation::none, 0);
  gate(y, task.activation, task.result);
}

}  // namespace headway::inline v0::internal::cpu
