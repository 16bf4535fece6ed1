#include "base/npy.h"

#include <bit>

namespace headway::inline v0::internal {

std::string npy_header(const std::vector<std::int64_t>& shape) {
  static_assert(std::endian::native == std::endian::little);
  std::string sizes;
  for (const std::int64_t size : shape) sizes += std::to_string(size) + ",";
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + sizes + "), }";
  // Version 1.0: a magic string, the version, the length of the text in 16 bits. The numbers begin at a multiple of 64.
  constexpr std::size_t kBefore = 10, kAlignment = 64;
  text.append(kAlignment - (kBefore + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace headway::inline v0::internal
