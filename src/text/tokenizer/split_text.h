// A text on its way to tokens: normalised, split, and aligned with the text that came in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/push_copy.h"

namespace headway::inline v0::internal {

// Bytes [begin, end) of the original text.
struct Alignment {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// A text while normalizers work on it.
struct NormalizedText {
  std::string text = {};
  std::vector<Alignment> alignment = {};  // of each byte of `text`; empty where offsets are not asked for
  std::uint32_t origin = 0;               // where this part begins in the original text
  bool aligned = false;

  // The text [begin, begin + part.size()) of the original.
  void assign(std::string_view part, std::uint32_t begin, bool with_alignment);
  void append(char32_t character, Alignment from);
  void append(std::string_view more, Alignment from);
  Alignment at(std::size_t byte) const { return aligned ? alignment[byte] : Alignment{}; }
  void clear();
  void swap(NormalizedText& other);
};

// A character of a new text: `change` is 1 where it is inserted, 0 where it replaces the next character of the old
// text, and -N where N more characters of the old text end with it.
struct CharacterChange {
  char32_t character;
  std::int32_t change;
};
// Makes the new text of changes that begin behind the first `removed` characters; alignments follow the changes as
// Hugging Face's do.
void apply_changes(NormalizedText& text, const std::vector<CharacterChange>& changes, std::size_t removed = 0);

// A word of the text, or an added token in it.
struct TextSplit {
  std::uint32_t begin = 0;  // bytes of SplitText::text
  std::uint32_t end = 0;
  std::uint32_t origin = 0;  // where it begins in the original text
  std::int32_t token = -1;   // the id of an added token
};

struct SplitText {
  std::string text = {};
  std::vector<Alignment> alignment = {};  // of each byte of `text`; empty where offsets are not asked for
  std::vector<TextSplit> splits = {};
  bool aligned = false;

  void clear();
  std::string_view of(const TextSplit& split) const {
    return std::string_view(text).substr(split.begin, split.end - split.begin);
  }
  // Appends a text as one split.
  void append(const NormalizedText& more);
};

// Takes the ranges that a split becomes, by bytes of the whole text.
using TakeRange = FunctionRef<void(std::size_t begin, std::size_t end)>;

// Replaces each split that is not an added token by the ranges that cut(split, take) gives; empty ones are left out.
template <typename Cut>
void cut_splits(SplitText& text, std::vector<TextSplit>& spare, const Cut& cut) {
  spare.clear();
  for (const TextSplit& split : text.splits) {
    if (split.token >= 0) {
      spare.push_back(split);
      continue;
    }
    const auto take = [&](std::size_t begin, std::size_t end) {
      if (begin >= end) return;
      const std::uint32_t origin = text.aligned ? text.alignment[begin].begin : 0;
      push_copy(spare, {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), origin, -1});
    };
    cut(split, take);
  }
  text.splits.swap(spare);
}

// How Split and Punctuation treat what they match.
enum class SplitBehaviour { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// A part of a text and whether the pattern matched it.
struct MatchedPart {
  std::size_t begin;
  std::size_t end;
  bool matched;
};
// Gives the ranges that parts, which cover a text, become.
void take_parts(std::vector<MatchedPart>& parts, SplitBehaviour behaviour, TakeRange take);

}  // namespace headway::inline v0::internal
