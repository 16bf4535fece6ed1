// Elementwise work cut into chunks of a fixed size. Nothing depends on the number of threads but who does which chunk.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/divide.h"
#include "core/thread_pool.h"
#include "headway/dtype.h"

namespace headway::inline v0::internal::cpu {

inline constexpr std::int64_t kElementChunk = 1 << 14;  // elements of a task
inline constexpr std::int64_t kOneTask =
    2 * kElementChunk;  // up to here waking another thread costs more than it brings

// Calls body(begin, count) for all chunks of `total` items of `weight` elements each.
template <typename Body>
void for_chunks(std::int64_t total, std::int64_t weight, const Body& body) {
  if (total == 0) return;
  if (total * weight <= kOneTask) return body(std::int64_t{0}, total);
  const std::int64_t items = std::max<std::int64_t>(1, kElementChunk / weight);
  parallel_for(divide_up(total, items),
               [&](std::int64_t chunk, int) { body(chunk * items, std::min(items, total - chunk * items)); });
}

// A pointer `count` elements further on; null stays null.
template <typename Byte>
Byte* skip(Byte* data, std::int64_t count, DType dtype) {
  return data == nullptr ? nullptr : data + count * static_cast<std::int64_t>(item_size(dtype));
}

}  // namespace headway::inline v0::internal::cpu
