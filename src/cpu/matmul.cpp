// Matrix products: which operand is packed, and which task computes which part. All of it follows from shapes, strides
// and dtypes; no choice depends on the number of threads.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/divide.h"
#include "core/thread_pool.h"
#include "cpu/backend.h"
#include "cpu/isa.h"
#include "cpu/quantized.h"
#include "cpu/scratch_slots.h"

namespace headway::inline v0::internal::cpu {
namespace {

constexpr std::size_t kSmallScratch = std::size_t{256} << 10;      // stays with the thread
constexpr std::int64_t kPackedBytes = std::int64_t{2} << 20;       // of B at a time
constexpr std::int64_t kPartColumns = 512;                         // cut by depth rather than into fewer columns
constexpr std::int64_t kSumsBytes = std::int64_t{8} << 20;         // of sums that the result cannot hold
constexpr std::int64_t kSumsRows = 64;                             // they hold whole strips
constexpr std::int64_t kItemScratchBytes = std::int64_t{4} << 20;  // scratch of a task that computes a whole product
constexpr std::int64_t kPackElements = std::int64_t{32} << 10;     // packed by one task
constexpr std::int64_t kPackDepth = 16;                            // a multiple of every element's values
constexpr std::int64_t kLeastTask = std::int64_t{100} << 10;       // multiply-adds that are worth a task of their own
constexpr std::int64_t kTasks = 16;                                // enough to keep threads evenly busy
constexpr std::int64_t kRowsInPlace = 32;                          // rows that do not pay for packing B
constexpr std::int64_t kRowsOfOneTask = 16;                        // the most, in tiles
constexpr std::int64_t kRowsPackedOnce = 32;                       // the most where the task packs B itself, in tiles
constexpr std::int64_t kRowsPackedBefore = 64;                     // the most where B came packed
constexpr std::int64_t kWideColumns = 1024;                        // enough for tasks of twice the usual width

std::int64_t round_up(std::int64_t value, std::int64_t multiple) { return divide_up(value, multiple) * multiple; }

// One product of the batch, or of its transposed: result^T = b^T a^T.
struct Product {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  MatrixView a = {};
  MatrixView b = {};
  MatrixView result = {};
  MatrixView before_activation = {};
  const std::byte* bias = nullptr;
  bool bias_of_rows = false;
  Activation activation = Activation::none;
  bool accumulate = false;
  const std::byte* packed_b = nullptr;  // all panels of b; null: not packed
};

MatrixView transposed(const MatrixView& m) { return {m.data, m.column_stride, m.row_stride, m.dtype}; }

Product transposed(const Product& p) {
  Product t = p;
  std::swap(t.rows, t.columns);
  t.a = transposed(p.b);
  t.b = transposed(p.a);
  t.result = transposed(p.result);
  t.before_activation = transposed(p.before_activation);
  t.bias_of_rows = !p.bias_of_rows;
  return t;
}

MatrixView offset(MatrixView m, std::int64_t row, std::int64_t column) {
  if (m.data) {
    m.data += (row * m.row_stride + column * m.column_stride) * static_cast<std::int64_t>(item_size(m.dtype));
  }
  return m;
}

MatrixView view(const Matrix& m, std::int64_t batch) {
  if (!m.data) return {};
  return {m.data + batch * m.batch_stride * static_cast<std::int64_t>(item_size(m.dtype)), m.row_stride,
          m.column_stride, m.dtype};
}

Product product_of(const MatmulProblem& p, std::int64_t batch) {
  return {.rows = p.rows,
          .columns = p.columns,
          .depth = p.depth,
          .a = view(p.a, batch),
          .b = view(p.b, batch),
          .result = view(p.result, batch),
          .before_activation = view(p.before_activation, batch),
          .bias = p.bias,
          .bias_of_rows = false,
          .activation = p.activation,
          .accumulate = p.accumulate,
          .packed_b = p.packed_b};
}

// Whether B is read where it is: so few rows do not pay for packing it.
bool reads_b_in_place(const MatmulKernels& kernels, const Product& p) {
  return kernels.values == 1 && p.b.column_stride == 1 && p.rows <= kRowsInPlace &&
         p.columns % (kernels.tile_columns / 2) == 0 &&
         item_size(p.b.dtype) == static_cast<std::size_t>(kernels.element_bytes);
}

// The cost beside the multiply-adds, in units of about a cycle per vector.
std::int64_t cost(const MatmulKernels& kernels, const Product& p) {
  std::int64_t cost = 0;
  if (!reads_b_in_place(kernels, p)) {
    const std::int64_t b = p.b.column_stride == 1 ? 3 : (p.b.row_stride == 1 ? 6 : 40);
    cost += b * p.columns * p.depth;
  }
  if (!kernels.reads_in_place(p.a, p.depth)) {
    cost += (p.a.column_stride == 1 || p.a.row_stride == 1 ? 3 : 40) * p.rows * p.depth;
  }
  cost += (p.result.column_stride == 1 ? 2 : (p.result.row_stride == 1 ? 6 : 40)) * p.rows * p.columns;
  // Columns are padded to whole vectors, rows hardly.
  const std::int64_t lanes = kernels.tile_columns / 2;
  return cost + (round_up(p.columns, lanes) - p.columns) * p.rows * p.depth / 8;
}

// How one product is computed.
class Plan {
 public:
  Plan(const MatmulKernels& kernels, const Product& product) : kernels_(kernels), product_(product) {
    const Product& p = product_;
    if (p.packed_b) {
      how_ = OperandB::panels;
    } else if (reads_b_in_place(kernels, p)) {
      how_ = OperandB::in_place;
    } else if (p.rows <= kRowsPackedOnce * kernels_.tile_rows && reads_a_in_place()) {
      how_ = OperandB::packed;  // no other task needs the same part of B
    }
    plain_ = p.result.dtype != DType::bfloat16 && p.result.dtype != DType::float16 && p.result.column_stride == 1 &&
             p.activation == Activation::none && !p.before_activation.data;
    columns_ = round_up(p.columns, kernels_.tile_columns);
    depth_ = std::max<std::int64_t>(1, divide_up(p.depth, kernels_.values));
    if (how_ == OperandB::panels && !p.packed_b) limit_packed();
  }

