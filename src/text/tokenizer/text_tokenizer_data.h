// What a TextTokenizer is made of.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headway/text_tokenizer.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/token_model.h"

namespace headway::inline v0 {
namespace internal {

// Buffers of one call, kept for the next.
struct TokenizerSpare {
  NormalizedText normalized = {};
  SplitText split = {};
  SplitSpare pre_tokenizer = {};
  ModelSpare model = {};
  std::vector<WordToken> tokens = {};
};

// The special tokens by their names in tokenizer_config.json.
struct SpecialTokens {
  std::optional<std::int64_t> bos, eos, pad, unk, cls, sep, mask;
};

}  // namespace internal

struct TextTokenizer::Data {
  std::unique_ptr<internal::TextNormalizer> normalizer;
  std::unique_ptr<internal::PreTokenizer> pre_tokenizer;
  std::unique_ptr<internal::TokenModel> model;
  internal::AddedTokens added;
  internal::PostProcessor post_processor;
  std::vector<std::unique_ptr<internal::DecoderStep>> decoder;
  std::int64_t size = 0;
  internal::SpecialTokens specials;
  std::optional<std::int64_t> max_length;
  std::vector<std::pair<std::string, std::string>> files;  // names and bytes, as save() writes them

  // The parts of a tokenizer.json; Errors begin with `about`.
  void read(const internal::Json& json, const std::string& about);

  // The token of an id as decoders see it; empty where there is none.
  std::string_view decoded_token(std::uint32_t id) const;
  std::int64_t find(std::string_view token) const;
  // Gives the token of an id to a decoding, unless it is special and those are skipped.
  void decode(std::int64_t id, bool skip_special_tokens, internal::Decoding& decoding) const;

  // Calls body(spare) with buffers that nobody else uses at the time.
  template <typename Body>
  auto with_spare(const Body& body) const {
    const Borrowed borrowed(*this);
    return body(*borrowed.spare);
  }
  // The splits of a valid text in spare.split.
  void split(std::string_view text, bool aligned, internal::TokenizerSpare& spare) const;
  // The tokens of a text.
  internal::EncodedText encode(std::string_view text) const;

 private:
  struct Borrowed {
    explicit Borrowed(const Data& data);
    ~Borrowed();
    const Data& data;
    std::unique_ptr<internal::TokenizerSpare> spare;
  };
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<internal::TokenizerSpare>> spares_;
};

}  // namespace headway::inline v0
