// The matmul kernels of one instruction set.
#include "cpu/kernels/target-inl.h"
// The target first: everything below depends on it.
#include "cpu/kernels/kernel_parts.h"
#include "cpu/kernels/matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {
namespace {

template <typename E>
bool reads_in_place(const MatrixView& a, std::int64_t depth) noexcept {
  return MatmulRun<E>::reads_in_place(a, depth);
}

template <typename E>
std::int64_t panel_elements(std::int64_t depth) noexcept {
  return panel_stride<E, kTileColumns<E>>(element_count<E>(depth));
}

template <typename E>
void pack(const MatmulPackTask& task) noexcept {
  pack_columns<E>(task.source, task.depth, task.columns, {static_cast<E*>(task.packed), task.panel_stride});
}

template <typename E>
std::size_t workspace(const MatmulTask& task) noexcept {
  return MatmulRun<E>::workspace_bytes(task);
}

template <typename E>
void product(const MatmulTask& task, std::byte* memory) noexcept {
  MatmulRun<E>(task, memory).run();
}

template <typename E>
MatmulKernels make_kernels() {
  MatmulKernels kernels;
  kernels.tile_rows = kTileRows;
  kernels.tile_columns = kTileColumns<E>;
  kernels.strip_rows = kStripRows<E>;
  kernels.values = Arithmetic<E>::kValues;
  kernels.element_bytes = sizeof(E);
  kernels.real_bytes = sizeof(RealOf<E>);
  kernels.reads_in_place = reads_in_place<E>;
  kernels.panel_elements = panel_elements<E>;
  kernels.pack = pack<E>;
  kernels.workspace = workspace<E>;
  kernels.product = product<E>;
  return kernels;
}

}  // namespace

void add_matmul(KernelSet& set) {
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
  set.bfloat16.matmul = make_kernels<Bf16Pair>();
#else
  set.float32.matmul = make_kernels<float>();
  set.float64.matmul = make_kernels<double>();
  set.bfloat16.matmul = set.float32.matmul;
#endif
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