  std::int64_t work() const { return product_.rows * product_.columns * std::max<std::int64_t>(product_.depth, 1); }
  // The memory that run() needs.
  std::size_t scratch_bytes() const {
    return product_.packed_b ? 0 : static_cast<std::size_t>(packed_bytes() + sums_bytes());
  }

  // Packs and computes, in tasks where it is worth it, with scratch_bytes() of memory.
  void run(std::byte* memory) const {
    if (product_.packed_b) return compute({0, product_.columns, 0, product_.depth}, product_.packed_b, nullptr);
    for (std::int64_t c = 0; c < product_.columns; c += columns_) {
      const std::int64_t column_end = std::min(c + columns_, product_.columns);
      std::int64_t k = 0;
      do {
        const std::int64_t end = std::min(k + depth_ * kernels_.values, product_.depth);
        const Part part = {c, column_end, k, end};
        if (how_ == OperandB::panels) pack(part, memory);
        compute(part, memory, memory + packed_bytes());
        k = end;
      } while (k < product_.depth);
    }
  }

 private:
  // Columns and depth that are packed at a time.
  struct Part {
    std::int64_t column, column_end, depth, depth_end;
  };

  // Cuts B so that what is packed at a time stays in the caches. A plain result holds the sums of one part of depth
  // until the next; for others they need memory of their own, and where that is too much, B is cut by columns alone.
  void limit_packed() {
    const std::int64_t unit = kernels_.tile_columns, capacity = kPackedBytes / kernels_.element_bytes;
    if (columns_ * depth_ <= capacity) return;
    const std::int64_t columns = std::min(columns_, std::max(kPartColumns, capacity / depth_ / unit * unit));
    const bool keeps_sums = sums_rows() * columns * kernels_.real_bytes <= kSumsBytes;
    if (plain_ || keeps_sums) {
      columns_ = columns;
      depth_ = std::min(depth_, std::max(kPackDepth, capacity / columns_ / kPackDepth * kPackDepth));
    } else {
      columns_ = std::min(columns_, std::max(4 * unit, capacity / depth_ / unit * unit));
    }
  }
  bool keeps_sums() const { return !plain_ && depth_ * kernels_.values < product_.depth; }
  std::int64_t sums_rows() const { return round_up(product_.rows, kSumsRows); }
  std::int64_t sums_stride() const { return columns_ + kernels_.tile_columns; }
  std::int64_t packed_bytes() const {
    if (how_ != OperandB::panels) return 0;
    return round_up(columns_ / kernels_.tile_columns * panel_bytes(depth_ * kernels_.values), 64);
  }
  std::int64_t sums_bytes() const { return keeps_sums() ? sums_rows() * sums_stride() * kernels_.real_bytes : 0; }

  // Runs body(task) for all tasks, on one thread where the work is too small to share.
  template <typename Body>
  static void for_tasks(std::int64_t tasks, bool share, const Body& body) {
    if (share) {
      parallel_for(tasks, [&](std::int64_t task, int) { body(task); });
    } else {
      for (std::int64_t task = 0; task < tasks; ++task) body(task);
    }
  }

