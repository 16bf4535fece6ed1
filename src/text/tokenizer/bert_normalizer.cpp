// BERT's normalizer: clean text, spaces around Chinese characters, no accents, lower case.
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/normalizer.h"

namespace headway::inline v0::internal {
namespace {

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

class BertNormalizer : public TextNormalizer {
 public:
  BertNormalizer(bool clean, bool chinese, bool accents, bool lowercase)
      : clean_(clean), chinese_(chinese), strip_(accents), lowercase_(lowercase) {
    for (char32_t c = 0; c < 128; ++c) {
      char32_t one = c;
      if (clean_ && table_.has(c, kSpace)) one = ' ';
      if (clean_ && is_removed(c)) one = 0x80;  // of spaces U+000B and U+000C
      if (lowercase_ && c >= 'A' && c <= 'Z') one = c + 32;
      ascii_[c] = static_cast<unsigned char>(one);
    }
  }

  void apply(NormalizedText& text) const override {
    if (strip_ && has_moving_marks(text.text)) return apply_in_steps(text);
    NormalizedText made;
    made.origin = text.origin;
    made.aligned = text.aligned;
    made.text.reserve(text.text.size() + 16);
    if (made.aligned) made.alignment.reserve(text.text.size() + 16);
    const char* const bytes = text.text.data();
    for (std::size_t at = 0; at < text.text.size();) {
      const auto byte = static_cast<unsigned char>(bytes[at]);
      if (byte < 0x80) {
        if (const unsigned char one = ascii_[byte]; one < 0x80) {
          made.text.push_back(static_cast<char>(one));
          if (made.aligned) made.alignment.push_back(text.alignment[at]);
        }
        ++at;
        continue;
      }
      int length = 0;
      const char32_t c = character_at(bytes + at, length);
      append_other(made, c, text.at(at));
      at += static_cast<std::size_t>(length);
    }
    text.swap(made);
  }

 private:
  bool is_removed(char32_t c) const {
    return c == 0 || c == 0xFFFD || (c != '\t' && c != '\n' && c != '\r' && table_.has(c, kOther));
  }

  // Characters that canonical ordering moves and that stay when accents are stripped.
  bool has_moving_marks(std::string_view text) const {
    for (std::size_t at = 0; at < text.size();) {
      if (static_cast<signed char>(text[at]) >= 0) {
        ++at;
        continue;
      }
      int length = 0;
      const unsigned bits = table_[character_at(text.data() + at, length)];
      if ((bits & kReordered) && !(bits & kNonspacing)) return true;
      at += static_cast<std::size_t>(length);
    }
    return false;
  }

  void append_lower(NormalizedText& made, char32_t c, Alignment from) const {
    if (!lowercase_) return made.append(c, from);
    std::array<char32_t, 2> lower = {};
    const int count = lower_case(c, lower);
    for (int n = 0; n < count; ++n) made.append(lower[static_cast<std::size_t>(n)], from);
  }

  void append_parts(NormalizedText& made, char32_t c, Alignment from) const {
    const unsigned bits = table_[c];
    if (!strip_) return append_lower(made, c, from);
    if (bits & kStableNfd) {
      if (!(bits & kNonspacing)) append_lower(made, c, from);
      return;
    }
    std::array<char32_t, 32> parts = {};
    const int count = decompose_character(c, false, parts);
    for (int n = 0; n < count; ++n) {
      const char32_t part = parts[static_cast<std::size_t>(n)];
      if (!table_.has(part, kNonspacing)) append_lower(made, part, from);
    }
  }

  void append_other(NormalizedText& made, char32_t c, Alignment from) const {
    if (clean_ && is_removed(c)) return;
    if (clean_ && table_.has(c, kSpace)) return made.append(U' ', from);
    const bool spaced = chinese_ && is_chinese(c);
    if (spaced) made.append(U' ', from);
    append_parts(made, c, from);
    if (spaced) made.append(U' ', from);
  }

  void apply_in_steps(NormalizedText& text) const {
    rewrite_characters(text, [this](char32_t c, const auto& append) {
      if (clean_ && is_removed(c)) return;
      if (clean_ && table_.has(c, kSpace)) return append(U' ');
      const bool spaced = chinese_ && is_chinese(c);
      if (spaced) append(U' ');
      append(c);
      if (spaced) append(U' ');
    });
    normalize_form(text, UnicodeForm::nfd);
    NormalizedText made;
    made.origin = text.origin;
    made.aligned = text.aligned;
    for_each_character(text.text, [&](char32_t c, std::size_t at, std::size_t) {
      if (!table_.has(c, kNonspacing)) append_lower(made, c, text.at(at));
    });
    text.swap(made);
  }

  bool clean_, chinese_, strip_, lowercase_;
  const CharacterTable& table_ = CharacterTable::get();
  unsigned char ascii_[128];  // what each becomes; 0x80: nothing
};

}  // namespace

std::unique_ptr<TextNormalizer> read_bert_normalizer(const Json& json, const std::string& about) {
  const bool lowercase = flag_field(json, "lowercase", about, true);
  return std::make_unique<BertNormalizer>(flag_field(json, "clean_text", about, true),
                                          flag_field(json, "handle_chinese_chars", about, true),
                                          flag_field(json, "strip_accents", about, lowercase), lowercase);
}

}  // namespace headway::inline v0::internal
