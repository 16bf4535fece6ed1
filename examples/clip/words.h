// A tokenizer of whole words, made from captions, and captions as tokens.
#pragma once

#include <headway/text.h>

#include <cctype>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace emoji {

using headway::Tensor;

constexpr std::int64_t kPadding = 0, kUnknown = 1, kStart = 2, kEnd = 3;

// A tokenizer.json with these words after the four special ones: lower case, punctuation apart.
inline std::string tokenizer_json(const std::vector<std::string>& words) {
  std::ostringstream json;
  json << R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)";
  const std::vector<std::string> special = {"<pad>", "<unk>", "<start>", "<end>"};
  for (std::size_t i = 0; i < special.size(); ++i) {
    json << (i > 0 ? ", " : "") << "{\"id\": " << i << ", \"content\": \"" << special[i]
         << R"(", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})";
  }
  json
      << R"(], "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "BertPreTokenizer"},)"
      << R"( "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<start>",)"
      << R"( "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<end>", "type_id": 0}}],)"
      << R"( "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],)"
      << R"( "special_tokens": {"<start>": {"id": "<start>", "ids": [2], "tokens": ["<start>"]},)"
      << R"( "<end>": {"id": "<end>", "ids": [3], "tokens": ["<end>"]}}}, "decoder": null,)"
      << R"( "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {)";
  std::size_t id = 0;
  for (const std::string& word : special) json << (id > 0 ? ", " : "") << '"' << word << "\": " << id, ++id;
  for (const std::string& word : words) {
    json << ", \"" << (word == "\"" || word == "\\" ? "\\" : "") << word << "\": " << id++;
  }
  json << "}}}";
  return json.str();
}

// The words of the captions in alphabetical order, as the tokenizer takes texts apart.
inline headway::TextTokenizer tokenizer_of(const std::vector<std::string>& captions) {
  const headway::TextTokenizer empty = headway::TextTokenizer::from_json(tokenizer_json({}));
  std::set<std::string> words;
  for (const std::string& caption : captions) {
    for (const headway::TokenOffsets& place : empty.tokenize(caption, {.special_tokens = false}).offsets) {
      std::string word =
          caption.substr(static_cast<std::size_t>(place.begin), static_cast<std::size_t>(place.end - place.begin));
      for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      words.insert(word);
    }
  }
  return headway::TextTokenizer::from_json(tokenizer_json({words.begin(), words.end()}));
}

// Texts of one batch with <pad> behind the shorter ones.
struct TokenBatch {
  Tensor tokens;  // [batch, length]
  std::vector<std::int64_t> lengths;
};

inline TokenBatch token_batch(const headway::TextTokenizer& tokenizer, const std::vector<std::string>& texts,
                              std::int64_t longest) {
  std::vector<std::vector<std::int64_t>> rows;
  std::size_t length = 0;
  for (const std::string& text : texts) {
    rows.push_back(tokenizer.tokenize(text, {.max_length = longest}).ids);
    length = std::max(length, rows.back().size());
  }
  TokenBatch batch;
  std::vector<std::int64_t> ids;
  for (std::vector<std::int64_t>& row : rows) {
    batch.lengths.push_back(static_cast<std::int64_t>(row.size()));
    row.resize(length, kPadding);
    ids.insert(ids.end(), row.begin(), row.end());
  }
  batch.tokens = Tensor::from(ids, {static_cast<std::int64_t>(texts.size()), static_cast<std::int64_t>(length)});
  return batch;
}

}  // namespace emoji
