// Comparisons, choices and extremes as every backend takes them: dense memory of any dtype. A boolean is false where
// its byte is 0, whatever the others hold.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headway/dtype.h"

namespace headway::inline v0::internal {

enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal };

// result (rows, columns) = a (rows, columns) op b (rows, columns), booleans of 0 and 1. Rows are contiguous.
struct CompareTask {
  Comparison operation = Comparison::equal;
  DType dtype = DType::float32;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  const std::byte* a = nullptr;
  std::int64_t a_row_stride = 0;  // in elements; 0: one row for all
  const std::byte* b = nullptr;   // null: `number` everywhere
  std::int64_t b_row_stride = 0;  // likewise
  double number = 0;              // rounded to a floating dtype; whole numbers are compared with it in float64
  std::byte* result = nullptr;    // one row after the other
};

// result (count) = mask (count) ? a (count) : b (count).
struct SelectTask {
  DType dtype = DType::float32;
  std::int64_t count = 0;
  const std::byte* mask = nullptr;  // booleans
  const std::byte* a = nullptr;     // null: a_number everywhere
  const std::byte* b = nullptr;     // null: b_number everywhere
  double a_number = 0;
  double b_number = 0;
  std::byte* result = nullptr;
};

// The greatest or smallest element of x (outer, middle, inner) over its middle, the first of several; NaN counts as
// more extreme than any number.
struct ExtremeTask {
  bool greatest = true;
  DType dtype = DType::float32;
  std::int64_t outer = 1;
  std::int64_t middle = 1;  // at least 1
  std::int64_t inner = 1;
  const std::byte* x = nullptr;
  std::int64_t* indices = nullptr;  // (outer, inner): positions in the middle
  std::byte* values = nullptr;      // (outer, inner) of x's dtype; null: not wanted
};

// target (outer, middle, inner), zeros before: target[o, indices[o, i], i] = source[o, i].
struct PlaceTask {
  DType dtype = DType::float32;
  std::int64_t outer = 1;
  std::int64_t middle = 1;
  std::int64_t inner = 1;
  const std::byte* source = nullptr;      // (outer, inner)
  const std::int64_t* indices = nullptr;  // (outer, inner), each in [0, middle)
  std::byte* target = nullptr;
};

}  // namespace headway::inline v0::internal
