// Products of weights in 8 bits, beside whole numbers that are summed in 64 bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/registry.h"
#include "headway/ops.h"
#include "ops/quantized.h"
#include "support/cases.h"
#include "support/message_of.h"
#include "support/thread_count.h"

namespace {

using headway::Activation;
using headway::DType;
using headway::Shape;
using headway::Tensor;
using namespace headway::internal;
using headway_test::contains;
using headway_test::message_of;
using headway_test::ThreadCount;

constexpr Activation kActivations[] = {Activation::none, Activation::relu, Activation::gelu,    Activation::gelu_tanh,
                                       Activation::silu, Activation::tanh, Activation::sigmoid, Activation::quick_gelu};

// Numbers that depend on their index alone, the same with every compiler.
std::uint32_t mixed(std::uint64_t index) {
  std::uint64_t x = (index + 1) * 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9ull;
  return static_cast<std::uint32_t>(x >> 32);
}
// [-1, 1), multiples of 2^-20.
float number(std::uint64_t index) {
  return static_cast<float>(static_cast<int>(mixed(index) >> 11) - (1 << 20)) * 0x1p-20f;
}

Tensor numbers(const Shape& shape, std::uint64_t seed) {
  const Tensor x = Tensor::empty(shape);
  for (std::int64_t i = 0; i < x.element_count(); ++i)
    x.data<float>()[i] = number(seed * 1000003 + static_cast<std::uint64_t>(i));
  return x;
}

QuantizedWeight some_weight(std::int64_t outputs, std::int64_t inputs, std::uint64_t seed) {
  const QuantizedWeight weight = {Tensor::empty({outputs, inputs}, DType::int8), Tensor::empty({outputs})};
  for (std::int64_t i = 0; i < outputs * inputs; ++i) {
    weight.values.data<std::int8_t>()[i] =
        static_cast<std::int8_t>(mixed(seed + static_cast<std::uint64_t>(i)) % 255 - 127);
  }
  for (std::int64_t i = 0; i < outputs; ++i) {
    weight.scales.data<float>()[i] = 0.01f + std::fabs(number(seed + static_cast<std::uint64_t>(i))) / 64;
  }
  return weight;
}

struct PlainRow {
  std::vector<std::int64_t> values;
  float scale = 0;
};

// As QuantizeRowsTask says.
PlainRow plain_row(const float* x, std::int64_t depth) {
  PlainRow row;
  float greatest = 0;
  bool is_finite = true;
  for (std::int64_t i = 0; i < depth; ++i) {
    is_finite = is_finite && std::isfinite(x[i]);
    greatest = std::max(greatest, std::fabs(x[i]));
  }
  row.values.assign(static_cast<std::size_t>(depth), 0);
  if (!is_finite) row.scale = std::numeric_limits<float>::quiet_NaN();
  if (!is_finite || greatest < 0x1p-120f) return row;
  row.scale = greatest / 127;
  const float inverse = 127 / greatest;
  for (std::int64_t i = 0; i < depth; ++i) row.values[static_cast<std::size_t>(i)] = std::llrint(x[i] * inverse);
  return row;
}

// y = x W^T + bias by the same roundings: [rows, outputs].
Tensor plain_product(const Tensor& x, const QuantizedWeight& weight, const Tensor& bias) {
  const std::int64_t rows = x.size(0), depth = x.size(1), outputs = weight.values.size(0);
  const Tensor y = Tensor::empty({rows, outputs});
  const std::int8_t* values = weight.values.data<std::int8_t>();
  for (std::int64_t r = 0; r < rows; ++r) {
    const PlainRow row = plain_row(x.data<float>() + r * x.stride(0), depth);
    for (std::int64_t c = 0; c < outputs; ++c) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) sum += row.values[static_cast<std::size_t>(k)] * values[c * depth + k];
      float result = static_cast<float>(static_cast<std::int32_t>(sum)) * weight.scales.data<float>()[c];
      result *= row.scale;
      if (bias.defined()) result += bias.data<float>()[c];
      y.data<float>()[r * outputs + c] = result;
    }
  }
  return y;
}

// The same bits, where any NaN is like any other.
void expect_same(const Tensor& found, const Tensor& expected) {
  ASSERT_EQ(found.shape(), expected.shape());
  for (std::int64_t i = 0; i < found.element_count(); ++i) {
    const float a = found.data<float>()[i], b = expected.data<float>()[i];
    if (std::isnan(a) && std::isnan(b)) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(a), std::bit_cast<std::uint32_t>(b)) << a << ", " << b << " at " << i;
  }
}

void expect_near(const Tensor& found, const Tensor& expected, double tolerance) {
  ASSERT_EQ(found.shape(), expected.shape());
  const std::vector<double> a = found.to_vector(), b = expected.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::fabs(b[i]))) << "at " << i;
  }
}

