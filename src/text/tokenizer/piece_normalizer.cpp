#include "text/tokenizer/piece_normalizer.h"

#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

ByteTrie trie_of_symbols(const SentencePieceModel& model) {
  std::vector<ByteTrie::Key> keys;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    if (piece.kind == SentencePieceModel::user_defined) keys.push_back({piece.text, 0});
  }
  return keys.empty() ? ByteTrie() : ByteTrie(std::move(keys));
}

void append_with_spaces(std::string_view text, std::string_view space, std::string& out) {
  for (std::size_t at = text.find(' '); at != std::string_view::npos; at = text.find(' ')) {
    out += text.substr(0, at);
    out += space;
    text.remove_prefix(at + 1);
  }
  out += text;
}

}  // namespace

UserSymbols::UserSymbols(const SentencePieceModel& model) : trie_(trie_of_symbols(model)) {}

std::size_t UserSymbols::match(std::string_view text) const {
  std::size_t longest = 0;
  if (trie_.empty()) return longest;
  std::uint32_t node = ByteTrie::kRoot;
  for (std::size_t at = 0; at < text.size() && trie_.step(node, text[at]); ++at) {
    if (trie_.value(node) >= 0) longest = at + 1;
  }
  return longest;
}

PieceNormalizer::PieceNormalizer(const PieceRules& rules, bool spaces_behind, const UserSymbols* symbols,
                                 const std::string& about)
    : map_(rules.character_map.empty() ? std::string_view("\0\0\0\0", 4) : rules.character_map, about),
      symbols_(symbols),
      add_prefix_(rules.add_prefix),
      remove_extra_spaces_(rules.remove_extra_spaces),
      spaces_behind_(spaces_behind),
      space_(rules.escape_spaces ? kPieceSpace : " ") {}

PieceNormalizer::Part PieceNormalizer::next(std::string_view text) const {
  if (symbols_ != nullptr) {
    if (const std::size_t length = symbols_->match(text); length > 0) return {text.substr(0, length), length};
  }
  const auto first = static_cast<unsigned char>(text[0]);
  const bool ascii = first < 0x80;
  if (ascii && (text.size() == 1 || static_cast<unsigned char>(text[1]) < 0x80) && map_.is_single(first)) {
    const auto& single = map_.single(first);
    return {single ? *single : text.substr(0, 1), 1};
  }
  if (const CharacterMap::Rule rule = map_.find_longest(text); rule.length > 0) return {rule.text, rule.length};
  if (ascii) return {text.substr(0, 1), 1};
  std::string_view rest = text;
  bool valid = true;
  next_character(rest, valid);
  if (!valid) return {"\xEF\xBF\xBD", 1};
  const std::size_t length = text.size() - rest.size();
  return {text.substr(0, length), length};
}

void PieceNormalizer::apply(std::string_view text, std::string& normalized) const {
  normalized.clear();
  while (remove_extra_spaces_ && !text.empty()) {
    const Part part = next(text);
    if (part.text != " ") break;
    text.remove_prefix(part.length);
  }
  if (text.empty()) return;
  normalized.reserve(text.size() + text.size() / 2 + 16);
  if (add_prefix_ && !spaces_behind_) normalized += space_;
  bool after_space = remove_extra_spaces_;
  while (!text.empty()) {
    Part part = next(text);
    while (after_space && part.text.starts_with(' ')) part.text.remove_prefix(1);
    if (!part.text.empty()) {
      after_space = remove_extra_spaces_ && part.text.ends_with(' ');
      append_with_spaces(part.text, space_, normalized);
    }
    text.remove_prefix(part.length);
  }
  while (remove_extra_spaces_ && normalized.ends_with(space_)) normalized.resize(normalized.size() - space_.size());
  if (add_prefix_ && spaces_behind_) normalized += space_;
}

}  // namespace headway::inline v0::internal
