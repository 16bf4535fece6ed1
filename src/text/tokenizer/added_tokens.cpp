#include "text/tokenizer/added_tokens.h"

#include <algorithm>

#include "base/check.h"
#include "base/push_copy.h"
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::size_t kLongestAddedToken = 4096;

std::size_t last_character(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

std::size_t spaces_before(std::string_view text, std::size_t at) {
  while (at > 0) {
    const std::size_t begin = last_character(text, at);
    if (!CharacterTable::get().has(character_at(text.data() + begin), kSpace)) break;
    at = begin;
  }
  return at;
}

std::size_t spaces_behind(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    int length = 0;
    if (!CharacterTable::get().has(character_at(text.data() + at, length), kSpace)) break;
    at += static_cast<std::size_t>(length);
  }
  return at;
}

bool is_inside_word(std::string_view text, std::size_t begin, std::size_t end) {
  const CharacterTable& table = CharacterTable::get();
  if (begin > 0 && table.has(character_at(text.data() + last_character(text, begin)), kWordPart)) return true;
  return end < text.size() && table.has(character_at(text.data() + end), kWordPart);
}

}  // namespace

void AddedTokens::read(const Json* json, const TokenModel& model, const TextNormalizer* normalizer,
                       const std::string& about) {
  if (json == nullptr || json->is_null()) return;
  check(json->is_array(), about, " is ", json->kind_name(), ", expected an array");
  check(static_cast<std::int64_t>(json->items().size()) <= kMostTokens, about, ": has ", json->items().size(),
        " tokens, expected at most ", kMostTokens);
  const Vocabulary& vocabulary = model.vocabulary();
  auto next = model.shows_word() ? vocabulary.size() : static_cast<std::uint32_t>(vocabulary.count());
  for (const Json& token : json->items()) add(token, next, model, normalizer, about);
  build(plain_, false);
  build(normalized_, true);
}

void AddedTokens::add(const Json& json, std::uint32_t& next, const TokenModel& model, const TextNormalizer* normalizer,
                      const std::string& about) {
  AddedToken token;
  token.content = string_field(json, "content", about);
  if (token.content.empty()) return;
  check(token.content.size() <= kLongestAddedToken, about, ": \"", shortened(token.content, 50), "\" has ",
        token.content.size(), " bytes, expected at most ", kLongestAddedToken);
  token.single_word = flag_field(json, "single_word", about, false);
  token.strips_left = flag_field(json, "lstrip", about, false);
  token.strips_right = flag_field(json, "rstrip", about, false);
  token.special = flag_field(json, "special", about, false);
  token.normalized = flag_field(json, "normalized", about, !token.special);
  token.decoded = token.content;
  if (token.normalized && normalizer != nullptr) {
    NormalizedText text;
    text.assign(token.content, 0, false);
    normalizer->apply(text);
    token.decoded = text.text;
  }
  std::int64_t id = find(token.content);
  if (id < 0) id = model.vocabulary().find(token.content);
  if (id < 0) id = next++;
  check(id < kMostTokens, about, ": more than ", kMostTokens, " tokens");
  const auto number = static_cast<std::uint32_t>(id);
  ids_[token.content] = number;
  if (token.special) specials_.insert(token.content);
  size_ = std::max(size_, number + 1);
  tokens_.insert_or_assign(number, std::move(token));
}

void AddedTokens::build(Finder& finder, bool normalized) const {
  std::vector<ByteTrie::Key> keys;
  for (const auto& [id, token] : tokens_) {
    const std::string& text = normalized ? token.decoded : token.content;
    if (token.normalized != normalized || text.empty()) continue;
    keys.push_back({text, static_cast<std::int32_t>(id)});
    finder.starts[static_cast<unsigned char>(text[0])] = true;
    finder.any = true;
  }
  std::sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  finder.trie = ByteTrie(std::move(keys));
}

const AddedToken* AddedTokens::find(std::uint32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

std::int64_t AddedTokens::find(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  return found == ids_.end() ? -1 : std::int64_t{found->second};
}

std::int32_t AddedTokens::longest_at(std::string_view text, std::size_t at, const Finder& finder, std::size_t& end) {
  std::int32_t best = -1;
  std::uint32_t node = ByteTrie::kRoot;
  for (; at < text.size() && finder.trie.step(node, text[at]); ++at) {
    if (const std::int32_t value = finder.trie.value(node); value >= 0) {
      best = value;
      end = at + 1;
    }
  }
  return best;
}

void AddedTokens::find_all(std::string_view text, const Finder& finder, std::vector<Found>& found) const {
  found.clear();
  std::size_t done = 0;             // up to here the text is in `found`
  const char* bytes = text.data();  // each is looked at once, below its size
  for (std::size_t at = 0; finder.any && at < text.size();) {
    if (!finder.starts[static_cast<unsigned char>(bytes[at])]) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at;
    const std::int32_t id = longest_at(text, at, finder, end);
    if (id < 0) {
      ++at;
      continue;
    }
    at = end;
    const AddedToken& token = tokens_.at(static_cast<std::uint32_t>(id));
    if (token.single_word && is_inside_word(text, begin, end)) continue;
    if (token.strips_left) begin = std::max(spaces_before(text, begin), done);
    if (token.strips_right) end = spaces_behind(text, end);
    if (done < begin) push_copy(found, {-1, done, begin});
    push_copy(found, {id, begin, end});
    done = end;
  }
  if (done < text.size()) push_copy(found, {-1, done, text.size()});
}

void AddedTokens::extract(std::string_view text, const TextNormalizer* normalizer, NormalizedText& spare,
                          SplitText& split) const {
  std::vector<Found> outer, inner;
  find_all(text, plain_, outer);
  for (const Found& part : outer) {
    spare.assign(text.substr(part.begin, part.end - part.begin), static_cast<std::uint32_t>(part.begin), split.aligned);
    if (part.token >= 0) {
      split.append(spare);
      split.splits.back().token = part.token;
      continue;
    }
    if (normalizer != nullptr) normalizer->apply(spare);
    find_all(spare.text, normalized_, inner);
    const auto shift = static_cast<std::uint32_t>(split.text.size());
    if (inner.empty()) continue;
    split.append(spare);
    if (inner.size() == 1 && inner[0].token < 0) continue;
    split.splits.pop_back();
    for (const Found& one : inner) {
      const auto begin = shift + static_cast<std::uint32_t>(one.begin),
                 end = shift + static_cast<std::uint32_t>(one.end);
      push_copy(split.splits, {begin, end, split.aligned ? split.alignment[begin].begin : 0, one.token});
    }
  }
}

}  // namespace headway::inline v0::internal
