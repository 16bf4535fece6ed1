// Text to tokens and back: SentencePiece models, and the tokenizer of a Marian model directory. Part of
// libheadway_text (CMake: headway::text).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

enum class PieceKind { unigram, bpe };

// Ids of the special pieces; -1: there is none.
struct SpecialPieces {
  std::int64_t unk = 0;
  std::int64_t eos = 1;
  std::int64_t pad = -1;
};

struct PieceTrainingOptions {
  PieceKind kind = PieceKind::unigram;
  std::int64_t vocab_size = 8000;
  double character_coverage = 1.0;         // share of the sentences' characters that pieces cover
  bool byte_fallback = true;               // characters without a piece become their UTF-8 bytes instead of <unk>
  std::string normalization = "nmt_nfkc";  // SentencePiece's rule: nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf, identity
  SpecialPieces ids = {};
};

// A SentencePiece model. Copying it shares it; members may be called from several threads at once.
class HEADWAY_API SentencePieces {
 public:
  static SentencePieces load(const std::filesystem::path& file);
  // Learns pieces from sentences (UTF-8) and writes the model to `file`. The same sentences produce the same bytes with
  // any number of threads.
  static SentencePieces train(const std::vector<std::string>& sentences, const std::filesystem::path& file,
                              const PieceTrainingOptions& options = {});

  std::int64_t size() const;
  // The piece of an id, 0 .. size() - 1.
  std::string piece(std::int64_t id) const;
  // Pieces of a text; invalid UTF-8 becomes U+FFFD.
  std::vector<std::string> encode(std::string_view text) const;
  // The text of pieces; a piece that the model does not have is copied as it is.
  std::string decode(const std::vector<std::string>& pieces) const;
  // The bytes of the model file.
  const std::string& bytes() const;

 private:
  friend class TranslationTokenizer;
  struct Model;
  explicit SentencePieces(std::shared_ptr<const Model> model);
  std::shared_ptr<const Model> model_;
};

// The tokenizer of a Marian model directory: source.spm, target.spm, vocab.json and tokenizer_config.json. vocab.json
// gives every piece its id. A text may begin with a target language's code, as ">>deu<<", which is one token.
class HEADWAY_API TranslationTokenizer {
 public:
  // The same pieces for both sides. The ids are, in this order: </s>, <unk>, the pieces, the language codes, <pad>.
  TranslationTokenizer(const SentencePieces& joint, const std::vector<std::string>& language_codes);

  static TranslationTokenizer load(const std::filesystem::path& directory);
  // Writes the four files.
  void save(const std::filesystem::path& directory) const;

  std::int64_t size() const;  // of the vocabulary
  std::int64_t eos_id() const;
  std::int64_t unk_id() const;
  std::int64_t pad_id() const;
  // The language codes in the vocabulary, as "deu", "eng"; empty for a model of one direction.
  const std::vector<std::string>& languages() const;
  std::string token(std::int64_t id) const;

  // Ids of a source text with </s> at the end; a `language`, as "deu", puts its code in front.
  std::vector<std::int64_t> encode_source(std::string_view text, std::string_view language = {}) const;
  // Ids of a target text with </s> at the end.
  std::vector<std::int64_t> encode_target(std::string_view text) const;
  // The text of target ids; special tokens are left out.
  std::string decode_target(const std::vector<std::int64_t>& ids) const;

 private:
  struct Vocabulary;
  explicit TranslationTokenizer(std::shared_ptr<const Vocabulary> vocabulary);
  std::shared_ptr<const Vocabulary> vocabulary_;
};

}  // namespace v0
}  // namespace headway
