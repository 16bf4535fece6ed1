// The matmul kernels of one instruction set.
#include "cpu/kernels/kernel_parts.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

void add_matmul(KernelSet&) {}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
