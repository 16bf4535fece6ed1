// Copies between strided memory, with a conversion of the element type.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/convert.h"
#include "core/dispatch.h"
#include "cpu/host_memory.h"

namespace headway::inline v0::internal::cpu {
namespace {

struct Dimension {
  std::int64_t size = 1;
  std::int64_t target_stride = 0;
  std::int64_t source_stride = 0;
};

// The loops of a copy, the innermost last: always two at least, so that there is a plane to walk.
struct Loops {
  Dimension dims[Shape::kMaxRank + 2];
  int count = 0;
};

// Orders the dimensions for sequential writes, and merges those that are one run in both memories.
Loops plan_loops(const StridedTarget& target, const StridedSource& source, const Shape& shape) {
  Loops all;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (shape[dim] != 1) {
      all.dims[all.count++] = {shape[dim], target.strides[dim], source.strides[dim]};
    }
  }
  std::stable_sort(all.dims, all.dims + all.count,
                   [](const Dimension& a, const Dimension& b) { return a.target_stride > b.target_stride; });
  Loops merged;
  merged.count = 2;  // the two leading loops of size 1
  for (int i = 0; i < all.count; ++i) {
    const Dimension& inner = all.dims[i];
    Dimension& outer = merged.dims[merged.count - 1];
    if (merged.count > 2 && outer.target_stride == inner.target_stride * inner.size &&
        outer.source_stride == inner.source_stride * inner.size) {
      outer = {outer.size * inner.size, inner.target_stride, inner.source_stride};
    } else {
      merged.dims[merged.count++] = inner;
    }
  }
  // Where reads are sequential along another dimension than writes, that one comes next to the innermost.
  Dimension* last = merged.dims + merged.count - 1;
  Dimension* sequential =
      std::find_if(merged.dims + 2, last, [](const Dimension& dim) { return dim.source_stride == 1; });
  if (last->source_stride != 1 && sequential < last) {
    std::rotate(sequential, sequential + 1, last);
  }
  return merged;
}

template <typename To, typename From>
void copy_row(To* target, std::int64_t target_stride, const From* source, std::int64_t source_stride,
              std::int64_t size) {
  // A user's bool may be any byte; reading it as bool would be undefined unless it is 0 or 1.
  using Loaded = std::conditional_t<std::is_same_v<From, bool>, std::uint8_t, From>;
  const Loaded* loaded = reinterpret_cast<const Loaded*>(source);
  const auto load = [](Loaded value) {
    if constexpr (std::is_same_v<From, bool>) {
      return value != 0;
    } else {
      return value;
    }
  };
  if (target_stride == 1 && source_stride == 1) {
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(target, source, static_cast<std::size_t>(size) * sizeof(To));
    } else {
      for (std::int64_t i = 0; i < size; ++i) {
        target[i] = convert<To>(load(loaded[i]));
      }
    }
  } else {
    for (std::int64_t i = 0; i < size; ++i) {
      target[i * target_stride] = convert<To>(load(loaded[i * source_stride]));
    }
  }
}

// Copies rows.size x columns.size elements; in strips where the source runs along the rows, so that each cache line
// read serves all its rows before it is dropped.
template <typename To, typename From>
void copy_plane(To* target, const From* source, const Dimension& rows, const Dimension& columns) {
  constexpr std::int64_t kStrip = 64;
  const bool transposed = rows.source_stride == 1 && columns.source_stride != 1;
  const std::int64_t strip = transposed ? kStrip : columns.size;
  for (std::int64_t column = 0; column < columns.size; column += strip) {
    const std::int64_t width = std::min(strip, columns.size - column);
    To* strip_target = target + column * columns.target_stride;
    const From* strip_source = source + column * columns.source_stride;
    for (std::int64_t row = 0; row < rows.size; ++row) {
      copy_row(strip_target + row * rows.target_stride, columns.target_stride, strip_source + row * rows.source_stride,
               columns.source_stride, width);
    }
  }
}

// Walks the outer loops like an odometer and copies a plane at each stop.
template <typename To, typename From>
void copy_all(To* target, const From* source, const Loops& loops) {
  const int outer = loops.count - 2;
  std::int64_t position[Shape::kMaxRank + 2] = {};
  while (true) {
    copy_plane(target, source, loops.dims[outer], loops.dims[outer + 1]);
    int dim = outer - 1;
    for (; dim >= 0; --dim) {
      const Dimension& loop = loops.dims[dim];
      if (++position[dim] < loop.size) {
        target += loop.target_stride;
        source += loop.source_stride;
        break;
      }
      target -= (loop.size - 1) * loop.target_stride;
      source -= (loop.size - 1) * loop.source_stride;
      position[dim] = 0;
    }
    if (dim < 0) {
      return;
    }
  }
}

bool is_dense(const Shape& strides, const Shape& shape) {
  std::int64_t expected = 1;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    if (shape[dim] != 1 && strides[dim] != expected) return false;
    expected *= shape[dim];
  }
  return true;
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

}  // namespace

void strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape) {
  const Loops loops = plan_loops(target, source, shape);
  dispatch_all(target.dtype, [&]<typename To>() {
    dispatch_all(source.dtype, [&]<typename From>() {
      copy_all(static_cast<To*>(target.data), static_cast<const From*>(source.data), loops);
    });
  });
}

void fill(const StridedTarget& target, const Shape& shape, double value) {
  dispatch_all(target.dtype, [&]<typename T>() {
    const T element = convert<T>(value);
    if (is_dense(target.strides, shape)) {
      std::fill_n(static_cast<T*>(target.data), element_count(shape), element);
      return;
    }
    strided_copy(target, {&element, Shape::filled(shape.rank(), 0), target.dtype}, shape);
  });
}

}  // namespace headway::inline v0::internal::cpu
