// Normalizers of tokenizer.json: what is done to a text before it is split.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer/split_text.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {

class Json;

class TextNormalizer {
 public:
  virtual ~TextNormalizer() = default;
  virtual void apply(NormalizedText& text) const = 0;
};

// The normalizer of a JSON object; Errors begin with `about`. None for null.
std::unique_ptr<TextNormalizer> read_normalizer(const Json* json, const std::string& about);

// Those with files of their own.
enum class UnicodeForm { nfc, nfd, nfkc, nfkd };
void normalize_form(NormalizedText& text, UnicodeForm form);
std::unique_ptr<TextNormalizer> read_bert_normalizer(const Json& json, const std::string& about);
// SentencePiece's character map, whose bytes may say anything.
std::unique_ptr<TextNormalizer> read_precompiled(const Json& json, const std::string& about);

// Makes the text anew: rewrite(character, append) calls append(new_character) for what a character becomes.
template <typename Rewrite>
void rewrite_characters(NormalizedText& text, const Rewrite& rewrite) {
  NormalizedText made;
  made.origin = text.origin;
  made.aligned = text.aligned;
  made.text.reserve(text.text.size() + 8);
  if (made.aligned) made.alignment.reserve(text.text.size() + 8);
  for (std::size_t at = 0; at < text.text.size();) {
    int length = 0;
    const char32_t character = character_at(text.text.data() + at, length);
    const Alignment from = text.at(at);
    rewrite(character, [&](char32_t one) { made.append(one, from); });
    at += static_cast<std::size_t>(length);
  }
  text.swap(made);
}

}  // namespace headway::inline v0::internal
