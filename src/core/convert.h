// Conversions between element types, inline for use in loops.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "headway/dtype.h"

namespace headway::inline v0::internal {

inline float to_float(bfloat16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

inline float to_float(float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16;
  const std::uint32_t magnitude = value.bits & 0x7FFF;
  if (magnitude < 0x0400) {  // zero or subnormal: a multiple of 2^-24, exact in float32
    const float absolute = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(absolute) | sign);
  }
  constexpr std::uint32_t kRebias = (127 - 15) << 23;
  constexpr std::uint32_t kSpecialExponent = 0xFFu << 23;
  const std::uint32_t shifted = magnitude << 13;
  return std::bit_cast<float>(sign | (magnitude >= 0x7C00 ? kSpecialExponent | shifted : shifted + kRebias));
}

// Rounds to nearest even; NaN stays NaN.
inline bfloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  bfloat16 result;
  if ((bits & 0x7FFFFFFF) > 0x7F800000) {
    // The quiet bit keeps a NaN with nothing in its upper half from becoming infinity.
    result.bits = static_cast<std::uint16_t>((bits >> 16) | 0x0040);
  } else {
    result.bits = static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
  return result;
}

// Rounds to nearest even, past 65504 to infinity; NaN stays NaN.
inline float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000) {
    half = 0x7E00 | ((magnitude >> 13) & 0x03FF);
  } else if (magnitude >= 0x477FF000) {  // 65520, halfway to what 2^16 would be
    half = 0x7C00;
  } else if (magnitude >= 0x38800000) {  // 2^-14, the smallest normal
    constexpr std::uint32_t kRebias = (127 - 15) << 10;
    half = ((magnitude + 0x0FFF + ((magnitude >> 13) & 1)) >> 13) - kRebias;
  } else {  // float32 has a step of 2^-24 at 0.5, the step of the subnormals: the addition rounds
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
  }
  float16 result;
  result.bits = static_cast<std::uint16_t>(half | ((bits >> 16) & 0x8000));
  return result;
}

// The enclosing float32 with an odd last bit where the value is not exact: a second rounding then rounds as one would.
inline float to_float_round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (static_cast<double>(nearest) == value || std::isnan(value) || bits % 2 == 1) {
    return nearest;
  }
  return std::bit_cast<float>(std::fabs(static_cast<double>(nearest)) > std::fabs(value) ? bits - 1 : bits + 1);
}

// Converts one element. To floating types: rounds to nearest even. From floating to integer types: cuts the fraction
// off, clamps to the type's range, NaN becomes 0. To bool: whether it is not zero.
template <typename To, typename From>
inline To convert(From value) {
  constexpr bool kFromHalf = std::is_same_v<From, bfloat16> || std::is_same_v<From, float16>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kFromHalf) {
    return convert<To>(to_float(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (std::is_same_v<To, bfloat16> || std::is_same_v<To, float16>) {
    float single = 0;
    if constexpr (std::is_same_v<From, float> || std::is_same_v<From, bool>) {
      single = static_cast<float>(value);
    } else {
      single = to_float_round_to_odd(static_cast<double>(value));
    }
    if constexpr (std::is_same_v<To, bfloat16>) {
      return to_bfloat16(single);
    } else {
      return to_float16(single);
    }
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The lower bound is a power of two and so exact; the upper one is not, and one past it is.
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    if (!(value >= kLow)) {
      return std::isnan(value) ? To{0} : std::numeric_limits<To>::min();
    }
    return value < -kLow ? static_cast<To>(value) : std::numeric_limits<To>::max();
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace headway::inline v0::internal
