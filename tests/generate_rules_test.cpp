// Rules of generation, each on scores that are easy to follow.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "generate/token_rules.h"

namespace {

using headway::internal::TokenRules;
using Ids = std::vector<std::int64_t>;
using Scores = std::vector<float>;

constexpr float kNever = -std::numeric_limits<float>::infinity();

Scores applied(const TokenRules& rules, const Ids& text, Scores scores, std::int64_t prompt = 1,
               std::int64_t max_length = 100) {
  rules.apply({.tokens = text, .prompt_length = prompt, .max_length = max_length}, scores);
  return scores;
}

TEST(TokenRules, WithoutAnyNothingChanges) {
  EXPECT_FALSE(TokenRules().any());
  EXPECT_FALSE(TokenRules{.end_ids = {3}}.any());
  EXPECT_EQ(applied({}, {0}, {1, 2, 3}), (Scores{1, 2, 3}));
}

TEST(TokenRules, RepetitionIsPenalisedOnce) {
  const TokenRules rules = {.repetition_penalty = 2.0};
  EXPECT_TRUE(rules.any());
  EXPECT_EQ(applied(rules, {0, 2, 0, 99}, {4, 3, -1}), (Scores{2, 3, -2}));
}

TEST(TokenRules, NGramsOccurOnce) {
  const TokenRules rules = {.no_repeat_ngram = 2};
  EXPECT_EQ(applied(rules, {1, 2, 1}, {0, 0, 0, 0}), (Scores{0, 0, kNever, 0}));
  EXPECT_EQ(applied(rules, {1}, {0, 0}), (Scores{0, 0}));
  const TokenRules words = {.no_repeat_ngram = 1};
  EXPECT_EQ(applied(words, {1, 3}, {0, 0, 0, 0}), (Scores{0, kNever, 0, kNever}));
}

TEST(TokenRules, BiasOfTokensAndOfSequences) {
  const TokenRules rules = {.bias = {{{1}, 2.5}, {{3, 0}, kNever}, {{2, 3, 2}, -1}}};
  EXPECT_EQ(applied(rules, {2, 3}, {0, 0, 0, 0}), (Scores{kNever, 2.5, -1, 0}));
  EXPECT_EQ(applied(rules, {3}, {0, 0, 0, 0}), (Scores{kNever, 2.5, 0, 0}));
  EXPECT_EQ(applied(rules, {3, 1}, {0, 0, 0, 0}), (Scores{0, 2.5, 0, 0}));
}

TEST(TokenRules, LengthsAreKept) {
  const TokenRules least = {.end_ids = {1, 2}, .min_length = 3};
  EXPECT_EQ(applied(least, {5, 5}, {0, 0, 0}), (Scores{0, kNever, kNever}));
  EXPECT_EQ(applied(least, {5, 5, 5}, {0, 0, 0}), (Scores{0, 0, 0}));
  const TokenRules fresh = {.end_ids = {1}, .min_new_tokens = 2};
  EXPECT_EQ(applied(fresh, {5, 5, 5}, {0, 0}, 2), (Scores{0, kNever}));
  EXPECT_EQ(applied(fresh, {5, 5, 5, 5}, {0, 0}, 2), (Scores{0, 0}));
}

TEST(TokenRules, TokensAreForcedAndSuppressed) {
  const TokenRules forced = {.forced_first = 2, .forced_last = {0}};
  EXPECT_EQ(applied(forced, {9}, {5, 5, 5}), (Scores{kNever, kNever, 0}));
  EXPECT_EQ(applied(forced, {9, 2}, {5, 5, 5}), (Scores{5, 5, 5}));
  EXPECT_EQ(applied(forced, {9, 2, 1}, {5, 5, 5}, 1, 4), (Scores{0, kNever, kNever}));
  const TokenRules suppressed = {.suppressed = {1, 77}, .suppressed_first = {0}};
  EXPECT_EQ(applied(suppressed, {9}, {5, 5, 5}), (Scores{kNever, kNever, 5}));
  EXPECT_EQ(applied(suppressed, {9, 2}, {5, 5, 5}), (Scores{5, kNever, 5}));
}

}  // namespace
