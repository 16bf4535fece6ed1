// Products in 8 bits: sums of a tile in registers, then what makes results of them.
#pragma once

#include "cpu/kernels/activation-inl.h"
#include "cpu/kernels/quantized-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// Sums of all rows of a tile.
using TileSums = std::int32_t[kDotRows][kPanelColumns];

// How far ahead of few rows, which wait for memory, panels are fetched.
inline constexpr std::int64_t kPrefetchBytes = 4096;
inline constexpr int kPrefetchRows = 4;

// sums (rows, columns) = x W^T of one panel.
template <int kRows>
void sum_tile(const DotStep::Input* x, std::int64_t stride, const std::byte* panel, std::int64_t steps,
              TileSums& sums) {
  const Sums d;
  const auto* starts = reinterpret_cast<const std::int32_t*>(panel);
  const auto* weights = reinterpret_cast<const std::int8_t*>(starts + kPanelColumns);
  SumVector sum[kRows][kDotVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kDotVectors; ++v) sum[r][v] = hn::LoadU(d, starts + v * kSumLanes);
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    decltype(DotStep::weights(weights)) w[kDotVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kDotVectors; ++v) w[v] = DotStep::weights(weights + v * kSumLanes * DotStep::kDepth);
    if constexpr (kRows <= kPrefetchRows) {
      for (int byte = 0; byte < kPanelColumns * DotStep::kDepth; byte += 64) {
        __builtin_prefetch(weights + byte + kPrefetchBytes, 0, 2);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto row = DotStep::broadcast(x + r * stride);
#pragma GCC unroll 4
      for (int v = 0; v < kDotVectors; ++v) sum[r][v] = DotStep::add(sum[r][v], row, w[v]);
    }
    x += DotStep::kDepth;
    weights += kPanelColumns * DotStep::kDepth;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kDotVectors; ++v) hn::StoreU(sum[r][v], d, sums[r] + v * kSumLanes);
  }
}

inline void sum_rows(int rows, const DotStep::Input* x, std::int64_t stride, const std::byte* panel, std::int64_t steps,
                     TileSums& sums) {
  switch (rows) {
    case 1:
      return sum_tile<1>(x, stride, panel, steps, sums);
    case 2:
      return sum_tile<2>(x, stride, panel, steps, sums);
    case 3:
      return sum_tile<3>(x, stride, panel, steps, sums);
    case 4:
      return sum_tile<4>(x, stride, panel, steps, sums);
    case 5:
      return sum_tile<5>(x, stride, panel, steps, sums);
    default:
      return sum_tile<kDotRows>(x, stride, panel, steps, sums);
  }
}

// A part of the result: some rows of one panel's columns.
struct DotPlace {
  std::int64_t row, rows;
  std::int64_t column, columns;
};

class QuantizedRun {
 public:
  explicit QuantizedRun(const QuantizedTask& task)
      : task_(task),
        steps_(dot_steps(task.depth)),
        panel_bytes_(quantized_panel_bytes(task.depth)),
        row_bytes_(quantized_row_bytes(task.depth)) {}

  void run() {
    for (std::int64_t column = 0; column < task_.columns; column += kPanelColumns) {
      const std::int64_t columns = std::min<std::int64_t>(kPanelColumns, task_.columns - column);
      for (std::int64_t row = 0; row < task_.rows;) {
        const std::int64_t left = task_.rows - row;
        // The last two tiles have about as many rows.
        const std::int64_t rows =
            left >= 2 * kDotRows || left <= kDotRows ? std::min<std::int64_t>(left, kDotRows) : (left + 1) / 2;
        do_tile({row, rows, column, columns});
        row += rows;
      }
    }
  }

 private:
  void do_tile(const DotPlace& place) {
    sum(task_.weight, place, sums_);
    if (task_.multiplied.panels) sum(task_.multiplied, place, other_sums_);
    switch (task_.activation) {
      case Activation::none:
        return finish<Activation::none>(place);
      case Activation::relu:
        return finish<Activation::relu>(place);
      case Activation::gelu:
        return finish<Activation::gelu>(place);
      case Activation::gelu_tanh:
        return finish<Activation::gelu_tanh>(place);
      case Activation::silu:
        return finish<Activation::silu>(place);
      case Activation::tanh:
        return finish<Activation::tanh>(place);
      case Activation::sigmoid:
        return finish<Activation::sigmoid>(place);
      case Activation::quick_gelu:
        return finish<Activation::quick_gelu>(place);
    }
  }

  void sum(const QuantizedColumns& weight, const DotPlace& place, TileSums& sums) const {
    const auto* x = reinterpret_cast<const DotStep::Input*>(task_.values + place.row * row_bytes_);
    sum_rows(static_cast<int>(place.rows), x, row_bytes_ / static_cast<std::int64_t>(sizeof(DotStep::Input)),
             weight.panels + place.column / kPanelColumns * panel_bytes_, steps_, sums);
  }

  // One vector of y. Multiplications and the addition are rounded one by one, so that every instruction set gives the
  // same bits.
  template <class D, class Size>
  static HWY_INLINE hn::Vec<D> value(D d, const std::int32_t* sums, const QuantizedColumns& weight, std::int64_t column,
                                     hn::Vec<D> row_scale, Size part) {
    const auto sum = hn::ConvertTo(d, hn::LoadU(Sums(), sums));
    const auto product = hn::Mul(hn::Mul(sum, load(d, weight.scales + column, part)), row_scale);
    return weight.bias ? hn::Add(product, load(d, weight.bias + column, part)) : product;
  }

  template <Activation kActivation>
  HWY_NOINLINE void finish(const DotPlace& place) const {
    const hn::ScalableTag<float> d;
    for (std::int64_t r = 0; r < place.rows; ++r) {
      const std::int64_t row = place.row + r;
      const auto row_scale = hn::Set(d, task_.row_scales[row]);
      const float* added = task_.added ? task_.added + row * task_.added_stride + place.column : nullptr;
      float* result = task_.result + row * task_.result_stride + place.column;
      for_each_vector(d, place.columns, [&](std::int64_t i, auto part) HEADWAY_INNER {
        const std::int64_t column = place.column + i;
        auto y = activate<kActivation>(d, value(d, sums_[r] + i, task_.weight, column, row_scale, part));
        if (task_.multiplied.panels)
          y = hn::Mul(y, value(d, other_sums_[r] + i, task_.multiplied, column, row_scale, part));
        if (added) y = hn::Add(y, load(d, added + i, part));
        store(d, y, result + i, part);
      });
    }
  }

  const QuantizedTask& task_;
  const std::int64_t steps_;
  const std::int64_t panel_bytes_;
  const std::int64_t row_bytes_;
  alignas(64) TileSums sums_;
  alignas(64) TileSums other_sums_;  // of the columns that are multiplied by
};

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
