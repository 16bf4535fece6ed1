// Tokens of words that were seen before.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

// A token of a word.
struct WordToken {
  std::uint32_t id;
  std::uint32_t begin, end;  // bytes of the word
};

class WordCache {
 public:
  static constexpr std::size_t kLongestWord = 128;

  static std::size_t hash_of(std::string_view word);
  // The tokens of a word, or nothing; valid until the next add().
  std::span<const WordToken> find(std::string_view word, std::size_t hash) const;
  // Remembers the tokens of a word of at most kLongestWord bytes; when it is full it first forgets all.
  void add(std::string_view word, std::size_t hash, std::span<const WordToken> tokens);

 private:
  static constexpr std::size_t kMostWords = std::size_t{1} << 15;
  struct Entry {
    std::size_t hash = 0;
    std::uint32_t key = 0;     // where it begins in keys_
    std::uint32_t tokens = 0;  // where they begin in tokens_
    std::uint16_t length = 0;  // of the key; 0: empty
    std::uint16_t count = 0;   // of tokens
  };

  std::vector<Entry> entries_;  // 2 * kMostWords, made at the first add()
  std::string keys_;
  std::vector<WordToken> tokens_;
  std::size_t words_ = 0;
};

}  // namespace headway::inline v0::internal
