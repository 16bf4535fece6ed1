// Byte-pair encoding: characters that merge by rank.
#include <algorithm>
#include <bit>
#include <unordered_set>

#include "base/check.h"
#include "base/push_copy.h"
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

// What a pair of tokens merges to.
struct MergeRule {
  std::uint64_t pair = ~std::uint64_t{0};  // first << 32 | second; all ones: empty
  std::uint32_t rank = 0;
  std::uint32_t id = 0;
};

class MergeTable {
 public:
  static std::uint64_t pair_of(std::uint32_t first, std::uint32_t second) {
    return std::uint64_t{first} << 32 | second;
  }

  void reserve(std::size_t rules) {
    rules_.assign(std::bit_ceil(2 * rules + 8), {});
    shift_ = 64 - std::countr_zero(rules_.size());
  }
  void set(std::uint64_t pair, std::uint32_t rank, std::uint32_t id) { rules_[slot_of(pair)] = {pair, rank, id}; }
  const MergeRule* find(std::uint32_t first, std::uint32_t second) const {
    const std::uint64_t pair = pair_of(first, second);
    const MergeRule& rule = rules_[slot_of(pair)];
    return rule.pair == pair ? &rule : nullptr;
  }

 private:
  std::size_t slot_of(std::uint64_t pair) const {
    std::size_t slot = pair * 0x9E3779B97F4A7C15u >> shift_;
    while (rules_[slot].pair != pair && rules_[slot].pair != ~std::uint64_t{0}) slot = (slot + 1) & (rules_.size() - 1);
    return slot;
  }

  std::vector<MergeRule> rules_;  // a power of two, at most half full
  int shift_ = 0;
};

constexpr std::uint32_t kNoRank = 0xFFFFFFFF;
constexpr char32_t kSpaceMark = 0x2581;
constexpr std::string_view kSpaceMarkBytes = "\xE2\x96\x81";

class BpeModel : public TokenModel {
 public:
  BpeModel(const Json& json, const std::string& about) {
    const Json* dropout = field_of(json, "dropout");
    check(dropout == nullptr || (dropout->is_number() && dropout->number() == 0), about, ": dropout is ",
          dropout ? shortened(dropout->text(), 50) : "", ", expected null: tokens are never random");
    unknown_ = string_field(json, "unk_token", about, "");
    prefix_ = string_field(json, "continuing_subword_prefix", about, "");
    suffix_ = string_field(json, "end_of_word_suffix", about, "");
    fuses_unknown_ = flag_field(json, "fuse_unk", about, false);
    byte_fallback_ = flag_field(json, "byte_fallback", about, false);
    whole_words_ = flag_field(json, "ignore_merges", about, false);
    const Json* vocabulary = field_of(json, "vocab");
    check(vocabulary != nullptr, about, ": has no \"vocab\"");
    read_vocabulary(*vocabulary, vocabulary_, about);
    has_unknown_ = field_of(json, "unk_token") != nullptr;
    unknown_id_ = has_unknown_ ? vocabulary_.find(unknown_) : -1;
    bytes_ = byte_tokens(vocabulary_);
    has_bytes_ = std::all_of(bytes_.begin(), bytes_.end(), [](std::int32_t id) { return id >= 0; });
    read_merges(array_field(json, "merges", about), about);
    find_cuts();
    character_ids_.resize(0x400);
    for (char32_t c = 0; c < character_ids_.size(); ++c) {
      std::string text;
      append_utf8(text, c);
      character_ids_[c] = static_cast<std::int32_t>(vocabulary_.find(text));
    }
  }

  void tokenize(std::string_view word, ModelSpare& spare, std::vector<WordToken>& tokens) const override {
    if (whole_words_) {
      if (const std::int64_t id = vocabulary_.find(word); id >= 0) {
        push_copy(tokens, {static_cast<std::uint32_t>(id), 0, static_cast<std::uint32_t>(word.size())});
        return;
      }
    }
    if (!cuts_at_marks_) return tokenize_part(word, 0, spare, tokens);
    std::size_t begin = 0;
    for (std::size_t at = 0; (at = word.find(kSpaceMarkBytes, at)) != std::string_view::npos;
         at += kSpaceMarkBytes.size()) {
      if (at == begin || !cuts_before_mark(word, at)) continue;
      tokenize_part(word.substr(begin, at - begin), begin, spare, tokens);
      begin = at;
    }
    tokenize_part(word.substr(begin), begin, spare, tokens);
  }