void check_product(std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(inputs) + " x " + std::to_string(outputs));
  const QuantizedWeight weight = some_weight(outputs, inputs, 3);
  const Tensor x = numbers({rows, inputs}, 1), bias = numbers({outputs}, 2);
  const Tensor with_bias = plain_product(x, weight, bias);
  expect_same(linear_step(x, pack_weight(weight, bias)), with_bias);
  const PackedWeight packed = pack_weight(weight, {});
  const Tensor without = plain_product(x, weight, {});
  expect_same(linear_step(x, packed), without);
  const Tensor added = numbers({rows, outputs}, 5);
  expect_same(linear_step(x, packed, {.added = added}), without + added);
}

TEST(Quantized, RowsAroundTheTile) {
  for (std::int64_t rows = 0; rows <= 70; ++rows) {
    if (headway_test::reduced() && rows > 14) break;
    check_product(rows, 37, 70);
  }
  check_product(211, 20, 33);
}

TEST(Quantized, InputsOfAnyNumber) {
  for (std::int64_t inputs = 0; inputs <= 70; ++inputs) {
    if (headway_test::reduced() && inputs > 20) break;
    check_product(7, inputs, 19);
  }
  check_product(3, 1025, 65);
}

TEST(Quantized, OutputsOfAnyNumber) {
  for (std::int64_t outputs = 0; outputs <= 70; ++outputs) {
    if (headway_test::reduced() && outputs % 7 > 1) continue;
    check_product(5, 21, outputs);
  }
  for (const std::int64_t outputs : {127, 128, 129, 193}) check_product(4, 40, outputs);
}

// Sums that would not fit into 16 bits, nor saturating steps of them, and that reach the end of 32 bits.
TEST(Quantized, TheGreatestSums) {
  const std::int64_t most = kMostQuantizedInputs;
  for (const std::int64_t inputs : {std::int64_t{1}, std::int64_t{64}, std::int64_t{771}, most}) {
    SCOPED_TRACE(inputs);
    const QuantizedWeight weight = {Tensor::empty({6, inputs}, DType::int8), Tensor::full({6}, 1)};
    const Tensor x = Tensor::empty({5, inputs});
    const auto sign = [](std::int64_t kind,
                         std::int64_t k) {  // all positive, all negative, pairs and fours that change
      return kind == 0 || (kind >= 2 && (k >> (kind - 2)) % 2 == 0) ? 1 : -1;
    };
    for (std::int64_t k = 0; k < inputs; ++k) {
      for (std::int64_t c = 0; c < 6; ++c) {
        const int value = c == 5 ? -128 : 127 * sign(c, k);
        weight.values.data<std::int8_t>()[c * inputs + k] = static_cast<std::int8_t>(value);
      }
      for (std::int64_t r = 0; r < 5; ++r) x.data<float>()[r * inputs + k] = static_cast<float>(127 * sign(r, k));
    }
    expect_same(linear_step(x, pack_weight(weight, {})), plain_product(x, weight, {}));
  }
  const QuantizedWeight wide = {Tensor::zeros({1, most + 1}, DType::int8), Tensor::full({1}, 1)};
  EXPECT_PRED2(contains, message_of([&] { pack_weight(wide, {}); }), "expected at most 131072 inputs");
}

// Rows whose numbers lie halfway between two, are tiny, huge, zero or not finite.
TEST(Quantized, RowsOfEveryKind) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  const std::vector<std::vector<float>> rows = {
      {127, 0.5f, 1.5f, -0.5f, -2.5f, 126.5f, -127},
      {most, -most, most / 2, 1, 0, -1, least},
      {0, 0, 0, 0, 0, 0, 0},
      {-0.0f, 0, -0.0f, 0, 0, 0, -0.0f},
      {1, infinity, 2, 3, 4, 5, 6},
      {1, 2, 3, 4, 5, 6, -infinity},
      {nan, 1, 1, 1, 1, 1, 1},
      {1, 1, 1, infinity, 1, -nan, 1},
      {least, 0, 0, -least, 0, 0, 0},
      {0x1p-120f, -0x1p-121f, 0x1p-127f, 0x1p-130f, 0, 0, 0},
      {0x1.fffffep-121f, -0x1p-121f, 0, 0, 0, 0, 0},
      {-3, 3, -3, 3, -3, 3, 3},
  };
  for (const std::int64_t repeats : {1, 2, 5, 13}) {
    const std::int64_t depth = 7 * repeats, count = static_cast<std::int64_t>(rows.size());
    const Tensor x = Tensor::empty({count, depth});
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t k = 0; k < depth; ++k) {
        const bool is_first =
            k < 7 || std::isfinite(rows[static_cast<std::size_t>(r)][static_cast<std::size_t>(k % 7)]);
        x.data<float>()[r * depth + k] =
            is_first ? rows[static_cast<std::size_t>(r)][static_cast<std::size_t>(k % 7)] : 1;
      }
    }
    const QuantizedWeight weight = some_weight(67, depth, 9);
    const Tensor bias = numbers({67}, 4);
    const Tensor found = linear_step(x, pack_weight(weight, bias));
    expect_same(found, plain_product(x, weight, bias));
    for (std::int64_t c = 0; c < 67; ++c) {
      EXPECT_EQ(found.at({2, c}), static_cast<double>(bias.data<float>()[c]));
      for (const std::int64_t r : {4, 5, 6, 7}) EXPECT_TRUE(std::isnan(found.at({r, c})));
    }
  }
}

