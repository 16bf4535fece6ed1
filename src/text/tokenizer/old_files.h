// Tokenizers of directories without a tokenizer.json: SentencePiece's models, and vocabularies as text.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace headway::inline v0::internal {

// A tokenizer.json, and the tokenizer_config.json beside it with what a family's tokenizer takes as given.
struct OldTokenizer {
  Json tokenizer = Json::object();
  Json config = Json::object();
  std::vector<std::pair<std::string, std::string>> files = {};  // names and bytes of those that were read
};

bool has_old_files(const std::filesystem::path& directory);

// Converts the files as transformers does for the family that tokenizer_class or config.json's model_type names.
OldTokenizer read_old_files(const std::filesystem::path& directory, const Json& config, const Json& special_tokens_map,
                            const Json& added_tokens);

}  // namespace headway::inline v0::internal
