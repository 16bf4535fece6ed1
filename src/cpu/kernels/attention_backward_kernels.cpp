// The backward kernels of one instruction set.
#include "cpu/kernels/target-inl.h"
// The target first: everything below depends on it.
#include "cpu/kernels/attention_backward-inl.h"
#include "cpu/kernels/attention_backward_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {
namespace {

template <typename E>
std::size_t backward_workspace(std::int64_t head_dim, std::int64_t value_dim) noexcept {
  return Backward<E>::workspace_bytes(head_dim, value_dim);
}

template <typename E>
void statistics(const RowStatisticsTask& task, std::byte* workspace) noexcept {
  row_statistics<RealOf<E>>(task, reinterpret_cast<RealOf<E>*>(workspace));
}

template <typename E>
std::size_t backward_packed_bytes(std::int64_t head_dim, std::int64_t value_dim) noexcept {
  return static_cast<std::size_t>(QueryTile<E>(nullptr, head_dim, value_dim).bytes);
}

template <typename E>
void backward_pack(const BackwardTile& tile, std::int64_t head_dim, std::int64_t value_dim, double scale) noexcept {
  QueryTile<E>(tile.packed, head_dim, value_dim).pack(tile, head_dim, value_dim, scale);
}

template <typename E>
void backward_begin(const BackwardBlock& block) noexcept {
  Backward<E>(block).begin();
}

template <typename E>
void backward_tile(const BackwardBlock& block, const BackwardTile& tile) noexcept {
  Backward<E>(block).tile(tile);
}

template <typename E>
void backward_query(const BackwardBlock& block, const BackwardTile& tile) noexcept {
  Backward<E>(block).query(tile);
}

template <typename E>
void backward_bias(const BackwardBlock& block, const BackwardTile& tile, const BiasGradient& gradient) noexcept {
  Backward<E>(block).bias(tile, gradient);
}

template <typename E>
void backward_end(const BackwardBlock& block, const Rows& d_key, const Rows& d_value) noexcept {
  Backward<E>(block).end(d_key, d_value);
}

template <typename E>
void add(AttentionKernels& kernels) {
  kernels.backward_queries = kBackwardQueries;
  kernels.backward_keys = kBackwardKeys;
  kernels.backward_workspace = backward_workspace<E>;
  kernels.row_statistics = statistics<E>;
  kernels.backward_packed_bytes = backward_packed_bytes<E>;
  kernels.backward_pack = backward_pack<E>;
  kernels.backward_begin = backward_begin<E>;
  kernels.backward_tile = backward_tile<E>;
  kernels.backward_query = backward_query<E>;
  kernels.backward_bias = backward_bias<E>;
  kernels.backward_end = backward_end<E>;
}

}  // namespace

#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
void add_backward(Bf16Pair, AttentionKernels& kernels) { add<Bf16Pair>(kernels); }
#else
void add_backward(float, AttentionKernels& kernels) { add<float>(kernels); }
void add_backward(double, AttentionKernels& kernels) { add<double>(kernels); }
#endif

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
