#include "text/tokenizer/byte_trie.h"

#include <algorithm>

#include "base/check.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::size_t kMostProbes = 4096;

}  // namespace

std::uint32_t ByteTrie::find_base(const std::vector<unsigned char>& children) {
  const auto is_free = [this](std::size_t unit) { return unit >= units_.size() || units_[unit].parent == kNone; };
  std::size_t at = std::max<std::size_t>(first_free_, children[0] + std::size_t{1});
  std::size_t seen = 0, taken = 0;
  for (bool first = true;; ++at) {
    // A node that fits nowhere gives up the units before, so that a vocabulary made for it takes no quadratic time.
    if (++seen % kMostProbes == 0) first_free_ = static_cast<std::uint32_t>(std::max<std::size_t>(first_free_, at));
    if (!is_free(at)) {
      ++taken;
      continue;
    }
    if (first) {
      if (at > first_free_ && children[0] + std::size_t{1} <= first_free_) first_free_ = static_cast<std::uint32_t>(at);
      first = false;
    }
    const std::size_t base = at - children[0];
    if (!std::all_of(children.begin(), children.end(), [&](unsigned char c) { return is_free(base + c); })) continue;
    // Where nearly all units are taken, later searches begin here.
    if (20 * taken >= 19 * seen) first_free_ = static_cast<std::uint32_t>(at);
    check(base < kNone - 1024, "the trie of the vocabulary is too large");
    return static_cast<std::uint32_t>(base);
  }
}

ByteTrie::ByteTrie(std::vector<Key> keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.bytes < b.bytes; });
  struct Range {
    std::uint32_t node;
    std::size_t begin, end;  // keys
    std::size_t depth;
  };
  std::vector<Range> open;
  units_.resize(257);
  units_[kRoot].parent = kNone - 1;  // taken, and nobody's child
  open.push_back({kRoot, 0, keys.size(), 0});
  std::vector<unsigned char> children;
  std::vector<std::size_t> begins;
  while (!open.empty()) {
    const Range range = open.back();
    open.pop_back();
    std::size_t at = range.begin;
    for (; at < range.end && keys[at].bytes.size() == range.depth; ++at) {
      if (range.depth > 0) units_[range.node].value = keys[at].value;
    }
    children.clear();
    begins.clear();
    for (; at < range.end; ++at) {
      const auto byte = static_cast<unsigned char>(keys[at].bytes[range.depth]);
      if (!children.empty() && children.back() == byte) continue;
      children.push_back(byte);
      begins.push_back(at);
    }
    if (children.empty()) continue;
    const std::uint32_t base = find_base(children);
    if (std::size_t{base} + 513 > units_.size()) units_.resize(std::max(units_.size() * 2, std::size_t{base} + 513));
    units_[range.node].base = base;
    begins.push_back(range.end);
    for (std::size_t n = 0; n < children.size(); ++n) units_[base + children[n]].parent = range.node;
    for (std::size_t n = children.size(); n-- > 0;) {
      open.push_back({base + children[n], begins[n], begins[n + 1], range.depth + 1});
    }
  }
}

}  // namespace headway::inline v0::internal
