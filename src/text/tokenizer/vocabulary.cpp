#include "text/tokenizer/vocabulary.h"

#include <bit>
#include <functional>
#include <limits>

#include "base/check.h"

namespace headway::inline v0::internal {

void Vocabulary::reserve(std::size_t tokens, std::size_t bytes) {
  bytes_.reserve(bytes);
  places_.reserve(tokens);
  grow(std::bit_ceil(2 * tokens + 8));
}

std::size_t Vocabulary::slot_of(std::string_view token) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>()(token) & mask;
  while (slots_[slot] != 0 && this->token(slots_[slot] - 1) != token) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow(std::size_t slots) {
  std::vector<std::uint32_t> old(slots, 0);
  old.swap(slots_);
  for (const std::uint32_t one : old) {
    if (one != 0) slots_[slot_of(token(one - 1))] = one;
  }
}

void Vocabulary::add(std::string_view token, std::uint32_t id) {
  check(bytes_.size() + token.size() < std::numeric_limits<std::uint32_t>::max() / 2, "the vocabulary is too large");
  if (2 * (count_ + 1) > slots_.size()) grow(std::max<std::size_t>(16, 2 * slots_.size()));
  if (id >= places_.size()) places_.resize(std::size_t{id} + 1);
  Place& place = places_[id];
  place.begin = static_cast<std::uint32_t>(bytes_.size());
  place.length = static_cast<std::uint32_t>(token.size()) & 0x7FFFFFFF;
  place.used = 1;
  bytes_ += token;
  std::uint32_t& slot = slots_[slot_of(token)];
  if (slot == 0) ++count_;
  slot = id + 1;
}

std::int64_t Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return -1;
  return static_cast<std::int64_t>(slots_[slot_of(token)]) - 1;
}

std::string_view Vocabulary::token(std::uint32_t id) const {
  if (!has(id)) return {};
  return std::string_view(bytes_).substr(places_[id].begin, places_[id].length);
}

}  // namespace headway::inline v0::internal