  void pack(const Part& part, std::byte* packed) const {
    // Cut across what lies side by side in memory.
    const std::int64_t unit = kernels_.tile_columns;
    const std::int64_t depth = std::max<std::int64_t>(1, part.depth_end - part.depth);
    const std::int64_t columns = part.column_end - part.column;
    const bool by_depth = product_.b.column_stride == 1;
    const std::int64_t deep = by_depth ? round_up(divide_up(kPackElements, columns), kPackDepth) : depth;
    const std::int64_t wide = by_depth ? columns : round_up(divide_up(kPackElements, depth), unit);
    const std::int64_t column_tasks = divide_up(columns, wide), tasks = column_tasks * divide_up(depth, deep);
    const std::int64_t stride = kernels_.panel_elements(part.depth_end - part.depth);
    for_tasks(tasks, tasks > 1, [&](std::int64_t task) {
      const std::int64_t k = task / column_tasks * deep, c = task % column_tasks * wide;
      const std::int64_t element = c / unit * stride + k / kernels_.values * unit;
      kernels_.pack({.source = offset(product_.b, part.depth + k, part.column + c),
                     .depth = std::min(deep, part.depth_end - part.depth - k),
                     .columns = std::min(wide, columns - c),
                     .packed = packed + element * kernels_.element_bytes,
                     .panel_stride = stride});
    });
  }

  // panels: those of the part's columns; sums: a buffer for sums that the result cannot hold.
  void compute(const Part& part, const std::byte* panels, std::byte* sums) const {
    const std::int64_t columns = part.column_end - part.column;
    const std::int64_t depth = part.depth_end - part.depth;
    // Rows first. Where A is copied, a task has many of them and many columns: others copy the same again.
    const bool copies = !reads_a_in_place();
    const std::int64_t row_unit = copies ? 8 * kernels_.tile_rows : kernels_.strip_rows;
    const bool wide_tasks = columns > kWideColumns || how_ == OperandB::packed;
    const std::int64_t column_panels = product_.packed_b ? 1 : copies ? 8 : wide_tasks ? 4 : 2;
    const std::int64_t column_unit = column_panels * kernels_.tile_columns;
    const std::int64_t per_row = columns * std::max<std::int64_t>(depth, 1);
    std::int64_t rows = round_up(std::max(divide_up(product_.rows, kTasks), divide_up(kLeastTask, per_row)), row_unit);
    if (how_ == OperandB::packed) {
      rows = product_.rows;
    } else if (product_.packed_b) {
      rows = std::min(product_.rows, kRowsPackedBefore);  // tasks of other columns: each reads its panels once
    } else {
      rows = std::min(rows, kRowsOfOneTask * kernels_.tile_rows);
    }
    const std::int64_t row_tasks = divide_up(product_.rows, rows);
    std::int64_t wide = columns;
    if (row_tasks < kTasks) {
      const std::int64_t per_column = std::min(rows, product_.rows) * std::max<std::int64_t>(depth, 1);
      wide = std::max(divide_up(columns * row_tasks, kTasks), divide_up(kLeastTask, per_column));
      wide = round_up(wide, column_unit);
    }
    const std::int64_t column_tasks = divide_up(columns, wide);
    for_tasks(row_tasks * column_tasks, row_tasks * column_tasks > 1, [&](std::int64_t task) {
      const std::int64_t r = task / column_tasks * rows, c = task % column_tasks * wide;
      compute_task(part, panels, sums, {r, std::min(r + rows, product_.rows), c, std::min(c + wide, columns)});
    });
  }

  // As far as it follows from the strides: addresses do not decide how work is cut.
  bool reads_a_in_place() const {
    MatrixView aligned = product_.a;
    aligned.data = nullptr;
    return kernels_.reads_in_place(aligned, product_.depth);
  }

  // Bytes from one panel to the next.
  std::int64_t panel_bytes(std::int64_t depth) const { return kernels_.panel_elements(depth) * kernels_.element_bytes; }

  struct Rectangle {
    std::int64_t row, row_end, column, column_end;  // columns count from the part's first
  };

