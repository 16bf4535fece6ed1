// Tokens beside the model's, which are found in a text before anything else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/split_text.h"
#include "text/tokenizer/token_model.h"

namespace headway::inline v0::internal {

class Json;

struct AddedToken {
  std::string content = {};
  std::string decoded = {};  // what decoders see: the normalised content where it is normalised
  bool single_word = false;  // only where no word goes on before or behind it
  bool strips_left = false;  // takes the spaces before it
  bool strips_right = false;
  bool normalized = true;  // found in the normalised text
  bool special = false;
};

class AddedTokens {
 public:
  // The array of a file, or null. A token that the model has keeps the model's id, others follow its last.
  void read(const Json* json, const TokenModel& model, const TextNormalizer* normalizer, const std::string& about);

  // Splits a text into added tokens and what is between them, which is normalised.
  void extract(std::string_view text, const TextNormalizer* normalizer, NormalizedText& spare, SplitText& split) const;

  const AddedToken* find(std::uint32_t id) const;
  // The id of a content, or -1.
  std::int64_t find(std::string_view content) const;
  bool is_special(std::string_view token) const { return specials_.contains(std::string(token)); }
  // One more than the largest id.
  std::uint32_t size() const { return size_; }

 private:
  // Those that are found in the same text.
  struct Finder {
    ByteTrie trie = {};
    bool starts[256] = {};  // bytes that a token begins with
    bool any = false;
  };
  struct Found {
    std::int32_t token;  // -1: what is between
    std::size_t begin, end;
  };

  void add(const Json& json, std::uint32_t& next, const TokenModel& model, const TextNormalizer* normalizer,
           const std::string& about);
  void build(Finder& finder, bool normalized) const;
  void find_all(std::string_view text, const Finder& finder, std::vector<Found>& found) const;
  // The longest token at `at`, or -1.
  static std::int32_t longest_at(std::string_view text, std::size_t at, const Finder& finder, std::size_t& end);

  std::unordered_map<std::uint32_t, AddedToken> tokens_;
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::unordered_set<std::string> specials_;
  Finder plain_, normalized_;
  std::uint32_t size_ = 0;
};

}  // namespace headway::inline v0::internal
