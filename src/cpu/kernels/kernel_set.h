// The kernels of every instruction set, by the namespaces that Highway gives them.
#pragma once

#include "cpu/kernels/attention.h"

namespace headway::inline v0::internal {

struct KernelSet {
  AttentionKernels float32;  // float16 too: converted on the way in and out
  AttentionKernels float64;
  AttentionKernels bfloat16;  // like float32, or with bf16 dot products
};

namespace N_SSE4 {
KernelSet kernel_set();
}
namespace N_AVX2 {
KernelSet kernel_set();
}
namespace N_AVX3 {
KernelSet kernel_set();
}
namespace N_AVX3_DL {
KernelSet kernel_set();  // bfloat16 alone
}
namespace N_NEON {
KernelSet kernel_set();
}

}  // namespace headway::inline v0::internal
