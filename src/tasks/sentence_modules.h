// Directories of sentence-transformers: modules.json and the modules' own configurations.
#pragma once

#include <filesystem>

#include "headway/text_encoder.h"

namespace headway::inline v0::internal {

struct SentenceModules {
  std::filesystem::path transformer;  // the directory of the model
  TextEncoderOptions options;
};

// Whether a directory has a modules.json.
bool has_sentence_modules(const std::filesystem::path& directory);
// Reads Transformer, Pooling, Dense and Normalize modules, lengths and prompts. Errors name the file and the module
// that is not supported.
SentenceModules read_sentence_modules(const std::filesystem::path& directory);
// Writes modules.json and the modules but the model itself, each file atomically.
void write_sentence_modules(const std::filesystem::path& directory, const TextEncoderOptions& options,
                            std::int64_t hidden_width);

}  // namespace headway::inline v0::internal
