// Rules that change the scores of the next token, as Hugging Face's logits processors do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace headway::inline v0::internal {

struct TokenRules {
  std::vector<std::pair<std::vector<std::int64_t>, double>> bias = {};  // added to the last token of each sequence
  double repetition_penalty = 1.0;   // scores of tokens that are there already are divided by it, or multiplied
  std::int64_t no_repeat_ngram = 0;  // no n tokens occur twice; 0: no rule
  std::vector<std::int64_t> end_ids = {};
  std::int64_t min_length = 0;  // of the whole text, its prompt included: no end before
  std::int64_t min_new_tokens = 0;
  std::optional<std::int64_t> forced_first = {};  // after a prompt of one token
  std::vector<std::int64_t> forced_last = {};     // where max_length is reached
  std::vector<std::int64_t> suppressed = {};
  std::vector<std::int64_t> suppressed_first = {};

  // Whether there is a rule at all.
  bool any() const;
  // The text so far, its prompt's length, and the most tokens that it may have.
  struct Text {
    std::span<const std::int64_t> tokens;
    std::int64_t prompt_length = 0;
    std::int64_t max_length = 0;
  };
  // scores (classes): logits, or log-probabilities in a beam search.
  void apply(const Text& text, std::span<float> scores) const;
};

}  // namespace headway::inline v0::internal
