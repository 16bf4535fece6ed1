// The optimizer kernels of one instruction set.
#include "cpu/kernels/target-inl.h"
// The target first: everything below depends on it.
#include "cpu/kernels/kernel_parts.h"
#include "cpu/kernels/optimizer-inl.h"

#if !defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)  // these have no bf16 dot products
HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

namespace {

void sgd(const SgdTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { sgd_step<decltype(element)>(task); });
}

void adam(const AdamTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { adam_step<decltype(element)>(task); });
}

double sum_of_squares(const SumOfSquaresTask& task) noexcept {
  double sum = 0;
  with_element(task.dtype, [&](auto element) HWY_ATTR {
    sum = sum_squares(static_cast<const decltype(element)*>(task.values), task.count);
  });
  return sum;
}

}  // namespace

void add_optimizer(KernelSet& set) { set.optimizer = {sgd, adam, sum_of_squares}; }

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