TEST(Quantized, RowsFarApart) {
  const Tensor wide = numbers({9, 50}, 6);
  const QuantizedWeight weight = some_weight(70, 23, 2);
  const Tensor x = wide.slice(1, 11, 34);
  expect_same(linear_step(x, pack_weight(weight, {})), linear_step(x.contiguous(), pack_weight(weight, {})));
  const Tensor by_columns = numbers({23, 9}, 7).transpose(0, 1);
  expect_same(linear_step(by_columns, pack_weight(weight, {})), plain_product(by_columns.contiguous(), weight, {}));
}

// What is added may be the result's own memory.
TEST(Quantized, AddsInPlace) {
  const Tensor x = numbers({13, 40}, 1), sum = numbers({13, 100}, 2);
  const QuantizedWeight weight = some_weight(100, 40, 3);
  const PackedWeight packed = pack_weight(weight, {});
  const Tensor expected = sum + plain_product(x, weight, {});
  backend_of(x).linear_step({.x = x, .packed = packed.packed, .scales = packed.scales, .added = sum, .result = sum});
  expect_same(sum, expected);
}

TEST(Quantized, EveryActivation) {
  const Tensor x = headway::scale(numbers({9, 48}, 1), 4.0), bias = numbers({75}, 2);
  const QuantizedWeight weight = some_weight(75, 48, 3);
  const PackedWeight packed = pack_weight(weight, bias);
  const Tensor y = plain_product(x, weight, bias).to(DType::float64);
  const Tensor unit = Tensor::zeros({75, 75}, DType::float64);
  for (std::int64_t i = 0; i < 75; ++i) unit.data<double>()[i * 76] = 1;
  for (const Activation activation : kActivations) {
    SCOPED_TRACE(static_cast<int>(activation));
    const Tensor expected = headway::linear(y, unit, {}, activation);
    expect_near(linear_step(x, packed, {.activation = activation}), expected,
                activation == Activation::gelu ? 3e-5 : 1e-6);
  }
}

// A product of one input that gives the input itself.
TEST(Quantized, GeluFromFarBelowToFarAbove) {
  const QuantizedWeight weight = {Tensor::full({1, 1}, 127, DType::int8), Tensor::full({1}, 1.0 / 127)};
  constexpr std::int64_t kRows = 20001;
  const Tensor x = Tensor::empty({kRows, 1});
  for (std::int64_t r = 0; r < kRows; ++r) x.data<float>()[r] = static_cast<float>(r - kRows / 2) / 1000;
  x.data<float>()[0] = -1e30f;
  x.data<float>()[kRows - 1] = 1e30f;
  const Tensor y = linear_step(x, pack_weight(weight, {}));
  const Tensor found = linear_step(x, pack_weight(weight, {}), {.activation = Activation::gelu});
  for (std::int64_t r = 0; r < kRows; ++r) {
    const double at = y.data<float>()[r], expected = at * std::erfc(-at / std::sqrt(2.0)) / 2;
    ASSERT_NEAR(found.data<float>()[r], expected, 2e-6 + 1e-7 * std::fabs(expected)) << at;
  }
}

TEST(Quantized, GatesHalvesOfAnySize) {
  for (const std::int64_t hidden : {1, 8, 16, 31, 64, 100, 128, 192}) {
    SCOPED_TRACE(hidden);
    const Tensor x = numbers({11, 33}, 1), bias = numbers({2 * hidden}, 2);
    const QuantizedWeight weight = some_weight(2 * hidden, 33, 3);
    const Tensor y = plain_product(x, weight, bias);
    const Tensor first = y.slice(1, 0, hidden), second = y.slice(1, hidden, 2 * hidden);
    const PackedWeight packed = pack_weight(weight, bias);
    expect_near(linear_step(x, packed, {.activation = Activation::silu, .gated = true}), mul(silu(first), second),
                1e-6);
    expect_same(linear_step(x, packed, {.activation = Activation::relu, .gated = true}), mul(relu(first), second));
    expect_same(linear_step(x, packed, {.gated = true}), mul(first, second));
  }
}

