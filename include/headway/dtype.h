// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

enum class DType : std::uint8_t { float32, float64, bfloat16, float16, int32, int64, boolean, int8 };

// The upper half of a float32: 8 bits of exponent, 7 of mantissa.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  HEADWAY_API explicit bfloat16(float value);  // rounds to nearest even
  HEADWAY_API explicit operator float() const;
};

// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  HEADWAY_API explicit float16(float value);  // rounds to nearest even
  HEADWAY_API explicit operator float() const;
};

// Bytes of one element.
HEADWAY_API std::size_t item_size(DType dtype);

// "float32", "bfloat16", ...
HEADWAY_API std::string_view dtype_name(DType dtype);

// True for float32, float64, bfloat16 and float16.
HEADWAY_API bool is_floating(DType dtype);

namespace internal {
// The compile-time error for a type that is not an element type.
template <typename T>
struct NoElementType {
  static_assert(sizeof(T) == 0,
                "this type is not an element type of headway::Tensor: use float, double, headway::bfloat16, "
                "headway::float16, std::int8_t, std::int32_t, std::int64_t or bool");
  static constexpr DType value = DType::float32;
};
}  // namespace internal

// The DType of a C++ type: dtype_of<float> == DType::float32.
template <typename T>
inline constexpr DType dtype_of = internal::NoElementType<T>::value;
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<double> = DType::float64;
template <>
inline constexpr DType dtype_of<bfloat16> = DType::bfloat16;
template <>
inline constexpr DType dtype_of<float16> = DType::float16;
template <>
inline constexpr DType dtype_of<std::int8_t> = DType::int8;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::int32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::int64;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

}  // namespace v0
}  // namespace headway
