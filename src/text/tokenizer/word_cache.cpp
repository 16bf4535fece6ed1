#include "text/tokenizer/word_cache.h"

#include <algorithm>
#include <functional>

namespace headway::inline v0::internal {

std::size_t WordCache::hash_of(std::string_view word) { return std::hash<std::string_view>()(word); }

std::span<const WordToken> WordCache::find(std::string_view word, std::size_t hash) const {
  if (entries_.empty()) return {};
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t slot = hash & mask; entries_[slot].length != 0; slot = (slot + 1) & mask) {
    const Entry& entry = entries_[slot];
    if (entry.hash == hash && std::string_view(keys_).substr(entry.key, entry.length) == word) {
      return std::span(tokens_).subspan(entry.tokens, entry.count);
    }
  }
  return {};
}

void WordCache::add(std::string_view word, std::size_t hash, std::span<const WordToken> tokens) {
  if (word.empty() || word.size() > kLongestWord || tokens.empty()) return;
  if (entries_.empty()) entries_.resize(2 * kMostWords);
  if (words_ >= kMostWords) {
    std::fill(entries_.begin(), entries_.end(), Entry());
    keys_.clear();
    tokens_.clear();
    words_ = 0;
  }
  const std::size_t mask = entries_.size() - 1;
  std::size_t slot = hash & mask;
  while (entries_[slot].length != 0) slot = (slot + 1) & mask;
  entries_[slot] = {hash, static_cast<std::uint32_t>(keys_.size()), static_cast<std::uint32_t>(tokens_.size()),
                    static_cast<std::uint16_t>(word.size()), static_cast<std::uint16_t>(tokens.size())};
  keys_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++words_;
}

}  // namespace headway::inline v0::internal
