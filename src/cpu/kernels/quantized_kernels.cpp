// The kernels of products in 8 bits of one instruction set.
#include "cpu/kernels/target-inl.h"
// The target first: everything below depends on it.
#include "cpu/kernels/kernel_parts.h"
#include "cpu/kernels/quantized_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {
namespace {

std::int64_t row_bytes(std::int64_t depth) noexcept { return quantized_row_bytes(depth); }

std::int64_t panel_bytes(std::int64_t depth) noexcept { return quantized_panel_bytes(depth); }

void pack(const QuantizedPackTask& task) noexcept { pack_panel(task); }

void quantize_rows(const QuantizeRowsTask& task) noexcept {
  for (std::int64_t row = 0; row < task.rows; ++row) {
    auto* values = reinterpret_cast<DotStep::Input*>(task.values + row * quantized_row_bytes(task.depth));
    task.scales[row] = quantize_row(task.x + row * task.x_stride, task.x_stride, task.depth, values);
  }
}

void product(const QuantizedTask& task) noexcept { QuantizedRun(task).run(); }

}  // namespace

void add_quantized(KernelSet& set) {
  set.quantized = {kDotRows, kPanelColumns, row_bytes, panel_bytes, pack, quantize_rows, product};
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
