// Tokenizers that are made from the training texts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "headway/fine_tuning.h"
#include "headway/text_tokenizer.h"

namespace headway::inline v0::internal {

// Makes the tokenizer that the config asks for and writes it to `directory`, in files that Hugging Face reads too.
TextTokenizer make_tokenizer(const FineTuneConfig& config, const std::vector<std::string>& texts,
                             const std::filesystem::path& directory);

// The text of a tokenizer.json with one token for each character of the texts, in the order of code points.
std::string character_tokenizer_json(const std::vector<std::string>& texts);

}  // namespace headway::inline v0::internal
