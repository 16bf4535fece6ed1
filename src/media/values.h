// The numbers of an argument, wherever and in whichever dtype it is.
#pragma once

#include "base/check.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

// A tensor for a message, which may be undefined.
inline std::string described(const Tensor& tensor) { return tensor.defined() ? tensor.describe() : "undefined"; }

// The values as contiguous float32 on the CPU, without a gradient record.
inline Tensor plain_values(const Tensor& tensor) {
  return tensor.detach().to(Device::cpu()).to(DType::float32).contiguous();
}

}  // namespace headway::inline v0::internal
