// Plain text as one stream of tokens, for language models and masked words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headway/fine_tuning.h"
#include "headway/text_tokenizer.h"
#include "training/training_task.h"

namespace headway::inline v0::internal {

struct TextParts {
  std::string training;
  std::string validation;
  std::string test;

  const std::string& of(DataPart part) const;
  std::string digest() const;
  std::string describe() const;
};
// Reads the texts that the config names; validation_share counts characters.
TextParts read_text_parts(const FineTuneConfig& config);

// The text in pieces of some kilobytes that end with a line, as far as there are lines.
std::vector<std::string_view> stream_pieces(std::string_view text);
// All tokens of a text without special ones, tokenized piece by piece on all threads.
std::vector<std::int32_t> encode_stream(const TextTokenizer& tokenizer, std::string_view text);

}  // namespace headway::inline v0::internal