 private:
  void read_merges(const std::vector<Json>& merges, const std::string& about) {
    merges_.reserve(merges.size());
    std::uint32_t rank = 0;
    for (const Json& merge : merges) {
      std::string_view first, second;
      if (merge.is_string()) {
        const std::string_view text = merge.string();
        if (text.starts_with("#version")) continue;
        const std::size_t space = text.find(' ');
        check(space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos, about, ": merge ",
              rank, " is \"", shortened(text, 50), "\", expected two tokens");
        first = text.substr(0, space);
        second = text.substr(space + 1);
      } else {
        const bool pair = merge.is_array() && merge.items().size() == 2 && merge.items()[0].is_string() &&
                          merge.items()[1].is_string();
        check(pair, about, ": merge ", rank, " is ", merge.kind_name(), ", expected two tokens");
        first = merge.items()[0].string();
        second = merge.items()[1].string();
      }
      add_merge(first, second, rank++, about);
    }
  }

  void add_merge(std::string_view first, std::string_view second, std::uint32_t rank, const std::string& about) {
    const std::int64_t a = vocabulary_.find(first), b = vocabulary_.find(second);
    for (const auto& [token, id] : {std::pair(first, a), std::pair(second, b)}) {
      check(id >= 0, about, ": \"", shortened(token, 50), "\" of merge ", rank, " is not in the vocabulary");
    }
    check(second.size() >= prefix_.size(), about, ": \"", shortened(second, 50), "\" of merge ", rank,
          " is shorter than continuing_subword_prefix");
    const std::string both = std::string(first) + std::string(second.substr(prefix_.size()));
    const std::int64_t id = vocabulary_.find(both);
    check(id >= 0, about, ": \"", shortened(both, 50), "\" of merge ", rank, " is not in the vocabulary");
    merges_.set(MergeTable::pair_of(static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)), rank,
                static_cast<std::uint32_t>(id));
    for (std::size_t at = 1; (at = both.find(kSpaceMarkBytes, at)) != std::string::npos; ++at) {
      marked_after_.insert(character_before(both, at));
    }
  }

  static char32_t character_before(std::string_view text, std::size_t at) {
    do --at;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    return character_at(text.data() + at);
  }

  // A text without words, as Llama's, is cut before the marks of spaces where no token reaches across: the parts are
  // independent, and the cache knows most of them.
  void find_cuts() {
    const bool plain = prefix_.empty() && suffix_.empty() && vocabulary_.find(kSpaceMarkBytes) >= 0;
    const bool keeps_all = unknown_id_ >= 0 || (byte_fallback_ && has_bytes_);
    cuts_at_marks_ = plain && keeps_all;
  }
  bool cuts_before_mark(std::string_view word, std::size_t at) const {
    const char32_t before = character_before(word, at);
    return before != kSpaceMark && !marked_after_.contains(before);
  }

  void tokenize_part(std::string_view word, std::size_t shift, ModelSpare& spare,
                     std::vector<WordToken>& tokens) const {
    const bool cached = word.size() <= WordCache::kLongestWord;
    const std::size_t hash = cached ? WordCache::hash_of(word) : 0;
    const auto append = [&](std::span<const WordToken> found) {
      const auto move = static_cast<std::uint32_t>(shift);
      for (const WordToken& token : found) push_copy(tokens, {token.id, token.begin + move, token.end + move});
    };
    if (cached) {
      if (const auto found = spare.cache.find(word, hash); !found.empty()) return append(found);
    }
    find_symbols(word, spare);
    constexpr std::size_t kFewSymbols = 40;
    if (spare.symbols.size() <= kFewSymbols) {
      merge_few(spare);
    } else {
      merge_many(spare);
    }
    spare.tokens.clear();
    std::uint32_t at = 0;
    for (const ModelSpare::Symbol& symbol : spare.symbols) {
      if (symbol.length == 0) continue;
      push_copy(spare.tokens, {symbol.id, at, at + symbol.length});
      at += symbol.length;
    }
    append(spare.tokens);
    if (cached) spare.cache.add(word, hash, spare.tokens);
  }

  std::int64_t character_id(std::string_view text, bool first, bool last, ModelSpare& spare) const {
    if ((first || prefix_.empty()) && (!last || suffix_.empty())) {
      spare.key.assign(text);
      const char32_t c = character_at(text.data());
      return c < character_ids_.size() ? character_ids_[c] : vocabulary_.find(text);
    }
    spare.key.assign(first ? std::string_view() : prefix_);
    spare.key += text;
    if (last) spare.key += suffix_;
    return vocabulary_.find(spare.key);
  }

  void find_symbols(std::string_view word, ModelSpare& spare) const {
    spare.symbols.clear();
    const auto add = [&spare](std::int64_t id, std::size_t length) {
      const auto number = static_cast<std::int32_t>(spare.symbols.size());
      push_copy(spare.symbols,
                {static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(length), number - 1, number + 1});
    };
    std::size_t unknown = 0;  // bytes of the unknown token that is not added yet
    for_each_character(word, [&](char32_t, std::size_t begin, std::size_t end) {
      const std::size_t length = end - begin;
      const std::int64_t id = character_id(word.substr(begin, length), begin == 0, end == word.size(), spare);
      if (id >= 0) {
        if (unknown > 0) add(unknown_id_, std::exchange(unknown, 0));
        add(id, length);
        return;
      }
      const auto is_byte_token = [this](char c) { return bytes_[static_cast<unsigned char>(c)] >= 0; };
      if (byte_fallback_ && (has_bytes_ || std::all_of(spare.key.begin(), spare.key.end(), is_byte_token))) {
        for (const char c : spare.key) add(bytes_[static_cast<unsigned char>(c)], 1);
        return;
      }
      if (!has_unknown_) return;
      check(unknown_id_ >= 0, "BPE: unk_token \"", unknown_, "\" is not in the vocabulary");
      if (unknown > 0 && !fuses_unknown_) add(unknown_id_, std::exchange(unknown, 0));
      unknown += length;
    });
    if (unknown > 0) add(unknown_id_, unknown);
    if (!spare.symbols.empty()) spare.symbols.back().next = -1;
  }

  // Looks through all pairs for each merge, which is the fastest for a word.
  void merge_few(ModelSpare& spare) const {
    auto& symbols = spare.symbols;
    auto& ranks = spare.ranks;
    const auto rank_of = [&](std::size_t n) {
      if (n + 1 >= symbols.size()) return kNoRank;
      const MergeRule* rule = merges_.find(symbols[n].id, symbols[n + 1].id);
      return rule ? rule->rank : kNoRank;
    };
    ranks.resize(symbols.size());
    for (std::size_t n = 0; n < symbols.size(); ++n) ranks[n] = rank_of(n);
    while (symbols.size() > 1) {
      const auto best = std::min_element(ranks.begin(), ranks.end());
      if (*best == kNoRank) break;
      const auto at = static_cast<std::size_t>(best - ranks.begin());
      symbols[at].id = merges_.find(symbols[at].id, symbols[at + 1].id)->id;
      symbols[at].length += symbols[at + 1].length;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      ranks.erase(best + 1);
      ranks[at] = rank_of(at);
      if (at > 0) ranks[at - 1] = rank_of(at - 1);
    }
  }

  // The same with a heap, for texts that are one long word.
  void merge_many(ModelSpare& spare) const {
    auto& symbols = spare.symbols;
    auto& heap = spare.merges;
    const auto later = [](const ModelSpare::Merge& a, const ModelSpare::Merge& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
    };
    const auto push = [&](std::int32_t position) {
      if (position < 0) return;
      const ModelSpare::Symbol& symbol = symbols[static_cast<std::size_t>(position)];
      if (symbol.next < 0) return;
      const MergeRule* rule = merges_.find(symbol.id, symbols[static_cast<std::size_t>(symbol.next)].id);
      if (rule == nullptr) return;
      push_copy(heap, {rule->rank, rule->id, position});
      std::push_heap(heap.begin(), heap.end(), later);
    };
    heap.clear();
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(symbols.size()); ++n) push(n);
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), later);
      const ModelSpare::Merge merge = heap.back();
      heap.pop_back();
      ModelSpare::Symbol& left = symbols[static_cast<std::size_t>(merge.position)];
      if (left.length == 0 || left.next < 0) continue;
      ModelSpare::Symbol& right = symbols[static_cast<std::size_t>(left.next)];
      const MergeRule* rule = merges_.find(left.id, right.id);
      if (rule == nullptr || rule->id != merge.id) continue;  // one of the two has merged since
      left.id = merge.id;
      left.length += right.length;
      left.next = right.next;
      right.length = 0;
      if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = merge.position;
      push(left.previous);
      push(merge.position);
    }
  }

  std::string unknown_, prefix_, suffix_;
  bool has_unknown_ = false, fuses_unknown_ = false, byte_fallback_ = false, whole_words_ = false;
  bool has_bytes_ = false, cuts_at_marks_ = false;
  std::int64_t unknown_id_ = -1;
  std::vector<std::int32_t> bytes_;          // [256] ids of <0x00> .. <0xFF>
  std::vector<std::int32_t> character_ids_;  // [0x400] of the first characters
  MergeTable merges_;
  std::unordered_set<char32_t> marked_after_;  // characters that a token has before the mark of a space
};

}  // namespace

std::unique_ptr<TokenModel> read_bpe(const Json& json, const std::string& about) {
  return std::make_unique<BpeModel>(json, about);
}

}  // namespace headway::inline v0::internal
