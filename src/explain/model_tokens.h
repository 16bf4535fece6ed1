// Tokens of any tokenizer in the form that drawings understand: U+2581 marks the beginning of a word.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/internal_api.h"
#include "headway/text_tokenizer.h"

namespace headway::inline v0::internal {

// Each token as the characters of the text that it stands for; special tokens by their names. `texts` are the one or
// two texts that were tokenized.
std::vector<std::string> shown_tokens(const TextTokenizer& tokenizer, const TokenizedText& tokens,
                                      const std::vector<std::string>& texts);
// The same of a token without its text.
HEADWAY_INTERNAL_API std::string shown_token(const TextTokenizer& tokenizer, std::int64_t id);

}  // namespace headway::inline v0::internal
