// Checks that operations share.
#pragma once

#include "base/check.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

// Throws unless b, where it is defined, is on a's device.
inline void check_same_device(const char* function, const char* name_a, const Tensor& a, const char* name_b,
                              const Tensor& b) {
  check(!b.defined() || a.device() == b.device(), function, ": ", name_a, " is on ", a.device(), " and ", name_b,
        " on ", b.defined() ? b.device() : a.device(), ", expected one device");
}

}  // namespace headway::inline v0::internal
