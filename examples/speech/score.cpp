#include "score.h"

#include <sstream>

namespace speech {
namespace {

std::int64_t total(const WordErrors& errors) { return errors.substitutions + errors.insertions + errors.deletions; }

const WordErrors& better(const WordErrors& a, const WordErrors& b) { return total(b) < total(a) ? b : a; }

}  // namespace

WordErrors& WordErrors::operator+=(const WordErrors& other) {
  words += other.words;
  substitutions += other.substitutions;
  insertions += other.insertions;
  deletions += other.deletions;
  return *this;
}

WordErrors word_errors(const std::vector<std::string>& reference, const std::vector<std::string>& heard) {
  std::vector<WordErrors> above(heard.size() +
                                1);  // of all words of the reference so far and the first j that were heard
  for (std::size_t j = 0; j < above.size(); ++j) above[j].insertions = static_cast<std::int64_t>(j);
  for (const std::string& word : reference) {
    std::vector<WordErrors> row(above.size());
    for (std::size_t j = 0; j < row.size(); ++j) {
      WordErrors best = above[j];
      ++best.deletions;
      if (j > 0) {
        WordErrors replaced = above[j - 1], added = row[j - 1];
        if (word != heard[j - 1]) ++replaced.substitutions;
        ++added.insertions;
        best = better(better(replaced, best), added);
      }
      row[j] = best;
    }
    above = row;
  }
  above.back().words = static_cast<std::int64_t>(reference.size());
  return above.back();
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace speech
