// Making tokenizers.
#include "training/new_tokenizer.h"

#include <set>

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
#include "headway/tokenizer.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // of texts that pieces are learned from

// Texts evenly spread over all, of at most kMostBytes.
std::vector<std::string> sample_of(const std::vector<std::string>& texts) {
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  const std::size_t every = bytes / kMostBytes + 1;
  std::vector<std::string> sample;
  for (std::size_t i = 0; i < texts.size(); i += every) sample.push_back(texts[i]);
  return sample;
}

// SentencePiece's model with the ids that T5 has, and the config that names the class.
void write_pieces(const FineTuneConfig& config, const std::vector<std::string>& texts, const fs::path& directory) {
  PieceTrainingOptions options;
  options.kind = config.new_tokenizer == NewTokenizer::bpe ? PieceKind::bpe : PieceKind::unigram;
  options.vocab_size = config.vocab_size;
  options.character_coverage = 0.9995;
  options.byte_fallback = false;
  options.ids = {.unk = 2, .eos = 1, .pad = 0};
  SentencePieces::train(sample_of(texts), directory / "spiece.model", options);
  const Json about = {{"tokenizer_class", "T5Tokenizer"},
                      {"eos_token", "</s>"},
                      {"unk_token", "<unk>"},
                      {"pad_token", "<pad>"},
                      {"extra_ids", 0},
                      {"model_max_length", config.max_length > 0 ? config.max_length : 512}};
  replace_file(directory / "tokenizer_config.json", about.text(2) + "\n");
}

void write_characters(const std::vector<std::string>& texts, const fs::path& directory) {
  replace_file(directory / "tokenizer.json", character_tokenizer_json(texts));
  const Json about = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  replace_file(directory / "tokenizer_config.json", about.text(2) + "\n");
}

}  // namespace

std::string character_tokenizer_json(const std::vector<std::string>& texts) {
  std::set<char32_t> characters;
  for (const std::string& text : texts) {
    for (std::string_view rest = text; !rest.empty();) characters.insert(next_character(rest));
  }
  check(!characters.empty(), "the training texts have no characters");
  Json vocabulary = Json::object();
  std::int64_t id = 0;
  for (const char32_t character : characters) {
    std::string token;
    append_utf8(token, character);
    vocabulary.set(token, id++);
  }
  // A byte-pair encoding without merges splits into characters; the decoder joins them without spaces.
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", vocabulary},
                      {"merges", Json::array()}};
  const Json all = {
      {"version", "1.0"},      {"truncation", nullptr},    {"padding", nullptr},        {"added_tokens", Json::array()},
      {"normalizer", nullptr}, {"pre_tokenizer", nullptr}, {"post_processor", nullptr}, {"decoder", {{"type", "Fuse"}}},
      {"model", model}};
  return all.text(2) + "\n";
}

TextTokenizer make_tokenizer(const FineTuneConfig& config, const std::vector<std::string>& texts,
                             const fs::path& directory) {
  replace_directory(directory, [&](const fs::path& unfinished) {
    if (config.new_tokenizer == NewTokenizer::characters) {
      write_characters(texts, unfinished);
    } else {
      write_pieces(config, texts, unfinished);
    }
  });
  return TextTokenizer::load(directory);
}

}  // namespace headway::inline v0::internal
