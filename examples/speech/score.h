// Word errors, as speech recognition counts them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace speech {

struct WordErrors {
  std::int64_t words = 0;  // of the references
  std::int64_t substitutions = 0;
  std::int64_t insertions = 0;
  std::int64_t deletions = 0;

  double rate() const {
    return static_cast<double>(substitutions + insertions + deletions) / static_cast<double>(words > 0 ? words : 1);
  }
  WordErrors& operator+=(const WordErrors& other);
};

// The fewest words to replace, to leave out and to add.
WordErrors word_errors(const std::vector<std::string>& reference, const std::vector<std::string>& heard);

// The words of a text between its spaces.
std::vector<std::string> words_of(const std::string& text);

}  // namespace speech
