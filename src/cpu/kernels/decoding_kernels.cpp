// The kernels of decoding of one instruction set.
#include "cpu/kernels/target-inl.h"
// The target first: everything below depends on it.
#include "cpu/kernels/decoding-inl.h"
#include "cpu/kernels/kernel_parts.h"

#if !defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)  // these have no bf16 dot products
HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

namespace {

void token_attention(const TokenAttentionTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { TokenAttention<decltype(element)>(task).run(); });
}

void logit_row(const LogitRowTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { look_at_logits<decltype(element)>(task); });
}

}  // namespace

void add_decoding(KernelSet& set) { set.decoding = {token_attention, logit_row}; }

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
