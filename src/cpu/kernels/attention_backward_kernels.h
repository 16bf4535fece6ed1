// What joins the two translation units of one instruction set's kernels.
#pragma once

#include "cpu/kernels/attention.h"
#include "cpu/kernels/product-inl.h"
#include "cpu/kernels/target-inl.h"

namespace headway::inline v0::internal::HWY_NAMESPACE {

// Adds the backward's entry points for the arithmetic that the first argument names.
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
void add_backward(Bf16Pair, AttentionKernels& kernels);
#else
void add_backward(float, AttentionKernels& kernels);
void add_backward(double, AttentionKernels& kernels);
#endif

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
