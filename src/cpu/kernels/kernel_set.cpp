// All kernels of one instruction set.
#include "cpu/kernels/kernel_parts.h"

namespace headway::inline v0::internal::HWY_NAMESPACE {

KernelSet kernel_set() {
  KernelSet set;
  add_attention(set);
  add_matmul(set);
  add_quantized(set);
#if !defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
  add_pointwise(set);
  add_rowwise(set);
  add_optimizer(set);
  add_decoding(set);
#endif
  return set;
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
