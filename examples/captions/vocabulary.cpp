#include "captions/vocabulary.h"

#include <headway/text.h>

#include <map>
#include <set>

namespace captions {
namespace {

constexpr int kOftenEnough = 2;
constexpr const char* kWordScore = "-1.0";
constexpr const char* kCharacterScore = "-10.0";

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') json += '\\';
    json += byte;
  }
  return json + '"';
}

// The characters of UTF-8.
std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> characters;
  for (const char byte : text) {
    const bool continues = (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
    if (continues && !characters.empty()) {
      characters.back() += byte;
    } else {
      characters.emplace_back(1, byte);
    }
  }
  return characters;
}

// Words begin with U+2581 where a space, or the text, begins before them; punctuation stands by itself.
std::string unigram_json(const std::set<std::string>& words, const std::set<std::string>& characters) {
  std::string vocabulary, special;
  int id = 0;
  for (const char* const token : {"<pad>", "<s>", "</s>", "<unk>"}) {
    const std::string separator = id == 0 ? "" : ",\n";
    vocabulary += separator + "[" + quoted(token) + ", 0.0]";
    special += separator + R"({"id": )" + std::to_string(id) + R"(, "content": )" + quoted(token) +
               R"(, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})";
    ++id;
  }
  for (const std::string& word : words) vocabulary += ",\n[" + quoted(word) + ", " + kWordScore + "]";
  for (const std::string& character : characters) {
    vocabulary += ",\n[" + quoted(character) + ", " + kCharacterScore + "]";
  }
  const std::string spaces = R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})";
  return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)" + special +
         R"(], "normalizer": null, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [)" + spaces +
         R"(, {"type": "Punctuation", "behavior": "Isolated"}]}, "post_processor": null, "decoder": )" + spaces +
         R"(, "model": {"type": "Unigram", "unk_id": )" + std::to_string(kUnknown) +
         ", \"byte_fallback\": false, \"vocab\": [\n" + vocabulary + "]}}\n";
}

}  // namespace

std::string tokenizer_json(const std::vector<std::string>& captions) {
  std::set<std::string> characters = {"▁"};
  for (char c = '!'; c <= '~'; ++c) characters.insert(std::string(1, c));
  for (const std::string& caption : captions) {
    for (const std::string& character : characters_of(caption)) characters.insert(character);
  }
  characters.erase(" ");
  // The words are those that the pre-tokenizer makes: a tokenizer of characters alone says where they begin.
  const headway::TextTokenizer speller = headway::TextTokenizer::from_json(unigram_json({}, characters));
  std::map<std::string, int> counts;
  for (const std::string& caption : captions) {
    const headway::TokenizedText tokens = speller.tokenize(caption);
    std::map<std::int64_t, std::string> words;
    for (std::size_t i = 0; i < tokens.ids.size(); ++i) words[tokens.words[i]] += speller.token(tokens.ids[i]);
    for (const auto& [number, word] : words) ++counts[word];
  }
  std::set<std::string> words;
  for (const auto& [word, count] : counts) {
    if (count >= kOftenEnough && !characters.contains(word)) words.insert(word);
  }
  return unigram_json(words, characters);
}

std::string tokenizer_config_json() {
  return R"({
  "tokenizer_class": "PreTrainedTokenizerFast",
  "bos_token": "<s>",
  "eos_token": "</s>",
  "pad_token": "<pad>",
  "unk_token": "<unk>",
  "clean_up_tokenization_spaces": false
}
)";
}

}  // namespace captions
