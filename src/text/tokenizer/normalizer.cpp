#include "text/tokenizer/normalizer.h"

#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/pattern.h"

namespace headway::inline v0::internal {
namespace {

class FormNormalizer : public TextNormalizer {
 public:
  explicit FormNormalizer(UnicodeForm form) : form_(form) {}
  void apply(NormalizedText& text) const override { normalize_form(text, form_); }

 private:
  UnicodeForm form_;
};

// Lower case, and the filters that keep or replace single characters.
class LowercaseNormalizer : public TextNormalizer {
 public:
  void apply(NormalizedText& text) const override {
    rewrite_characters(text, [](char32_t c, const auto& append) {
      std::array<char32_t, 2> lower = {};
      const int count = lower_case(c, lower);
      for (int n = 0; n < count; ++n) append(lower[static_cast<std::size_t>(n)]);
    });
  }
};

class StripAccentsNormalizer : public TextNormalizer {
 public:
  void apply(NormalizedText& text) const override {
    const CharacterTable& table = CharacterTable::get();
    rewrite_characters(text, [&table](char32_t c, const auto& append) {
      if (!table.has(c, kMark)) append(c);
    });
  }
};

// What SentencePiece's NMT rules do to control characters and spaces.
class NmtNormalizer : public TextNormalizer {
 public:
  void apply(NormalizedText& text) const override {
    rewrite_characters(text, [](char32_t c, const auto& append) {
      const bool dropped =
          (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
      if (dropped) return;
      const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
      append(space ? U' ' : c);
    });
  }
};

class StripNormalizer : public TextNormalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalizedText& text) const override {
    const CharacterTable& table = CharacterTable::get();
    std::size_t begin = 0, end = text.text.size(), last = 0;
    bool leading = left_;
    for_each_character(text.text, [&](char32_t c, std::size_t from, std::size_t to) {
      const bool space = table.has(c, kSpace);
      if (leading && space) begin = to;
      if (!space) {
        leading = false;
        last = to;
      }
      (void)from;
    });
    if (right_) end = std::max(begin, last);
    text.text.erase(end);
    text.text.erase(0, begin);
    if (!text.aligned) return;
    text.alignment.erase(text.alignment.begin() + static_cast<std::ptrdiff_t>(end), text.alignment.end());
    text.alignment.erase(text.alignment.begin(), text.alignment.begin() + static_cast<std::ptrdiff_t>(begin));
  }

 private:
  bool left_, right_;
};

class PrependNormalizer : public TextNormalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(NormalizedText& text) const override {
    if (text.text.empty()) return;
    const Alignment first = text.at(0);
    text.text.insert(0, prefix_);
    if (text.aligned) text.alignment.insert(text.alignment.begin(), prefix_.size(), first);
  }

 private:
  std::string prefix_;
};

class ReplaceNormalizer : public TextNormalizer {
 public:
  ReplaceNormalizer(std::unique_ptr<TextPattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(NormalizedText& text) const override {
    if (text.text.empty()) return;
    std::vector<MatchedPart> parts;
    pattern_->parts_of(text.text, 0, parts);
    if (parts.size() == 1 && !parts[0].matched) return;
    NormalizedText made;
    made.origin = text.origin;
    made.aligned = text.aligned;
    made.text.reserve(text.text.size() + 8);
    for (const MatchedPart& part : parts) {
      if (part.matched) {
        made.append(content_, part.end > 0 ? text.at(part.end - 1) : Alignment{text.origin, text.origin});
        continue;
      }
      made.text.append(text.text, part.begin, part.end - part.begin);
      if (!made.aligned) continue;
      const auto from = text.alignment.begin();
      made.alignment.insert(made.alignment.end(), from + static_cast<std::ptrdiff_t>(part.begin),
                            from + static_cast<std::ptrdiff_t>(part.end));
    }
    text.swap(made);
  }

 private:
  std::unique_ptr<TextPattern> pattern_;
  std::string content_;
};

class ByteLevelNormalizer : public TextNormalizer {
 public:
  void apply(NormalizedText& text) const override {
    NormalizedText made;
    made.origin = text.origin;
    made.aligned = text.aligned;
    for (std::size_t n = 0; n < text.text.size(); ++n) {
      const ByteCharacter& one = byte_characters()[static_cast<unsigned char>(text.text[n])];
      made.append(std::string_view(one.bytes, one.length), text.at(n));
    }
    text.swap(made);
  }
};

class NormalizerSequence : public TextNormalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<TextNormalizer>> steps) : steps_(std::move(steps)) {}
  void apply(NormalizedText& text) const override {
    for (const auto& step : steps_) step->apply(text);
  }

 private:
  std::vector<std::unique_ptr<TextNormalizer>> steps_;
};

}  // namespace

std::unique_ptr<TextNormalizer> read_normalizer(const Json* json, const std::string& about) {
  if (json == nullptr || json->is_null()) return nullptr;
  const std::string type = type_of(*json, about), named = about + " " + type;
  if (type == "Sequence") {
    std::vector<std::unique_ptr<TextNormalizer>> steps;
    for (const Json& step : array_field(*json, "normalizers", named)) {
      if (auto read = read_normalizer(&step, about)) steps.push_back(std::move(read));
    }
    return std::make_unique<NormalizerSequence>(std::move(steps));
  }
  if (type == "BertNormalizer") return read_bert_normalizer(*json, named);
  if (type == "NFC") return std::make_unique<FormNormalizer>(UnicodeForm::nfc);
  if (type == "NFD") return std::make_unique<FormNormalizer>(UnicodeForm::nfd);
  if (type == "NFKC") return std::make_unique<FormNormalizer>(UnicodeForm::nfkc);
  if (type == "NFKD") return std::make_unique<FormNormalizer>(UnicodeForm::nfkd);
  if (type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  if (type == "StripAccents") return std::make_unique<StripAccentsNormalizer>();
  if (type == "Nmt") return std::make_unique<NmtNormalizer>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "Precompiled") return read_precompiled(*json, named);
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(string_field(*json, "prepend", named));
  if (type == "Strip") {
    return std::make_unique<StripNormalizer>(flag_field(*json, "strip_left", named),
                                             flag_field(*json, "strip_right", named));
  }
  if (type == "Replace") {
    const Json* pattern = field_of(*json, "pattern");
    check(pattern != nullptr, named, ": has no \"pattern\"");
    return std::make_unique<ReplaceNormalizer>(read_pattern(*pattern, named), string_field(*json, "content", named));
  }
  fail(about, ": \"", shortened(type, 50),
       "\" is not known, expected BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, "
       "Prepend, "
       "Replace, Sequence, Strip or StripAccents");
}

}  // namespace headway::inline v0::internal
