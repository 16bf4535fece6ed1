// A trie of byte strings as a double array: one step is two loads.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace headway::inline v0::internal {

class ByteTrie {
 public:
  struct Key {
    std::string_view bytes;
    std::int32_t value;  // from 0
  };
  static constexpr std::uint32_t kRoot = 0;

  ByteTrie() = default;
  // Of keys in any order; of equal ones the last counts. Empty keys are left out.
  explicit ByteTrie(std::vector<Key> keys);

  bool empty() const { return units_.empty(); }
  // Goes to the child of `node` by a byte; false where there is none.
  bool step(std::uint32_t& node, char byte) const {
    const std::uint32_t child = units_[node].base + static_cast<unsigned char>(byte);
    if (units_[child].parent != node) return false;
    node = child;
    return true;
  }
  // The value of the key that ends here, or -1.
  std::int32_t value(std::uint32_t node) const { return units_[node].value; }

 private:
  struct Unit {
    std::uint32_t base = 0;
    std::uint32_t parent = kNone;
    std::int32_t value = -1;
  };
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  // A place where all these children are free.
  std::uint32_t find_base(const std::vector<unsigned char>& children);

  std::vector<Unit> units_;  // 256 more than are used, so that no step leaves it
  std::uint32_t first_free_ = 1;
};

}  // namespace headway::inline v0::internal
