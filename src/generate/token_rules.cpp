#include "generate/token_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headway::inline v0::internal {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

using Tokens = std::span<const std::int64_t>;

float* score_of(std::span<float> scores, std::int64_t token) {
  const bool is_there = token >= 0 && token < static_cast<std::int64_t>(scores.size());
  return is_there ? &scores[static_cast<std::size_t>(token)] : nullptr;
}

void suppress(std::span<float> scores, const std::vector<std::int64_t>& tokens) {
  for (const std::int64_t token : tokens) {
    if (float* score = score_of(scores, token)) *score = kNever;
  }
}

// Everything but some tokens, whose score becomes zero.
void force(std::span<float> scores, const std::vector<std::int64_t>& tokens) {
  std::fill(scores.begin(), scores.end(), kNever);
  for (const std::int64_t token : tokens) {
    if (float* score = score_of(scores, token)) *score = 0;
  }
}

void add_bias(const std::vector<std::int64_t>& sequence, double bias, Tokens text, std::span<float> scores) {
  if (sequence.empty() || text.size() + 1 < sequence.size()) return;
  const std::size_t before = sequence.size() - 1;
  if (!std::equal(sequence.begin(), sequence.end() - 1, text.end() - static_cast<std::ptrdiff_t>(before))) return;
  if (float* score = score_of(scores, sequence.back())) *score += static_cast<float>(bias);
}

void penalize(Tokens text, float penalty, std::span<float> scores) {
  std::vector<std::int64_t> seen(text.begin(), text.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const std::int64_t token : seen) {
    if (float* score = score_of(scores, token)) *score = *score < 0 ? *score * penalty : *score / penalty;
  }
}

void ban_repeated(Tokens text, std::size_t n, std::span<float> scores) {
  if (text.size() + 1 < n) return;
  const Tokens last = text.last(n - 1);
  for (std::size_t i = 0; i + n <= text.size(); ++i) {
    if (!std::equal(last.begin(), last.end(), text.begin() + static_cast<std::ptrdiff_t>(i))) continue;
    if (float* score = score_of(scores, text[i + n - 1])) *score = kNever;
  }
}

}  // namespace

bool TokenRules::any() const {
  return !bias.empty() || repetition_penalty != 1.0 || no_repeat_ngram > 0 || forced_first || !forced_last.empty() ||
         !suppressed.empty() || !suppressed_first.empty() ||
         (!end_ids.empty() && (min_length > 0 || min_new_tokens > 0));
}

void TokenRules::apply(const Text& text, std::span<float> scores) const {
  const auto length = static_cast<std::int64_t>(text.tokens.size());
  for (const auto& [sequence, value] : bias) add_bias(sequence, value, text.tokens, scores);
  if (repetition_penalty != 1.0) penalize(text.tokens, static_cast<float>(repetition_penalty), scores);
  if (no_repeat_ngram > 0) ban_repeated(text.tokens, static_cast<std::size_t>(no_repeat_ngram), scores);
  if (length < min_length || length - text.prompt_length < min_new_tokens) suppress(scores, end_ids);
  if (forced_first && length == 1) force(scores, {*forced_first});
  if (!forced_last.empty() && length == text.max_length - 1) force(scores, forced_last);
  suppress(scores, suppressed);
  const bool begins_later = text.prompt_length <= 1 && forced_first;
  if (length == text.prompt_length + (begins_later ? 1 : 0)) suppress(scores, suppressed_first);
}

}  // namespace headway::inline v0::internal
