// The JSON files of a Marian model directory.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "headway/translation_model.h"

namespace headway::inline v0::internal {

// Reads a config.json; an Error names the file, the field, its value and what was expected. Settings of
// models that are not supported are refused.
TranslationModelOptions read_marian_config(const std::filesystem::path& file);

// What config.json and generation_config.json hold.
Json marian_config(const TranslationModelOptions& options);
Json marian_generation_config(const TranslationModelOptions& options);

}  // namespace headway::inline v0::internal