  void compute_task(const Part& part, const std::byte* panels, std::byte* sums, const Rectangle& where) const {
    const Product& p = product_;
    const std::int64_t column = part.column + where.column;
    const std::int64_t panel = where.column / kernels_.tile_columns * panel_bytes(part.depth_end - part.depth);
    MatmulTask task = {.rows = where.row_end - where.row,
                       .columns = where.column_end - where.column,
                       .depth = part.depth_end - part.depth,
                       .a = offset(p.a, where.row, part.depth),
                       .how = how_,
                       .panels = how_ == OperandB::panels ? panels + panel : nullptr,
                       .b = offset(p.b, part.depth, column),
                       .result = offset(p.result, where.row, column),
                       .bias = nullptr,
                       .bias_of_rows = p.bias_of_rows,
                       .activation = p.activation,
                       .before_activation = offset(p.before_activation, where.row, column),
                       .accumulate = p.accumulate || (plain_ && part.depth > 0)};
    if (keeps_sums()) {
      const std::int64_t first = where.row * sums_stride() + where.column;
      task.sums = sums + first * kernels_.real_bytes;
      task.sums_stride = sums_stride();
      task.begins = part.depth == 0;
      task.ends = part.depth_end == p.depth;
    }
    if (p.bias && part.depth == 0) {
      task.bias = p.bias + (p.bias_of_rows ? where.row : column) * static_cast<std::int64_t>(item_size(p.result.dtype));
    }
    kernels_.product(task, thread_scratch(kMatmulWorkspaceSlot, kernels_.workspace(task)));
  }

  const MatmulKernels& kernels_;
  Product product_;
  OperandB how_ = OperandB::panels;
  bool plain_ = false;        // the result can hold sums
  std::int64_t columns_ = 0;  // packed at a time
  std::int64_t depth_ = 0;    // packed at a time, elements
};

}  // namespace

// a and b have one floating dtype; the result has it too, or float32 for 16-bit ones. Sums are float64 for float64,
// else float32. An empty depth gives activation(bias).
void CpuBackend::matmul(const MatmulProblem& problem) {
  if (problem.batch * problem.rows * problem.columns == 0) return;
  const MatmulProblem p = with_merged_batch(problem);
  const MatmulKernels& kernels = matmul_kernels(p.a.dtype);
  const Product item = product_of(p, 0);
  const bool transposes = !p.packed_b && cost(kernels, transposed(item)) < cost(kernels, item);
  const auto plan = [&](std::int64_t batch) {
    const Product product = product_of(p, batch);
    return Plan(kernels, transposes ? transposed(product) : product);
  };
  const Plan first = plan(0);
  const std::size_t bytes = first.scratch_bytes();
  if (p.batch > 1 && (p.batch >= kTasks || first.work() <= 4 * kLeastTask) && bytes <= kItemScratchBytes) {
    // Whole products are tasks: what they call runs on their thread.
    const std::int64_t together = std::max<std::int64_t>(1, kLeastTask / std::max<std::int64_t>(1, first.work()));
    parallel_for(divide_up(p.batch, together), [&](std::int64_t task, int) {
      std::byte* memory = thread_scratch(kMatmulPackSlot, bytes);
      for (std::int64_t b = task * together; b < std::min((task + 1) * together, p.batch); ++b) {
        plan(b).run(memory);
      }
    });
    return;
  }
  const std::unique_ptr<ScratchBuffer> large = bytes > kSmallScratch ? std::make_unique<ScratchBuffer>(bytes) : nullptr;
  std::byte* memory = large ? large->data() : thread_scratch(kMatmulPackSlot, bytes);
  for (std::int64_t b = 0; b < p.batch; ++b) plan(b).run(memory);
}

// weight^T in panels: weight [out, in] -> memory of as many floats as it takes.
Tensor CpuBackend::pack_weight(const Tensor& weight) {
  if (weight.dtype() == DType::int8) return pack_quantized_weight(weight);
  const MatmulKernels& kernels = matmul_kernels(weight.dtype());
  const std::int64_t outputs = weight.size(0), inputs = weight.size(1);
  const std::int64_t panels = divide_up(outputs, kernels.tile_columns), stride = kernels.panel_elements(inputs);
  constexpr std::int64_t kFloatBytes = sizeof(float);
  const Tensor packed = Tensor::empty({panels, stride * kernels.element_bytes / kFloatBytes});
  const auto bytes = static_cast<std::int64_t>(item_size(weight.dtype()));
  parallel_for(panels, [&](std::int64_t panel, int) {
    const std::int64_t column = panel * kernels.tile_columns;
    kernels.pack({.source = {.data = static_cast<std::byte*>(weight.raw_data()) + column * weight.stride(0) * bytes,
                             .row_stride = weight.stride(1),
                             .column_stride = weight.stride(0),
                             .dtype = weight.dtype()},
                  .depth = inputs,
                  .columns = std::min(kernels.tile_columns, outputs - column),
                  .packed = static_cast<std::byte*>(packed.raw_data()) + panel * packed.size(1) * kFloatBytes,
                  .panel_stride = stride});
  });
  return packed;
}

}  // namespace headway::inline v0::internal::cpu
