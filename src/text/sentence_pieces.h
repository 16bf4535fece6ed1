// The model behind SentencePieces.
#pragma once

#include <sentencepiece_processor.h>

#include <string>

#include "headway/tokenizer.h"

namespace headway::inline v0 {

struct SentencePieces::Model {
  sentencepiece::SentencePieceProcessor processor = {};
  std::string bytes = {};

  // A model out of a file's bytes; an Error begins with `about`.
  static std::shared_ptr<const Model> parse(std::string bytes, const std::string& about);
};

}  // namespace headway::inline v0
