// Inputs and results of the matrix product kernels: plain structs, the same for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headway/activation.h"
#include "headway/dtype.h"

namespace headway::inline v0::internal {

// One matrix in a user's tensor.
struct MatrixView {
  std::byte* data = nullptr;  // null where it was not given
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  DType dtype = DType::float32;
};

// Copies a part of B, (depth, columns), into panels (columns / tile columns) of (elements of depth, tile columns).
struct MatmulPackTask {
  MatrixView source = {};
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  void* packed = nullptr;
  std::int64_t panel_stride = 0;  // elements
};

// How a task reads B.
enum class OperandB {
  panels,    // packed before
  in_place,  // rows of whole vectors, read where they are
  packed,    // packed by the task, block by block
};

// A part of the result's rows and columns.
struct MatmulTask {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  MatrixView a = {};  // (rows, depth)
  OperandB how = OperandB::panels;
  const void* panels = nullptr;
  MatrixView b = {};                // (depth, columns), where it is not in panels
  MatrixView result = {};           // (rows, columns)
  const std::byte* bias = nullptr;  // of the result's dtype, contiguous; null: none
  bool bias_of_rows = false;        // (rows), else (columns)
  Activation activation = Activation::none;
  MatrixView before_activation = {};  // (rows, columns)
  bool accumulate = false;

  // Where depth is split over several calls and the result cannot hold sums: a buffer for them, (rows, columns) padded
  // to whole tiles.
  void* sums = nullptr;
  std::int64_t sums_stride = 0;
  bool begins = true;  // this is the first call
  bool ends = true;    // this is the last call
};

struct MatmulKernels {
  std::int64_t tile_rows = 0;
  std::int64_t tile_columns = 0;
  std::int64_t strip_rows = 0;     // rows of a task are a multiple of it
  std::int64_t values = 1;         // of depth in one packed element
  std::int64_t element_bytes = 0;  // of a packed element
  std::int64_t real_bytes = 0;     // of a sum

  // Whether A can be read where it is.
  bool (*reads_in_place)(const MatrixView& a, std::int64_t depth) noexcept = nullptr;
  std::int64_t (*panel_elements)(std::int64_t depth) noexcept = nullptr;  // from one panel to the next
  void (*pack)(const MatmulPackTask& task) noexcept = nullptr;
  std::size_t (*workspace)(const MatmulTask& task) noexcept = nullptr;
  void (*product)(const MatmulTask& task, std::byte* workspace) noexcept = nullptr;
};

}  // namespace headway::inline v0::internal
