#include "text/tokenizer/pre_tokenizer.h"

#include "base/check.h"
#include "base/push_copy.h"
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

// Spaces are left out, punctuation stands alone.
class BertPreTokenizer : public PreTokenizer {
 public:
  void apply(SplitText& text, SplitSpare& spare) const override {
    const CharacterTable& table = CharacterTable::get();
    cut_splits(text, spare.splits, [&](const TextSplit& split, const auto& take) {
      std::size_t word = split.begin;
      for (std::size_t at = split.begin; at < split.end;) {
        int length = 0;
        const unsigned bits = table[character_at(text.text.data() + at, length)];
        const std::size_t next = at + static_cast<std::size_t>(length);
        if (bits & (kSpace | kPunctuation)) {
          take(word, at);
          if (!(bits & kSpace)) take(at, next);
          word = next;
        }
        at = next;
      }
      take(word, split.end);
    });
  }
};

// Cuts by single characters.
class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(unsigned bits, char32_t character, SplitBehaviour behaviour)
      : bits_(bits), character_(character), behaviour_(behaviour) {}

  void apply(SplitText& text, SplitSpare& spare) const override {
    const CharacterTable& table = CharacterTable::get();
    cut_splits(text, spare.splits, [&](const TextSplit& split, const auto& take) {
      spare.parts.clear();
      std::size_t plain = split.begin;
      for_each_character(text.of(split), [&](char32_t c, std::size_t begin, std::size_t end) {
        if (bits_ != 0 ? !table.has(c, bits_) : c != character_) return;
        if (plain < split.begin + begin) push_copy(spare.parts, {plain, split.begin + begin, false});
        push_copy(spare.parts, {split.begin + begin, split.begin + end, true});
        plain = split.begin + end;
      });
      if (plain < split.end) push_copy(spare.parts, {plain, split.end, false});
      take_parts(spare.parts, behaviour_, take);
    });
  }

 private:
  unsigned bits_;  // where 0, the character counts
  char32_t character_;
  SplitBehaviour behaviour_;
};

// \w+|[^\w\s]+
class WhitespacePreTokenizer : public PreTokenizer {
 public:
  void apply(SplitText& text, SplitSpare& spare) const override {
    const CharacterTable& table = CharacterTable::get();
    cut_splits(text, spare.splits, [&](const TextSplit& split, const auto& take) {
      std::size_t word = split.begin;
      int kind = 0;  // of the open word: 0 none, 1 of word characters, 2 of others
      for_each_character(text.of(split), [&](char32_t c, std::size_t begin, std::size_t) {
        const unsigned bits = table[c];
        const int now = bits & kWordPart ? 1 : bits & kSpace ? 0 : 2;
        if (now == kind) return;
        if (kind != 0) take(word, split.begin + begin);
        word = split.begin + begin;
        kind = now;
      });
      if (kind != 0) take(word, split.end);
    });
  }
};

class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(std::unique_ptr<TextPattern> pattern, KnownPattern known, SplitBehaviour behaviour, bool inverted)
      : pattern_(std::move(pattern)), known_(known), behaviour_(behaviour), inverted_(inverted) {}

  void apply(SplitText& text, SplitSpare& spare) const override {
    cut_splits(text, spare.splits, [&](const TextSplit& split, const auto& take) {
      if (known_ != KnownPattern::none) {
        const std::string_view whole = std::string_view(text.text).substr(0, split.end);
        for (std::size_t at = split.begin; at < split.end;) {
          const std::size_t next = scan_known(known_, whole, at);
          take(at, next);
          at = next;
        }
        return;
      }
      spare.parts.clear();
      pattern_->parts_of(text.of(split), split.begin, spare.parts);
      for (MatchedPart& part : spare.parts) part.matched = part.matched != inverted_;
      take_parts(spare.parts, behaviour_, take);
    });
  }

 private:
  std::unique_ptr<TextPattern> pattern_;
  KnownPattern known_;
  SplitBehaviour behaviour_;
  bool inverted_;
};

