// The one place where a runtime dtype becomes a type.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "headway/dtype.h"

namespace headway::inline v0::internal {

// Calls the body with the element type of a floating dtype: dispatch_floating(dtype, [&]<typename T>() {...}).
template <typename Body>
decltype(auto) dispatch_floating(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::float32:
      return body.template operator()<float>();
    case DType::float64:
      return body.template operator()<double>();
    case DType::bfloat16:
      return body.template operator()<bfloat16>();
    case DType::float16:
      return body.template operator()<float16>();
    default:
      fail("expected a floating dtype, got ", dtype);
  }
}

// The same for all element types.
template <typename Body>
decltype(auto) dispatch_all(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::int32:
      return body.template operator()<std::int32_t>();
    case DType::int64:
      return body.template operator()<std::int64_t>();
    case DType::boolean:
      return body.template operator()<bool>();
    case DType::int8:
      return body.template operator()<std::int8_t>();
    case DType::float32:
    case DType::float64:
    case DType::bfloat16:
    case DType::float16:
      return dispatch_floating(dtype, body);
  }
  fail("there is no dtype numbered ", static_cast<int>(dtype));
}

}  // namespace headway::inline v0::internal
