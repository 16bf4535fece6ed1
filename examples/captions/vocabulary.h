// The tokenizer of the captions, as a tokenizer.json.
#pragma once

#include <string>
#include <vector>

namespace captions {

// The ids of the special tokens.
constexpr int kPad = 0, kBegin = 1, kEnd = 2, kUnknown = 3;

// A Unigram tokenizer: each word and each mark of punctuation that occurs at least twice is a token, and so is every
// character. A word that is not among them is spelled, by as few tokens as can be.
std::string tokenizer_json(const std::vector<std::string>& captions);
// Its tokenizer_config.json.
std::string tokenizer_config_json();

}  // namespace captions
