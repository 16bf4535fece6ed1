// The parts of one instruction set's kernels, each filled in by the source that is named after it.
#pragma once

#include "cpu/kernels/kernel_set.h"
#include "cpu/kernels/target-inl.h"

namespace headway::inline v0::internal::HWY_NAMESPACE {

void add_attention(KernelSet& set);
void add_matmul(KernelSet& set);
void add_pointwise(KernelSet& set);
void add_rowwise(KernelSet& set);
void add_optimizer(KernelSet& set);
void add_decoding(KernelSet& set);
void add_quantized(KernelSet& set);

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
