// Cosines and sines of rotary positions, and memory that grows without being copied.
#pragma once

#include <cstdint>

#include "headway/tensor.h"
#include "headway/transformer_block.h"

namespace headway::inline v0::internal {

// Memory of unspecified contents for the most that may ever be needed. On the CPU it is address space alone: the system
// adds pages where they are first written, so that what grows is neither copied nor paid for in advance. Few long
// entries get huge pages. On other devices it is allocated at once.
Tensor reserved_tensor(const Shape& shape, DType dtype, Device device, bool huge_pages);

// The table that CacheAppend::rotation reads. Its rows are filled as positions are reached.
class RotationTable {
 public:
  // For positions below `capacity`; rotary.dims is filled in.
  RotationTable(const RotaryPositions& rotary, std::int64_t head_dim, std::int64_t capacity, Device device);

  // Fills the rows of all positions below `count`.
  void reserve(std::int64_t count);
  // [capacity, dims] float32. Where frequencies depend on the length of the text, a row has those of a text that ends
  // with it.
  const Tensor& rows() const { return rows_; }

  // Whether frequencies depend on the length of the text.
  bool depends_on_length() const;
  // The same table for a text of `length` tokens: [length, dims].
  Tensor of_length(std::int64_t length) const;

 private:
  void fill(std::int64_t first, std::int64_t end, std::int64_t length, float* rows) const;

  RotaryPositions rotary_;
  std::int64_t head_dim_;
  std::int64_t filled_ = 0;
  Tensor rows_;  // [capacity, dims]
};

}  // namespace headway::inline v0::internal
