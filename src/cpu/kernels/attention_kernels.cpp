// The forward kernels of one instruction set.
#include "cpu/kernels/target-inl.h"
// The target first: everything below depends on it.
#include "cpu/kernels/attention-inl.h"
#include "cpu/kernels/attention_backward_kernels.h"
#include "cpu/kernels/decode-inl.h"
#include "cpu/kernels/kernel_parts.h"
#include "cpu/kernels/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {
namespace {

template <typename E>
std::size_t packed_keys_bytes(std::int64_t key_count, std::int64_t dim) noexcept {
  return round_up(key_count, kTileColumns<E>) * element_count<E>(dim) * sizeof(E);
}

template <typename E>
std::int64_t packed_value_stride(std::int64_t dim) noexcept {
  return round_up(dim, kLanes<E>);
}

template <typename E>
std::size_t packed_values_bytes(std::int64_t key_count, std::int64_t dim) noexcept {
  return element_count<E>(key_count) * packed_value_stride<E>(dim) * sizeof(E);
}

template <typename E>
bool values_in_place(const Rows& values, std::int64_t dim) noexcept {
  if constexpr (std::is_same_v<E, Bf16Pair>) {
    return false;
  } else {
    return values.dtype == dtype_of<E> && values.stride == dim && dim % kLanes<E> == 0;
  }
}

template <typename E>
void pack_keys(const PackTask& task) noexcept {
  with_source<E>(task.source, [&](const auto* source) HWY_ATTR {
    pack_transposed<E>(source, task.source.stride, task.begin, task.end, task.dim,
                       static_cast<RealOf<E>>(task.factor * kLog2E), static_cast<E*>(task.packed));
  });
}

template <typename E>
void pack_values(const PackTask& task) noexcept {
  with_source<E>(task.source, [&](const auto* source) HWY_ATTR {
    pack_rows<E>(source, task.source.stride, task.begin, task.end, task.dim, packed_value_stride<E>(task.dim),
                 RealOf<E>(1), static_cast<E*>(task.packed));
  });
}

template <typename E>
std::size_t forward_workspace(std::int64_t head_dim, std::int64_t value_dim) noexcept {
  return std::max({Forward<E>::workspace_bytes(head_dim, value_dim), WeightsWriter<E>::workspace_bytes(head_dim),
                   Decode<E>::workspace_bytes(head_dim, value_dim)});
}

template <typename E>
void forward(const ForwardTask& task, std::byte* workspace) noexcept {
  Forward<E>(task, workspace).run();
}

template <typename E>
void weights(const WeightsTask& task, std::byte* workspace) noexcept {
  WeightsWriter<E>(task, workspace).run();
}

// One head and its non-padding keys, for results that are computed from weights that are not returned.
template <typename Task>
WeightsTask weights_of_head(const Task& task, WeightsKind kind) {
  return {.heads = &task.head,
          .head_count = 1,
          .query_begin = task.query_begin,
          .query_end = task.query_end,
          .key_length = task.head.rule->key_count,
          .head_dim = task.head_dim,
          .scale = task.scale,
          .kind = kind};
}

template <typename E>
void references(const ReferencesTask& task, std::byte* workspace) noexcept {
  const WeightsTask weights = weights_of_head(task, WeightsKind::base2);
  const RowReferences& rows = task.head.references;
  WeightsWriter<E>(weights, workspace)
      .references(static_cast<RealOf<E>*>(rows.reference), static_cast<RealOf<E>*>(rows.rest),
                  task.has_sink ? task.sink * kLog2E : kMasked<double>);
}

template <typename E>
void weights_dot(const WeightsDotTask& task, std::byte* workspace) noexcept {
  const WeightsTask weights = weights_of_head(task, WeightsKind::softmax);
  WeightsWriter<E>(weights, workspace)
      .dot(task.d_weights, static_cast<RealOf<E>>(task.factor), static_cast<RealOf<E>*>(task.delta));
}

template <typename E>
void decode(const DecodeTask& task, std::byte* workspace) noexcept {
  Decode<E>(task, workspace).run();
}

template <typename E>
void combine(const CombineTask& task, std::byte* workspace) noexcept {
  combine_parts<RealOf<E>>(task, reinterpret_cast<RealOf<E>*>(workspace));
}

template <typename E>
AttentionKernels make_kernels() {
  AttentionKernels kernels;
  kernels.tile_columns = kTileColumns<E>;
  kernels.real_bytes = sizeof(RealOf<E>);
  kernels.packed_keys_bytes = packed_keys_bytes<E>;
  kernels.packed_values_bytes = packed_values_bytes<E>;
  kernels.packed_value_stride = packed_value_stride<E>;
  kernels.values_in_place = values_in_place<E>;
  kernels.pack_keys = pack_keys<E>;
  kernels.pack_values = pack_values<E>;
  kernels.forward_workspace = forward_workspace<E>;
  kernels.forward = forward<E>;
  kernels.weights = weights<E>;
  kernels.references = references<E>;
  kernels.weights_dot = weights_dot<E>;
  kernels.decode = decode<E>;
  kernels.combine = combine<E>;
  add_backward(E(), kernels);
  return kernels;
}

}  // namespace

void add_attention(KernelSet& set) {
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
  set.bfloat16.attention = make_kernels<Bf16Pair>();
#else
  set.float32.attention = make_kernels<float>();
  set.float64.attention = make_kernels<double>();
  set.bfloat16.attention = set.float32.attention;
#endif
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
