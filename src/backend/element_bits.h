// Elements as integers of their size, for operations that only move them.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/convert.h"
#include "core/dispatch.h"
#include "headway/dtype.h"

namespace headway::inline v0::internal {

// Calls the body with the integer type of an element's size: dispatch_size(dtype, [&]<typename Bits>() {...}).
template <typename Body>
void dispatch_size(DType dtype, const Body& body) {
  switch (item_size(dtype)) {
    case 1:
      return body.template operator()<std::uint8_t>();
    case 2:
      return body.template operator()<std::uint16_t>();
    case 4:
      return body.template operator()<std::uint32_t>();
    default:
      return body.template operator()<std::uint64_t>();
  }
}

// A number as an element of a dtype whose size is that of Bits.
template <typename Bits>
Bits bits_of(double number, DType dtype) {
  Bits bits = 0;
  dispatch_all(dtype, [&]<typename T>() {
    const T element = convert<T>(number);
    if constexpr (sizeof(T) == sizeof(Bits)) std::memcpy(&bits, &element, sizeof(T));
  });
  return bits;
}

}  // namespace headway::inline v0::internal
