// Products in 8 bits: the sums of a tile in registers, results made of them there, then activations.
#pragma once

#include <utility>

#include "cpu/kernels/activation-inl.h"
#include "cpu/kernels/quantized-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// How far ahead of few rows, which wait for memory, panels are fetched.
inline constexpr std::int64_t kPrefetchBytes = 4096;
inline constexpr int kPrefetchRows = 4;

// Some rows of x and one panel, whose scales and biases are there for all its columns.
struct DotTile {
  const DotStep::Input* x;  // (rows, x_stride)
  std::int64_t x_stride;
  const float* row_scales;  // (rows)
  std::int64_t steps;
  const std::byte* panel;
  const float* scales;  // (kPanelColumns)
  const float* bias;    // (kPanelColumns)
  float* result;        // (rows, result_stride)
  std::int64_t result_stride;
};

// Calls body(0), body(1) .. body(kCount - 1) with constants: an array of vectors that only constants index is kept in
// registers, before loops that a compiler unrolls and after them.
template <int kCount, typename Body>
HWY_INLINE void unrolled(Body body) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) HEADWAY_INNER {
    (body(std::integral_constant<int, kIndex>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

// Hides from GCC that the sums will be converted: it would carry them through the loop twice, as the loop's type of
// vector and as the conversion's.
HWY_INLINE void settle([[maybe_unused]] SumVector& sum) {
#if defined(HEADWAY_X86)
  asm("" : "+v"(sum.raw));
#endif
}

// result = sums * scales * row_scales + bias. Each operation is rounded, so that every instruction set gives the same
// bits.
template <int kRows>
void multiply_tile(const DotTile& tile) {
  const Sums d;
  const hn::ScalableTag<float> df;
  const auto* starts = reinterpret_cast<const std::int32_t*>(tile.panel);
  const auto* weights = reinterpret_cast<const std::int8_t*>(starts + kPanelColumns);
  const DotStep::Input* x = tile.x;
  const std::int64_t x_stride = tile.x_stride, result_stride = tile.result_stride;
  const float *scales = tile.scales, *bias = tile.bias, *row_scales = tile.row_scales;
  float* result = tile.result;
  SumVector sum[kRows][kDotVectors];
  unrolled<kRows>([&](auto r) HEADWAY_INNER {
    unrolled<kDotVectors>([&](auto v) HEADWAY_INNER { sum[r][v] = hn::LoadU(d, starts + v * kSumLanes); });
  });
  for (std::int64_t step = tile.steps; step > 0; --step) {
    decltype(DotStep::weights(weights)) w[kDotVectors];
    unrolled<kDotVectors>([&](auto v)
                              HEADWAY_INNER { w[v] = DotStep::weights(weights + v * kSumLanes * DotStep::kDepth); });
    if constexpr (kRows <= kPrefetchRows) {
      for (int byte = 0; byte < kPanelColumns * DotStep::kDepth; byte += 64) {
        __builtin_prefetch(weights + byte + kPrefetchBytes);
      }
    }
    unrolled<kRows>([&](auto r) HEADWAY_INNER {
      const auto row = DotStep::broadcast(x + r * x_stride);
      unrolled<kDotVectors>([&](auto v) HEADWAY_INNER { sum[r][v] = DotStep::add(sum[r][v], row, w[v]); });
    });
    x += DotStep::kDepth;
    weights += kPanelColumns * DotStep::kDepth;
  }
  unrolled<kRows>([&](auto r) HEADWAY_INNER {
    const auto row_scale = hn::Set(df, row_scales[r]);
    unrolled<kDotVectors>([&](auto v) HEADWAY_INNER {
      settle(sum[r][v]);
      const auto scaled = hn::Mul(hn::ConvertTo(df, sum[r][v]), hn::LoadU(df, scales + v * kSumLanes));
      const auto y = hn::Add(hn::Mul(scaled, row_scale), hn::LoadU(df, bias + v * kSumLanes));
      hn::StoreU(y, df, result + r * result_stride + v * kSumLanes);
    });
  });
}

inline void multiply_tile(std::int64_t rows, const DotTile& tile) {
  switch (rows) {
    case 1:
      return multiply_tile<1>(tile);
    case 2:
      return multiply_tile<2>(tile);
    case 3:
      return multiply_tile<3>(tile);
    case 4:
      return multiply_tile<4>(tile);
    case 5:
      return multiply_tile<5>(tile);
    default:
      return multiply_tile<kDotRows>(tile);
  }
}

// max(x, 0) - |x| Phi(-|x|), within 1.7e-6 of x Phi(x), which is far less than 8 bits lose: Phi(-a) is close to the
// eighth power of a polynomial, and below 1e-14 / a beyond 6.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_by_powers(D d, V x) {
  static constexpr float kRoot[] = {-0.00019089252f, 0.0019393063f, -0.0011073583f,
                                    -0.031722438f,   -0.0914907f,   0.91700345f};
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 6.0f));
  const V root = polynomial(d, a, kRoot);
  const V square = hn::Mul(root, root), fourth = hn::Mul(square, square);
  return hn::NegMulAdd(a, hn::Mul(fourth, fourth), hn::Max(hn::Zero(d), x));
}

// result (rows, result_stride) = activation(y): y (rows, kPanelColumns), which may be the result.
template <Activation kActivation>
void activate_panel(std::int64_t rows, const float* y, float* result, std::int64_t result_stride) {
  const hn::ScalableTag<float> d;
  for (std::int64_t r = 0; r < rows; ++r, y += kPanelColumns, result += result_stride) {
    unrolled<kDotVectors>([&](auto v) HEADWAY_INNER {
      const auto x = hn::LoadU(d, y + v * kSumLanes);
      if constexpr (kActivation == Activation::gelu) {
        hn::StoreU(gelu_by_powers(d, x), d, result + v * kSumLanes);
      } else {
        hn::StoreU(activate<kActivation>(d, x), d, result + v * kSumLanes);
      }
    });
  }
}

