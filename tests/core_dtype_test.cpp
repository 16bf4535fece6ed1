#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "base/check.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "headway/device.h"
#include "headway/dtype.h"
#include "headway/error.h"
#include "headway/tensor.h"

namespace headway {
namespace {

using internal::convert;

template <typename Half>
Half from_bits(std::uint32_t bits) {
  Half value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

// What the bits mean by the definition of the format, in double.
double definition(std::uint32_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits & 0x7FFF) >> mantissa_bits;
  const int mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
  double value = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename Half>
constexpr int kExponentBits = std::is_same_v<Half, bfloat16> ? 8 : 5;

template <typename Half>
class HalfTest : public testing::Test {};
using HalfTypes = testing::Types<bfloat16, float16>;
TYPED_TEST_SUITE(HalfTest, HalfTypes);

TYPED_TEST(HalfTest, EveryValueWidensAsDefinedAndComesBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = from_bits<TypeParam>(bits);
    const float wide = static_cast<float>(half);
    const double expected = definition(bits, kExponentBits<TypeParam>);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(wide)) << bits;
      EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(wide)))) << bits;
      EXPECT_TRUE(std::isnan(static_cast<float>(convert<TypeParam>(static_cast<double>(wide))))) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(wide), expected) << bits;
      EXPECT_EQ(std::signbit(wide), std::signbit(expected)) << bits;
      EXPECT_EQ(TypeParam(wide).bits, bits);
      EXPECT_EQ(convert<TypeParam>(static_cast<double>(wide)).bits, bits);
    }
  }
}

// Between each two neighbours: just under the middle, the middle itself, and just over it, in float32 and in float64.
TYPED_TEST(HalfTest, RoundsToNearestEvenBetweenAllNeighbours) {
  const std::uint32_t infinity = std::is_same_v<TypeParam, bfloat16> ? 0x7F80 : 0x7C00;
  for (std::uint32_t bits = 0; bits < infinity; ++bits) {
    const double low = definition(bits, kExponentBits<TypeParam>);
    // Past the largest finite value, the place of infinity is where the next value would be.
    const double high = bits + 1 < infinity ? definition(bits + 1, kExponentBits<TypeParam>)
                                            : 2 * low - definition(bits - 1, kExponentBits<TypeParam>);
    const double middle = (low + high) / 2;
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    const std::uint32_t tiny = std::bit_cast<std::uint32_t>(static_cast<float>(middle));
    ASSERT_EQ(static_cast<double>(static_cast<float>(middle)), middle) << bits;
    EXPECT_EQ(TypeParam(static_cast<float>(middle)).bits, even) << bits;
    EXPECT_EQ(TypeParam(std::bit_cast<float>(tiny - 1)).bits, bits) << bits;
    EXPECT_EQ(TypeParam(std::bit_cast<float>(tiny + 1)).bits, bits + 1) << bits;
    EXPECT_EQ(TypeParam(-std::bit_cast<float>(tiny + 1)).bits, (bits + 1) | 0x8000) << bits;
    EXPECT_EQ(convert<TypeParam>(middle).bits, even) << bits;
    EXPECT_EQ(convert<TypeParam>(std::nextafter(middle, 0.0)).bits, bits) << bits;
    EXPECT_EQ(convert<TypeParam>(std::nextafter(middle, INFINITY)).bits, bits + 1) << bits;
    EXPECT_EQ(convert<TypeParam>(-std::nextafter(middle, INFINITY)).bits, (bits + 1) | 0x8000) << bits;
  }
}

TYPED_TEST(HalfTest, OverflowIsInfinityAndUnderflowIsSignedZero) {
  EXPECT_EQ(static_cast<float>(convert<TypeParam>(1e300)), INFINITY);
  EXPECT_EQ(static_cast<float>(convert<TypeParam>(-1e300)), -INFINITY);
  EXPECT_EQ(static_cast<float>(TypeParam(std::numeric_limits<float>::max())), INFINITY);
  EXPECT_EQ(static_cast<float>(TypeParam(-INFINITY)), -INFINITY);
  EXPECT_EQ(convert<TypeParam>(-1e-300).bits, 0x8000);
  EXPECT_EQ(TypeParam(-0.0f).bits, 0x8000);
}

