// Which instruction set the kernels run on.
#pragma once

#include "cpu/kernels/attention.h"

namespace headway::inline v0::internal::cpu {

// The kernels for tensors of a floating dtype on the instruction set in use.
const AttentionKernels& attention_kernels(DType dtype);

}  // namespace headway::inline v0::internal::cpu
