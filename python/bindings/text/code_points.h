// Byte offsets of UTF-8 as numbers of code points, by which Python counts characters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace headway::python {

class CodePoints {
 public:
  explicit CodePoints(std::string_view text) {
    before_.reserve(text.size() + 1);
    std::int64_t count = 0;
    for (const char byte : text) {
      before_.push_back(count);
      if ((static_cast<unsigned char>(byte) & 0xc0) != 0x80) ++count;
    }
    before_.push_back(count);
  }

  // The character that a byte is in.
  std::int64_t begin(std::int64_t byte) const {
    const std::size_t place = clamp(byte);
    const bool is_inside = place > 0 && place + 1 < before_.size() && before_[place] == before_[place + 1];
    return before_[place] - (is_inside ? 1 : 0);
  }
  // One past the character that the byte before `byte` is in.
  std::int64_t end(std::int64_t byte) const { return before_[clamp(byte)]; }

 private:
  std::size_t clamp(std::int64_t byte) const {
    return byte < 0 ? 0 : std::min(static_cast<std::size_t>(byte), before_.size() - 1);
  }

  std::vector<std::int64_t> before_;  // [bytes + 1]: characters that begin before a byte
};

}  // namespace headway::python
