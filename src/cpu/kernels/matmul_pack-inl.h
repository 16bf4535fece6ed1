// Copies of the operands of a matrix product in the order in which the register tile reads them.
#pragma once

#include "cpu/kernels/matmul.h"
#include "cpu/kernels/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// Calls visit(pointer in the matrix's own dtype) for the dtypes that go with E.
template <typename E, typename Visit>
HWY_INLINE void with_matrix(const MatrixView& matrix, Visit visit) {
  with_source<E>(Rows{.data = matrix.data, .stride = 0, .dtype = matrix.dtype}, visit);
}

// One element from one value, or for pairs from two; the second may be absent.
template <typename E, typename In>
HWY_INLINE E make_element(const In* first, [[maybe_unused]] const In* second) {
  if constexpr (std::is_same_v<E, Bf16Pair>) {
    return {first->bits | (second ? std::uint32_t{second->bits} << 16 : 0)};
  } else {
    return convert<E>(*first);
  }
}

// to[0 .. lanes) = one element of depth for as many neighbours, the two depths of a pair `step` apart.
template <typename E, class D, typename In>
HWY_INLINE void copy_vector(D d, const In* HWY_RESTRICT from, [[maybe_unused]] std::int64_t step,
                            [[maybe_unused]] bool pair, E* HWY_RESTRICT to) {
  if constexpr (std::is_same_v<E, Bf16Pair>) {
    const hn::RebindToUnsigned<D> whole;
    const hn::Rebind<std::uint16_t, D> half;
    const auto* halves = reinterpret_cast<const std::uint16_t*>(from);
    const auto low = hn::PromoteTo(whole, hn::LoadU(half, halves));
    const auto high = pair ? hn::PromoteTo(whole, hn::LoadU(half, halves + step)) : hn::Zero(whole);
    hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), whole, reinterpret_cast<std::uint32_t*>(to));
  } else {
    hn::StoreU(load_converted(d, from), d, to);
  }
}

// The same for kWidth neighbours.
template <typename E, int kWidth, typename In>
HWY_INLINE void copy_neighbours(const In* HWY_RESTRICT from, std::int64_t step, bool pair, E* HWY_RESTRICT to) {
  constexpr int kCount = kLanes<E>;
  if constexpr (kWidth % kCount == 0) {
#pragma GCC unroll 4
    for (int i = 0; i < kWidth; i += kCount) copy_vector(VectorTag<E>(), from + i, step, pair, to + i);
  } else if constexpr (2 * kWidth == kCount) {
    copy_vector(hn::Half<VectorTag<E>>(), from, step, pair, to);
  } else {
    for (int i = 0; i < kWidth; ++i) to[i] = make_element<E>(from + i, pair ? from + i + step : nullptr);
  }
}

// Where a matrix is packed: panels of kWidth neighbours, `panel_stride` elements apart, each (elements of depth,
// kWidth). What is missing of the last panel is zero.
template <typename E>
struct Panels {
  E* data;
  std::int64_t panel_stride;
};

// Packs neighbours that lie side by side; depth_stride apart are the steps of depth.
template <typename E, int kWidth, typename In>
HWY_INLINE void pack_neighbours(const In* source, std::int64_t depth_stride, std::int64_t depth, std::int64_t count,
                                const Panels<E>& panels) {
  constexpr std::int64_t kValues = Arithmetic<E>::kValues;
  constexpr std::int64_t kGroup = 256;  // neighbours read at a time: a row's lines share a page
  constexpr std::int64_t kAhead = 8;    // steps of depth
  const std::int64_t whole = count / kWidth * kWidth;
  for (std::int64_t begin = 0; begin < count; begin += kGroup / kWidth * kWidth) {
    const std::int64_t end = std::min(begin + kGroup / kWidth * kWidth, count);
    for (std::int64_t k = 0; k < depth; k += kValues) {
      const In* from = source + k * depth_stride;
      const bool pair = k + 1 < depth;
      E* to = panels.data + begin / kWidth * panels.panel_stride + k / kValues * kWidth;
      // Steps of depth often lie in different pages, where the processor does not look ahead by itself.
      for (std::int64_t i = begin; i < end; i += 64 / static_cast<std::int64_t>(sizeof(In))) {
        for (int v = 0; v < kValues; ++v) __builtin_prefetch(from + (kAhead + v) * depth_stride + i);
      }
      std::int64_t i = begin;
      for (; i < std::min(end, whole); i += kWidth, to += panels.panel_stride) {
        copy_neighbours<E, kWidth>(from + i, depth_stride, pair, to);
      }
      if (i < end) {
        for (int n = 0; n < kWidth; ++n) {
          const In* at = from + i + n;
          to[n] = i + n < count ? make_element<E>(at, pair ? at + depth_stride : nullptr) : E{};
        }
      }
    }
  }
}

