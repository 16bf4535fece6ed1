// NFC, NFD, NFKC and NFKD with the alignments that Hugging Face's tokenizers give them.
#include <algorithm>

#include "text/tokenizer/normalizer.h"

namespace headway::inline v0::internal {
namespace {

struct Decomposed {
  char32_t character;
  std::int32_t change;  // as in CharacterChange
  int combining_class;
};

void sort_marks(std::vector<Decomposed>& text, std::size_t begin) {
  std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(),
                   [](const Decomposed& a, const Decomposed& b) { return a.combining_class < b.combining_class; });
}

std::vector<Decomposed> decompose(std::string_view text, bool compatible) {
  std::vector<Decomposed> all;
  all.reserve(text.size());
  std::size_t marks = 0;  // where the marks behind the last starter begin
  std::array<char32_t, 32> pieces = {};
  for_each_character(text, [&](char32_t c, std::size_t, std::size_t) {
    const int count = decompose_character(c, compatible, pieces);
    for (int n = 0; n < count; ++n) {
      const char32_t part = pieces[static_cast<std::size_t>(n)];
      const int part_class = combining_class(part);
      if (part_class == 0) {
        sort_marks(all, marks);
        marks = all.size() + 1;
      }
      all.push_back({part, n == 0 ? 0 : 1, part_class});
    }
  });
  sort_marks(all, std::min(marks, all.size()));
  return all;
}

// Composes in place: a starter takes what follows unless a mark of the same or a higher class is between.
std::vector<CharacterChange> compose(const std::vector<Decomposed>& parts) {
  std::vector<CharacterChange> made;
  made.reserve(parts.size());
  std::ptrdiff_t starter = -1;  // in `made`
  int last_class = -1;          // of the character behind the starter that stayed; -1: none
  for (const Decomposed& part : parts) {
    if (starter >= 0 && (last_class < part.combining_class || last_class == -1)) {
      CharacterChange& before = made[static_cast<std::size_t>(starter)];
      if (const char32_t both = composed_character(before.character, part.character)) {
        before.character = both;
        before.change += part.change - 1;
        continue;
      }
    }
    made.push_back({part.character, part.change});
    if (part.combining_class == 0) {
      starter = std::ssize(made) - 1;
      last_class = -1;
    } else {
      last_class = part.combining_class;
    }
  }
  return made;
}

}  // namespace

void normalize_form(NormalizedText& text, UnicodeForm form) {
  const unsigned stable[] = {kStableNfc, kStableNfd, kStableNfkc, kStableNfkd};
  const unsigned wanted = stable[static_cast<int>(form)];
  const CharacterTable& table = CharacterTable::get();
  bool changes = false;
  for (std::size_t at = 0; at < text.text.size() && !changes;) {
    if (static_cast<signed char>(text.text[at]) >= 0) {
      ++at;
      continue;
    }
    int length = 0;
    changes = !table.has(character_at(text.text.data() + at, length), wanted);
    at += static_cast<std::size_t>(length);
  }
  if (!changes) return;
  const bool compatible = form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
  const std::vector<Decomposed> parts = decompose(text.text, compatible);
  if (form == UnicodeForm::nfc || form == UnicodeForm::nfkc) {
    apply_changes(text, compose(parts));
    return;
  }
  std::vector<CharacterChange> plain;
  plain.reserve(parts.size());
  for (const Decomposed& part : parts) plain.push_back({part.character, part.change});
  apply_changes(text, plain);
}

}  // namespace headway::inline v0::internal
