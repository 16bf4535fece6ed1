// Unigram: the pieces whose scores have the largest sum.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

constexpr double kUnknownPenalty = 10.0;

class UnigramModel : public TokenModel {
 public:
  UnigramModel(const Json& json, const std::string& about) {
    const std::vector<Json>& pieces = array_field(json, "vocab", about);
    check(static_cast<std::int64_t>(pieces.size()) <= kMostTokens, about, ": has ", pieces.size(),
          " pieces, expected at most ", kMostTokens);
    byte_fallback_ = flag_field(json, "byte_fallback", about, false);
    const std::int64_t unknown = count_field(json, "unk_id", about, -1);
    check(unknown < static_cast<std::int64_t>(pieces.size()), about, ": unk_id is ", unknown, ", expected less than ",
          pieces.size());
    unknown_id_ = static_cast<std::int32_t>(unknown);
    double lowest = std::numeric_limits<double>::infinity();
    scores_.reserve(pieces.size());
    vocabulary_.reserve(pieces.size(), pieces.size() * 8);
    for (const Json& piece : pieces) {
      const bool pair =
          piece.is_array() && piece.items().size() == 2 && piece.items()[0].is_string() && piece.items()[1].is_number();
      check(pair, about, ": piece ", scores_.size(), " is ", piece.kind_name(), ", expected a text and a score");
      const double score = piece.items()[1].number();
      check(std::isfinite(score), about, ": the score of piece ", scores_.size(), " is not finite");
      vocabulary_.add(piece.items()[0].string(), static_cast<std::uint32_t>(scores_.size()));
      scores_.push_back(score);
      lowest = std::min(lowest, score);
    }
    unknown_score_ = lowest - kUnknownPenalty;
    bytes_ = byte_tokens(vocabulary_);
    std::vector<ByteTrie::Key> keys;
    keys.reserve(scores_.size());
    for (std::uint32_t id = 0; id < vocabulary_.size(); ++id) {
      keys.push_back({vocabulary_.token(id), static_cast<std::int32_t>(id)});
    }
    trie_ = ByteTrie(std::move(keys));
  }

  bool shows_word() const override { return true; }

  void tokenize(std::string_view word, ModelSpare& spare, std::vector<WordToken>& tokens) const override {
    const bool cached = word.size() <= WordCache::kLongestWord;
    const std::size_t hash = cached ? WordCache::hash_of(word) : 0;
    if (cached) {
      if (const auto found = spare.cache.find(word, hash); !found.empty()) {
        tokens.insert(tokens.end(), found.begin(), found.end());
        return;
      }
    }
    find_best_path(word, spare);
    const std::size_t before = tokens.size();
    append_path(word, spare, tokens);
    if (cached) spare.cache.add(word, hash, std::span(tokens).subspan(before));
  }

 private:
  void find_best_path(std::string_view word, ModelSpare& spare) const {
    auto& path = spare.path;  // [word.size() + 1], by the bytes where pieces end
    path.assign(word.size() + 1, {0.0, -1, 0});
    const auto offer = [&](std::size_t begin, std::size_t end, std::int32_t id, double score) {
      ModelSpare::PathNode& node = path[end];
      const double sum = score + path[begin].score;
      if (node.id < 0 || sum > node.score) node = {sum, id, static_cast<std::uint32_t>(begin)};
    };
    for (std::size_t begin = 0; begin < word.size();) {
      const std::size_t next = begin + static_cast<std::size_t>(character_length(word[begin]));
      bool has_character = false;
      std::uint32_t node = ByteTrie::kRoot;
      for (std::size_t at = begin; at < word.size() && trie_.step(node, word[at]); ++at) {
        const std::int32_t id = trie_.value(node);
        if (id < 0) continue;
        offer(begin, at + 1, id, scores_[static_cast<std::size_t>(id)]);
        has_character = has_character || at + 1 == next;
      }
      if (!has_character) {
        check(unknown_id_ >= 0, "Unigram: a character is not in the vocabulary, and there is no unk_id");
        offer(begin, next, unknown_id_, unknown_score_);
      }
      begin = next;
    }
  }

  // From the end of the path to its begin; neighbouring unknown characters are one token.
  void append_path(std::string_view word, ModelSpare& spare, std::vector<WordToken>& tokens) const {
    spare.tokens.clear();
    for (std::size_t end = word.size(); end > 0;) {
      const ModelSpare::PathNode& node = spare.path[end];
      const bool unknown = node.id == unknown_id_;
      if (unknown && !spare.tokens.empty() && spare.tokens.back().id == kUnknownMark) {
        spare.tokens.back().begin = node.begin;
      } else {
        spare.tokens.push_back({unknown ? kUnknownMark : static_cast<std::uint32_t>(node.id), node.begin,
                                static_cast<std::uint32_t>(end)});
      }
      end = node.begin;
    }
    for (auto token = spare.tokens.rbegin(); token != spare.tokens.rend(); ++token) {
      if (token->id != kUnknownMark) {
        tokens.push_back(*token);
      } else {
        append_unknown(word.substr(token->begin, token->end - token->begin), *token, tokens);
      }
    }
  }

  void append_unknown(std::string_view text, WordToken token, std::vector<WordToken>& tokens) const {
    if (const std::int64_t id = vocabulary_.find(text); id >= 0) {
      tokens.push_back({static_cast<std::uint32_t>(id), token.begin, token.end});
      return;
    }
    const auto is_token = [this](char c) { return bytes_[static_cast<unsigned char>(c)] >= 0; };
    if (byte_fallback_ && std::all_of(text.begin(), text.end(), is_token)) {
      for (const char c : text) {
        tokens.push_back({static_cast<std::uint32_t>(bytes_[static_cast<unsigned char>(c)]), token.begin, token.end});
      }
      return;
    }
    tokens.push_back({static_cast<std::uint32_t>(unknown_id_), token.begin, token.end});
  }

  static constexpr std::uint32_t kUnknownMark = 0xFFFFFFFF;

  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  std::int32_t unknown_id_ = -1;
  bool byte_fallback_ = false;
  std::vector<std::int32_t> bytes_;  // [256] ids of <0x00> .. <0xFF>
  ByteTrie trie_;
};

}  // namespace

std::unique_ptr<TokenModel> read_unigram(const Json& json, const std::string& about) {
  return std::make_unique<UnigramModel>(json, about);
}

}  // namespace headway::inline v0::internal