inline void activate_panel(Activation activation, std::int64_t rows, const float* y, float* result,
                           std::int64_t result_stride) {
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      return activate_panel<Activation::relu>(rows, y, result, result_stride);
    case Activation::gelu:
      return activate_panel<Activation::gelu>(rows, y, result, result_stride);
    case Activation::gelu_tanh:
      return activate_panel<Activation::gelu_tanh>(rows, y, result, result_stride);
    case Activation::silu:
      return activate_panel<Activation::silu>(rows, y, result, result_stride);
    case Activation::tanh:
      return activate_panel<Activation::tanh>(rows, y, result, result_stride);
    case Activation::sigmoid:
      return activate_panel<Activation::sigmoid>(rows, y, result, result_stride);
    case Activation::quick_gelu:
      return activate_panel<Activation::quick_gelu>(rows, y, result, result_stride);
  }
}

// A part of the result: some rows of one panel's columns.
struct DotPlace {
  std::int64_t row, rows;
  std::int64_t column, columns;
};

// The scales and biases of one panel's columns, for whole vectors of them.
class PanelFactors {
 public:
  void look_at(const QuantizedColumns& weight, std::int64_t column, std::int64_t columns) {
    scales_ = whole(weight.scales + column, columns, scales_copy_);
    bias_ = weight.bias ? whole(weight.bias + column, columns, bias_copy_) : whole(nullptr, 0, bias_copy_);
  }
  const float* scales() const { return scales_; }
  const float* bias() const { return bias_; }

 private:
  // The values themselves where there are kPanelColumns, else a copy with zeros after it.
  static const float* whole(const float* values, std::int64_t columns, float* copy) {
    if (columns == kPanelColumns) return values;
    std::fill_n(std::copy_n(values, columns, copy), kPanelColumns - columns, 0.0f);
    return copy;
  }

  const float* scales_ = nullptr;  // (kPanelColumns)
  const float* bias_ = nullptr;    // (kPanelColumns)
  float scales_copy_[kPanelColumns];
  float bias_copy_[kPanelColumns];
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
      factors_.look_at(task_.weight, column, columns);
      if (task_.multiplied.panels) other_factors_.look_at(task_.multiplied, column, columns);
      for (std::int64_t row = 0; row < task_.rows;) {
        const std::int64_t left = task_.rows - row;
        // The last two tiles have about as many rows.
        const bool is_whole = left >= 2 * kDotRows || left <= kDotRows;
        const std::int64_t rows = is_whole ? std::min<std::int64_t>(left, kDotRows) : (left + 1) / 2;
        do_tile({row, rows, column, columns});
        row += rows;
      }
    }
  }

 private:
  void do_tile(const DotPlace& place) {
    const bool is_whole = place.columns == kPanelColumns && !task_.multiplied.panels && !task_.added;
    float* const result = is_whole ? task_.result + place.row * task_.result_stride + place.column : values_;
    const std::int64_t stride = is_whole ? task_.result_stride : kPanelColumns;
    if (task_.activation == Activation::none) {
      multiply(task_.weight, factors_, place, result, stride);
    } else {
      multiply(task_.weight, factors_, place, values_, kPanelColumns);
      activate_panel(task_.activation, place.rows, values_, result, stride);
    }
    if (task_.multiplied.panels) multiply(task_.multiplied, other_factors_, place, other_values_, kPanelColumns);
    if (!is_whole) join(place);
  }

  void multiply(const QuantizedColumns& weight, const PanelFactors& factors, const DotPlace& place, float* to,
                std::int64_t stride) const {
    multiply_tile(place.rows, {.x = reinterpret_cast<const DotStep::Input*>(task_.values + place.row * row_bytes_),
                               .x_stride = row_bytes_ / static_cast<std::int64_t>(sizeof(DotStep::Input)),
                               .row_scales = task_.row_scales + place.row,
                               .steps = steps_,
                               .panel = weight.panels + place.column / kPanelColumns * panel_bytes_,
                               .scales = factors.scales(),
                               .bias = factors.bias(),
                               .result = to,
                               .result_stride = stride});
  }

  // result = y * others + added; y (rows, kPanelColumns).
  void join(const DotPlace& place) const {
    const hn::ScalableTag<float> d;
    for (std::int64_t r = 0; r < place.rows; ++r) {
      const std::int64_t row = place.row + r;
      const float* y = values_ + r * kPanelColumns;
      const float* others = task_.multiplied.panels ? other_values_ + r * kPanelColumns : nullptr;
      const float* added = task_.added ? task_.added + row * task_.added_stride + place.column : nullptr;
      float* result = task_.result + row * task_.result_stride + place.column;
      for_each_vector(d, place.columns, [&](std::int64_t i, auto part) HEADWAY_INNER {
        auto v = hn::LoadU(d, y + i);
        if (others) v = hn::Mul(v, hn::LoadU(d, others + i));
        if (added) v = hn::Add(v, load(d, added + i, part));
        store(d, v, result + i, part);
      });
    }
  }

  const QuantizedTask& task_;
  const std::int64_t steps_;
  const std::int64_t panel_bytes_;
  const std::int64_t row_bytes_;
  PanelFactors factors_;
  PanelFactors other_factors_;                                // of the columns that are multiplied by
  alignas(64) float values_[kDotRows * kPanelColumns];        // (rows, kPanelColumns)
  alignas(64) float other_values_[kDotRows * kPanelColumns];  // likewise
};

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
