#include "generate/rotation_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace headway::inline v0::internal {

Tensor reserved_tensor(const Shape& shape, DType dtype, Device device, bool huge_pages) {
  if (!device.is_cpu()) return Tensor::empty(shape, dtype, device);
  std::int64_t count = 1;
  for (int i = 0; i < shape.rank(); ++i) count *= shape[i];
  const std::size_t bytes = static_cast<std::size_t>(count) * item_size(dtype);
  if (bytes == 0) return Tensor::empty(shape, dtype);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(memory != MAP_FAILED, "no address space for a cache of ", bytes, " bytes");
#if defined(MADV_HUGEPAGE)
  madvise(memory, bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
  static_cast<void>(huge_pages);
#endif
  return Tensor::wrap(memory, shape, dtype, [memory, bytes] { munmap(memory, bytes); });
}

RotationTable::RotationTable(const RotaryPositions& rotary, std::int64_t head_dim, std::int64_t capacity, Device device)
    : rotary_(rotary), head_dim_(head_dim) {
  rows_ = reserved_tensor({capacity, rotary.dims}, DType::float32, device, false);
  if (!device.is_cpu()) reserve(capacity);
}

bool RotationTable::depends_on_length() const {
  const RotaryScaling::Kind kind = rotary_.scaling.kind;
  return kind == RotaryScaling::Kind::dynamic || kind == RotaryScaling::Kind::longrope;
}

void RotationTable::reserve(std::int64_t count) {
  constexpr std::int64_t kAtOnce = 256;
  if (count <= filled_) return;
  const std::int64_t end = std::min(std::max(count, filled_ + kAtOnce), rows_.size(0));
  if (end <= filled_) return;
  const bool is_cpu = rows_.device().is_cpu();
  const Tensor target = is_cpu ? rows_ : Tensor::empty(rows_.shape());
  float* rows = target.data<float>() + filled_ * rotary_.dims;
  if (depends_on_length()) {
    for (std::int64_t p = filled_; p < end; ++p, rows += rotary_.dims) fill(p, p + 1, p + 1, rows);
  } else {
    fill(filled_, end, end, rows);
  }
  if (!is_cpu) rows_.copy_from(target);
  filled_ = end;
}

Tensor RotationTable::of_length(std::int64_t length) const {
  const Tensor table = Tensor::empty({length, rotary_.dims});
  fill(0, length, length, table.data<float>());
  return table.to(rows_.device());
}

void RotationTable::fill(std::int64_t first, std::int64_t end, std::int64_t length, float* rows) const {
  const RotaryFrequencies rotation = rotary_frequencies(rotary_, head_dim_, length);
  const auto half = static_cast<std::int64_t>(rotation.frequencies.size());
  for (std::int64_t p = first; p < end; ++p, rows += 2 * half) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * rotation.frequencies[static_cast<std::size_t>(i)];
      rows[i] = static_cast<float>(std::cos(angle) * rotation.factor);
      rows[half + i] = static_cast<float>(std::sin(angle) * rotation.factor);
    }
  }
}

}  // namespace headway::inline v0::internal
