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

void weight_rows(const WeightRowsTask& task) noexcept {
  task.dtype == DType::bfloat16 ? multiply_weight_rows<bfloat16>(task) : multiply_weight_rows<float16>(task);
}

void head_row(const HeadRowTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR {
    using T = decltype(element);
    for (std::int64_t i = 0; i < task.heads * task.head_dim; i += task.head_dim) {
      head_of_row(task, reinterpret_cast<const T*>(task.source) + i, reinterpret_cast<T*>(task.target) + i);
    }
  });
}

void power_row(const PowerRowTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { powers_of_row<decltype(element)>(task); });
}

void logit_row(const LogitRowTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { look_at_logits<decltype(element)>(task); });
}

}  // namespace

void add_decoding(KernelSet& set) { set.decoding = {token_attention, weight_rows, head_row, power_row, logit_row}; }

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