TEST(Quantized, NormsBefore) {
  const Tensor x = numbers({37, 90}, 1), gain = numbers({90}, 2), shift = numbers({90}, 3);
  const QuantizedWeight weight = some_weight(65, 90, 4);
  const PackedWeight packed = pack_weight(weight, {});
  const StepNormWeights layer = {.kind = StepNorm::layer, .weight = gain, .bias = shift, .epsilon = 1e-3};
  expect_same(linear_step(x, packed, {.norm = layer}), linear_step(layer_norm(x, gain, shift, 1e-3), packed));
  const StepNormWeights rms = {.kind = StepNorm::rms, .weight = gain, .epsilon = 1e-2};
  expect_same(linear_step(x, packed, {.norm = rms}), linear_step(rms_norm(x, gain, 1e-2), packed));
  const Tensor wide = numbers({37, 200}, 5).slice(1, 3, 93);
  expect_same(linear_step(wide, packed, {.norm = rms}), linear_step(rms_norm(wide.contiguous(), gain, 1e-2), packed));
}

TEST(Quantized, TheSameBitsAtEveryNumberOfThreads) {
  for (const std::int64_t rows : {1, 30, 500}) {
    if (headway_test::reduced() && rows == 500) continue;
    const Tensor x = numbers({rows, 300}, 1), bias = numbers({2000}, 2);
    const PackedWeight packed = pack_weight(some_weight(2000, 300, 3), bias);
    std::vector<Tensor> plain, gated;
    for (const int threads : {1, 2, 3}) {
      const ThreadCount count(threads);
      plain.push_back(linear_step(x, packed, {.activation = Activation::gelu}));
      gated.push_back(linear_step(x, packed, {.activation = Activation::silu, .gated = true}));
    }
    for (std::size_t i = 1; i < plain.size(); ++i) {
      expect_same(plain[i], plain[0]);
      expect_same(gated[i], gated[0]);
    }
  }
}

// FNV-1a of the bits of a result, which are those of every instruction set.
TEST(Quantized, TheSameBitsOnEveryInstructionSet) {
  const Tensor x = numbers({29, 203}, 1), bias = numbers({150}, 2), added = numbers({29, 150}, 4);
  const PackedWeight packed = pack_weight(some_weight(150, 203, 3), bias);
  const Tensor y = linear_step(x, packed, {.added = added});
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (std::int64_t i = 0; i < y.element_count(); ++i) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(y.data<float>()[i])) * 0x100000001B3ull;
  }
  EXPECT_EQ(hash, 9279348788891252741ull);
}

// The error of a product of numbers without outliers is about a hundredth of its size.
TEST(Quantized, NearTheFloatingProduct) {
  const Tensor x = Tensor::randn({50, 256}, 1), weight = Tensor::randn({90, 256}, 2);
  const Tensor expected = headway::linear(x, weight);
  const Tensor difference = linear_step(x, pack_weight(quantize_weight(weight), {})) - expected;
  double error = 0, size = 0;
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    error += std::pow(difference.data<float>()[i], 2);
    size += std::pow(expected.data<float>()[i], 2);
  }
  EXPECT_LT(std::sqrt(error / size), 0.015);
  EXPECT_GT(std::sqrt(error / size), 0.001);
}

TEST(Quantized, EmbedsTokens) {
  const QuantizedWeight weight = some_weight(7, 12, 1);
  const Tensor positions = numbers({9, 12}, 2), result = Tensor::empty({4, 12});
  const Tensor tokens = Tensor::from(std::vector<std::int64_t>{3, 0, 7, 6}, {4});
  const Tensor position = Tensor::from(std::vector<std::int64_t>{1, 8, 2, 9}, {4});
  const Tensor rows = dequantize_weight(weight);
  backend_of(result).embed_step(
      {.weight = weight.values, .scales = weight.scales, .tokens = tokens, .scale = 3, .result = result});
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(result.at({0, i}), 3 * rows.at({3, i}), 1e-5);
    EXPECT_NEAR(result.at({1, i}), 3 * rows.at({0, i}), 1e-5);
    EXPECT_TRUE(std::isnan(result.at({2, i})));
  }
  backend_of(result).embed_step({.weight = weight.values,
                                 .scales = weight.scales,
                                 .tokens = tokens,
                                 .positions = positions,
                                 .position = position,
                                 .result = result});
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(result.at({0, i}), rows.at({3, i}) + positions.at({1, i}), 1e-5);
    EXPECT_NEAR(result.at({1, i}), rows.at({0, i}) + positions.at({8, i}), 1e-5);
    EXPECT_TRUE(std::isnan(result.at({3, i})));
  }
}

}  // namespace
