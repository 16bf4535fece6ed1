// How fine each floating dtype is.
#pragma once

#include "headway/dtype.h"

namespace headway_test {

// The distance from 1 to the next number.
inline double epsilon_of(headway::DType dtype) {
  switch (dtype) {
    case headway::DType::bfloat16:
      return 0x1p-7;
    case headway::DType::float16:
      return 0x1p-10;
    case headway::DType::float64:
      return 0x1p-52;
    default:
      return 0x1p-23;
  }
}

inline bool is_sixteen_bit(headway::DType dtype) {
  return dtype == headway::DType::bfloat16 || dtype == headway::DType::float16;
}

}  // namespace headway_test
