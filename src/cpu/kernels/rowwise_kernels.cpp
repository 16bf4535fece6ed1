// The rowwise kernels of one instruction set.
#include "cpu/kernels/target-inl.h"
// The target first: everything below depends on it.
#include "cpu/kernels/cross_entropy-inl.h"
#include "cpu/kernels/embedding-inl.h"
#include "cpu/kernels/kernel_parts.h"
#include "cpu/kernels/norm-inl.h"
#include "cpu/kernels/softmax-inl.h"

#if !defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)  // these have no bf16 dot products
HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

namespace {

void norm(const NormTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR {
    using T = decltype(element);
    task.mean ? norm_rows<T, true>(task) : norm_rows<T, false>(task);
  });
}

void norm_backward(const NormBackwardTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR {
    using T = decltype(element);
    task.mean ? NormBackward<T, true>(task).run() : NormBackward<T, false>(task).run();
  });
}

void join(const JoinTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { join_parts<decltype(element)>(task); });
}

void softmax(const SoftmaxTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { softmax_rows<decltype(element)>(task); });
}

void softmax_backward(const SoftmaxBackwardTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { softmax_backward_rows<decltype(element)>(task); });
}

void cross_entropy(const CrossEntropyTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { cross_entropy_rows<decltype(element)>(task); });
}

void cross_entropy_backward(const CrossEntropyBackwardTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { cross_entropy_backward_rows<decltype(element)>(task); });
}

void embedding_backward(const EmbeddingBackwardTask& task) noexcept {
  with_element(task.dtype, [&](auto element) HWY_ATTR { embedding_backward_rows<decltype(element)>(task); });
}

}  // namespace

void add_rowwise(KernelSet& set) {
  set.rowwise = {
      norm, norm_backward, join, softmax, softmax_backward, cross_entropy, cross_entropy_backward, embedding_backward};
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
