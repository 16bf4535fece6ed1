// Sequences that were generated, and how to ask for them: ids in, ids out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "generate/decoding_batch.h"
#include "generate/token_rules.h"
#include "headway/text_generator.h"

namespace headway::inline v0::internal {

struct Generated {
  std::vector<std::int64_t> tokens = {};       // new ones; with the token that ended them
  std::vector<double> log_probabilities = {};  // of each, by the model
  double score = 0.0;                          // log-probability / length ^ length_penalty
  EndReason reason = EndReason::length;
};

struct SequenceRequest {
  BatchSequence sequence = {};
  std::int64_t most_new_tokens = 0;
};

struct GenerationOptions {
  std::int64_t beam = 1;
  std::int64_t num_return = 1;  // texts for each sequence: beams, or drawn ones
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::heuristic;
  bool samples = false;
  SampleRule rule = {};
  TokenRules rules = {};
  std::vector<std::int64_t> end_ids = {};
  std::optional<std::int64_t> excluded = {};  // a token that is never chosen; not where tokens are drawn
  std::int64_t batch_size = 32;
  // Called after every new token of a text, in order: whether the text ends here. Not with beams.
  std::function<bool(std::size_t request, std::int64_t text, std::int64_t token, double log_probability)> on_token = {};
  // Called before every step.
  std::function<void()> on_step = {};
  // Whether a text ends with these new tokens, for beams.
  std::function<bool(const std::vector<std::int64_t>& tokens)> stops = {};
  // Called with the attention of every step and, for its rows, their requests and texts. Not with beams.
  using RowTexts = std::vector<std::pair<std::size_t, std::int64_t>>;
  std::function<void(const RowTexts& rows, const StepAttention& attention)> on_attention = {};
};

// Texts for each request, in their order; the best first.
std::vector<std::vector<Generated>> generate_tokens(const StepDecoder& decoder,
                                                    const std::vector<SequenceRequest>& requests,
                                                    const GenerationOptions& options);

}  // namespace headway::inline v0::internal
