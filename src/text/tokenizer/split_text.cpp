#include "text/tokenizer/split_text.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {

void NormalizedText::assign(std::string_view part, std::uint32_t begin, bool with_alignment) {
  text.assign(part);
  alignment.clear();
  origin = begin;
  aligned = with_alignment;
  if (!aligned) return;
  alignment.resize(part.size());
  for (std::size_t at = 0; at < part.size();) {
    const auto length = static_cast<std::uint32_t>(character_length(part[at]));
    const std::uint32_t from = begin + static_cast<std::uint32_t>(at);
    for (std::uint32_t n = 0; n < length && at < part.size(); ++n) alignment[at++] = {from, from + length};
  }
}

void NormalizedText::append(char32_t character, Alignment from) {
  if (character < 0x80) {
    text.push_back(static_cast<char>(character));
  } else {
    append_utf8(text, character);
  }
  if (aligned) alignment.resize(text.size(), from);
}

void NormalizedText::append(std::string_view more, Alignment from) {
  text.append(more);
  if (aligned) alignment.resize(text.size(), from);
}

void NormalizedText::clear() {
  text.clear();
  alignment.clear();
}

void NormalizedText::swap(NormalizedText& other) {
  text.swap(other.text);
  alignment.swap(other.alignment);
  std::swap(origin, other.origin);
  std::swap(aligned, other.aligned);
}

void apply_changes(NormalizedText& text, const std::vector<CharacterChange>& changes, std::size_t removed) {
  NormalizedText made;
  made.origin = text.origin;
  made.aligned = text.aligned;
  made.text.reserve(text.text.size() + 8);
  if (!text.aligned) {
    for (const CharacterChange& one : changes) made.append(one.character, {});
    text.swap(made);
    return;
  }
  made.alignment.reserve(text.text.size() + 8);
  const std::string& old = text.text;
  std::size_t at = 0;  // in the old text
  const auto skip = [&] {
    if (at < old.size()) at += static_cast<std::size_t>(character_length(old[at]));
  };
  for (std::size_t n = 0; n < removed; ++n) skip();
  for (const CharacterChange& one : changes) {
    Alignment from = {text.origin, text.origin};
    if (one.change > 0) {
      // What is inserted belongs to the character before it.
      if (at > 0) from = text.alignment[std::min(at, old.size()) - 1];
    } else {
      if (!old.empty()) from = text.alignment[std::min(at, old.size() - 1)];
      for (std::int32_t n = one.change; n <= 0; ++n) skip();
    }
    made.append(one.character, from);
  }
  text.swap(made);
}

void SplitText::clear() {
  text.clear();
  alignment.clear();
  splits.clear();
}

void SplitText::append(const NormalizedText& more) {
  if (more.text.empty()) return;
  const auto begin = static_cast<std::uint32_t>(text.size());
  text += more.text;
  if (aligned) alignment.insert(alignment.end(), more.alignment.begin(), more.alignment.end());
  push_copy(splits, {begin, static_cast<std::uint32_t>(text.size()), aligned ? alignment[begin].begin : 0, -1});
}

void take_parts(std::vector<MatchedPart>& parts, SplitBehaviour behaviour, TakeRange take) {
  if (behaviour == SplitBehaviour::merged_with_next) {
    // The same as merged_with_previous, seen from the end.
    std::size_t kept = parts.size();  // parts[kept ..] are done
    bool previous = false;
    for (std::size_t n = parts.size(); n-- > 0;) {
      const MatchedPart part = parts[n];
      if (part.matched && !previous && kept < parts.size()) {
        parts[kept].begin = part.begin;
      } else {
        parts[--kept] = part;
      }
      previous = part.matched;
    }
    for (std::size_t n = kept; n < parts.size(); ++n) take(parts[n].begin, parts[n].end);
    return;
  }
  if (behaviour == SplitBehaviour::removed || behaviour == SplitBehaviour::isolated) {
    for (const MatchedPart& part : parts) {
      if (behaviour == SplitBehaviour::isolated || !part.matched) take(part.begin, part.end);
    }
    return;
  }
  bool previous = false, any = false;
  MatchedPart open = {0, 0, false};
  for (const MatchedPart& part : parts) {
    const bool joins = behaviour == SplitBehaviour::contiguous ? part.matched == previous : part.matched && !previous;
    if (any && joins) {
      open.end = part.end;
    } else {
      if (any) take(open.begin, open.end);
      open = part;
      any = true;
    }
    previous = part.matched;
  }
  if (any) take(open.begin, open.end);
}

}  // namespace headway::inline v0::internal