TYPED_TEST(HalfTest, NanWithPayloadOnlyInTheLowBitsStaysNan) {
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::bit_cast<float>(0xFF800001u)))));
}

TEST(Convert, FloatingToIntegerCutsAndClamps) {
  EXPECT_EQ(convert<std::int32_t>(-2.9), -2);
  EXPECT_EQ(convert<std::int32_t>(1e10), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(convert<std::int32_t>(-1e10f), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(convert<std::int32_t>(2147483647.0), 2147483647);
  EXPECT_EQ(convert<std::int32_t>(2147483648.0f), 2147483647);
  EXPECT_EQ(convert<std::int64_t>(0x1p63), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(convert<std::int64_t>(-0x1p63), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(convert<std::int64_t>(static_cast<double>(NAN)), 0);
  EXPECT_EQ(convert<std::int64_t>(bfloat16(-3.5f)), -3);
}

TEST(Convert, BooleansAreZeroOrNot) {
  EXPECT_FALSE(convert<bool>(-0.0f));
  EXPECT_TRUE(convert<bool>(NAN));
  EXPECT_TRUE(convert<bool>(std::int64_t{1} << 40));
  EXPECT_EQ(convert<float16>(true).bits, float16(1.0f).bits);
  EXPECT_EQ(convert<double>(true), 1.0);
}

TEST(Convert, IntegersToHalves) {
  EXPECT_EQ(static_cast<float>(convert<float16>(std::int32_t{-2049})), -2048.0f);
  EXPECT_EQ(static_cast<float>(convert<float16>(std::int64_t{70000})), INFINITY);
  // 2^24 + 2^16 + 1 is just over the middle of two bfloat16; by way of a plain float32 it would be the middle.
  EXPECT_EQ(static_cast<float>(convert<bfloat16>(std::int64_t{16777216 + 65536 + 1})), 16777216.0f + 131072.0f);
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(dtype_name(DType::float32), "float32");
  EXPECT_EQ(dtype_name(DType::bfloat16), "bfloat16");
  EXPECT_EQ(dtype_name(DType::boolean), "bool");
  EXPECT_EQ(item_size(DType::float32), 4u);
  EXPECT_EQ(item_size(DType::float64), 8u);
  EXPECT_EQ(item_size(DType::bfloat16), 2u);
  EXPECT_EQ(item_size(DType::float16), 2u);
  EXPECT_EQ(item_size(DType::int32), 4u);
  EXPECT_EQ(item_size(DType::int64), 8u);
  EXPECT_EQ(item_size(DType::boolean), 1u);
  EXPECT_EQ(item_size(DType::int8), 1u);
  EXPECT_TRUE(is_floating(DType::float16));
  EXPECT_FALSE(is_floating(DType::int64));
  EXPECT_THROW(item_size(static_cast<DType>(77)), Error);
  EXPECT_THROW(dtype_name(static_cast<DType>(77)), Error);
}

TEST(Dispatch, GivesTheTypeOfTheDType) {
  for (int number = 0; number < 8; ++number) {
    const auto dtype = static_cast<DType>(number);
    EXPECT_EQ(internal::dispatch_all(dtype, []<typename T>() { return dtype_of<T>; }), dtype);
    if (is_floating(dtype)) {
      EXPECT_EQ(internal::dispatch_floating(dtype, []<typename T>() { return dtype_of<T>; }), dtype);
    } else {
      EXPECT_THROW(internal::dispatch_floating(dtype, []<typename T>() { return 0; }), Error);
    }
  }
}

TEST(Check, JoinsItsParts) {
  internal::check(true, "never seen");
  try {
    internal::check(false, "f: ", 3, ' ', 2.5, " ", Shape{2, 3}, " ", DType::int64, " ", Device::cpu(), " ",
                    std::string("text"), " ", true, " ", Tensor());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "f: 3 2.5 [2, 3] int64 cpu text true undefined");
  }
}

}  // namespace
}  // namespace headway