class FixedLengthSplit : public PreTokenizer {
 public:
  explicit FixedLengthSplit(std::int64_t length) : length_(length) {}
  void apply(SplitText& text, SplitSpare& spare) const override {
    cut_splits(text, spare.splits, [&](const TextSplit& split, const auto& take) {
      std::size_t word = split.begin;
      std::int64_t count = 0;
      for_each_character(text.of(split), [&](char32_t, std::size_t, std::size_t end) {
        if (++count < length_) return;
        take(word, split.begin + end);
        word = split.begin + end;
        count = 0;
      });
      take(word, split.end);
    });
  }

 private:
  std::int64_t length_;
};

class PreTokenizerSequence : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps) : steps_(std::move(steps)) {}
  void apply(SplitText& text, SplitSpare& spare) const override {
    for (const auto& step : steps_) step->apply(text, spare);
  }
  bool needs_alignment() const override {
    for (const auto& step : steps_) {
      if (step->needs_alignment()) return true;
    }
    return false;
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

SplitBehaviour behaviour_field(const Json& json, const std::string& about, std::optional<std::string> usual = {}) {
  const std::string name = string_field(json, "behavior", about, std::move(usual));
  if (name == "Removed") return SplitBehaviour::removed;
  if (name == "Isolated") return SplitBehaviour::isolated;
  if (name == "MergedWithPrevious") return SplitBehaviour::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehaviour::merged_with_next;
  check(name == "Contiguous", about, ": behavior is \"", shortened(name, 50),
        "\", expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  return SplitBehaviour::contiguous;
}

std::unique_ptr<PreTokenizer> read_split(const Json& json, const std::string& about) {
  const Json* pattern = field_of(json, "pattern");
  check(pattern != nullptr, about, ": has no \"pattern\"");
  const SplitBehaviour behaviour = behaviour_field(json, about);
  const bool inverted = flag_field(json, "invert", about, false);
  const Json* regex = pattern->find("Regex");
  // A known pattern matches everywhere, so that isolated matches and removed gaps are the same.
  const bool every_match = behaviour == (inverted ? SplitBehaviour::removed : SplitBehaviour::isolated);
  const bool known = every_match && regex != nullptr && regex->is_string();
  return std::make_unique<PatternSplit>(
      read_pattern(*pattern, about), known ? known_pattern(regex->string()) : KnownPattern::none, behaviour, inverted);
}

}  // namespace

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const Json* json, const std::string& about) {
  if (json == nullptr || json->is_null()) return nullptr;
  const std::string type = type_of(*json, about), named = about + " " + type;
  if (type == "Sequence") {
    std::vector<std::unique_ptr<PreTokenizer>> steps;
    for (const Json& step : array_field(*json, "pretokenizers", named)) {
      if (auto read = read_pre_tokenizer(&step, about)) steps.push_back(std::move(read));
    }
    return std::make_unique<PreTokenizerSequence>(std::move(steps));
  }
  if (type == "BertPreTokenizer") return std::make_unique<BertPreTokenizer>();
  if (type == "ByteLevel") return read_byte_level(*json, named);
  if (type == "Metaspace") return read_metaspace(*json, named);
  if (type == "Whitespace") return std::make_unique<WhitespacePreTokenizer>();
  if (type == "WhitespaceSplit") return std::make_unique<CharacterSplit>(kSpace, 0, SplitBehaviour::removed);
  if (type == "Split") return read_split(*json, named);
  if (type == "Punctuation") {
    return std::make_unique<CharacterSplit>(kPunctuation, 0, behaviour_field(*json, named, "Isolated"));
  }
  if (type == "Digits") {
    const bool single = flag_field(*json, "individual_digits", named, false);
    return std::make_unique<CharacterSplit>(kNumber, 0, single ? SplitBehaviour::isolated : SplitBehaviour::contiguous);
  }
  if (type == "CharDelimiterSplit") {
    return std::make_unique<CharacterSplit>(0, character_field(*json, "delimiter", named), SplitBehaviour::removed);
  }
  if (type == "FixedLength") {
    const std::int64_t length = count_field(*json, "length", named, 5);
    check(length > 0, named, ": length is 0, expected at least 1");
    return std::make_unique<FixedLengthSplit>(length);
  }
  if (type == "UnicodeScripts") return unicode_scripts();
  fail(about, ": \"", shortened(type, 50),
       "\" is not known, expected BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, "
       "Punctuation, Sequence, Split, UnicodeScripts, Whitespace or WhitespaceSplit");
}

}  // namespace headway::inline v0::internal