// Packs a matrix of any strides.
template <typename E, int kWidth, typename In>
HWY_INLINE void pack_scattered(const In* source, std::int64_t depth_stride, std::int64_t neighbour_stride,
                               std::int64_t depth, std::int64_t count, const Panels<E>& panels) {
  constexpr std::int64_t kValues = Arithmetic<E>::kValues;
  for (std::int64_t begin = 0; begin < count; begin += kWidth) {
    E* to = panels.data + begin / kWidth * panels.panel_stride;
    for (std::int64_t k = 0; k < depth; k += kValues, to += kWidth) {
      for (int n = 0; n < kWidth; ++n) {
        const In* at = source + k * depth_stride + (begin + n) * neighbour_stride;
        to[n] = begin + n < count ? make_element<E>(at, k + 1 < depth ? at + depth_stride : nullptr) : E{};
      }
    }
  }
}

// Elements from one panel to the next. Panels of many sizes would otherwise begin in the same set of a cache.
template <typename E, int kWidth>
HWY_INLINE std::int64_t panel_stride(std::int64_t depth_elements) {
  return round_up(depth_elements * kWidth + 64 / static_cast<std::int64_t>(sizeof(E)), 64 / sizeof(E));
}

// B (depth, columns) as panels of tile columns.
template <typename E>
HWY_INLINE void pack_columns(const MatrixView& b, std::int64_t depth, std::int64_t columns, const Panels<E>& panels) {
  constexpr int kWidth = kTileColumns<E>;
  with_matrix<E>(b, [&](const auto* source) HWY_ATTR {
    if (b.column_stride == 1) {
      pack_neighbours<E, kWidth>(source, b.row_stride, depth, columns, panels);
    } else if (b.row_stride == 1) {
      for (std::int64_t c = 0; c < columns; c += kWidth) {
        pack_transposed<E>(source + c * b.column_stride, b.column_stride, 0,
                           std::min<std::int64_t>(kWidth, columns - c), depth, RealOf<E>(1),
                           panels.data + c / kWidth * panels.panel_stride);
      }
    } else {
      pack_scattered<E, kWidth>(source, b.row_stride, b.column_stride, depth, columns, panels);
    }
  });
}

// A (rows, depth) where depth is contiguous, as rows of elements `stride` apart.
template <typename E>
HWY_INLINE void copy_rows(const MatrixView& a, std::int64_t rows, std::int64_t depth, E* target, std::int64_t stride) {
  with_matrix<E>(a, [&](const auto* source) HWY_ATTR {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto* from = source + r * a.row_stride;
      E* to = target + r * stride;
      if constexpr (std::is_same_v<E, Bf16Pair>) {
        to[element_count<E>(depth) - 1] = {};
        std::memcpy(to, from, static_cast<std::size_t>(depth) * sizeof(bfloat16));
      } else {
        copy_row(from, to, depth, depth, RealOf<E>(1));
      }
    }
  });
}

// A (rows, depth) as panels of tile rows.
template <typename E>
HWY_INLINE void pack_rows_of(const MatrixView& a, std::int64_t rows, std::int64_t depth, const Panels<E>& panels) {
  with_matrix<E>(a, [&](const auto* source) HWY_ATTR {
    if (a.row_stride == 1) {
      pack_neighbours<E, kTileRows>(source, a.column_stride, depth, rows, panels);
    } else {
      pack_scattered<E, kTileRows>(source, a.column_stride, a.row_stride, depth, rows, panels);
    }
  });
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
