// One batch of sequences that are decoded together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "generate/decoding_buffers.h"
#include "generate/step_decoder.h"

namespace headway::inline v0::internal {

// A text that is continued: its tokens so far and, where the model has an encoder, its source.
struct BatchSequence {
  std::vector<std::int64_t> prompt;                   // one token or more
  const std::vector<std::int64_t>* source = nullptr;  // token ids
  const Tensor* features = nullptr;  // in the place of source: [channels, height, width] or [bins, frames]
  std::int64_t number = 0;           // for random draws
  const KeptTokens* kept = nullptr;  // keys and values of the prompt's first tokens; null: none
};

struct BatchOptions {
  std::int64_t forks = 1;        // hypotheses of every sequence, at most
  bool forked = false;           // all of them begin with the first step, as drawn texts do; else one does, as beams do
  std::int64_t most_tokens = 0;  // the longest of all, prompts included
  std::int64_t best = 1;         // candidates of every row
  std::optional<std::int64_t> excluded = {};  // a token that is never chosen
};

// Rows are hypotheses. A row belongs to a slot, which is the place of its sequence in the batch.
class DecodingBatch {
 public:
  DecodingBatch(const StepDecoder& decoder, std::vector<BatchSequence> sequences, const BatchOptions& options);
  ~DecodingBatch();
  DecodingBatch(const DecodingBatch&) = delete;
  DecodingBatch& operator=(const DecodingBatch&) = delete;

  std::int64_t rows() const { return static_cast<std::int64_t>(slots_.size()); }

  // ---- steps that choose by themselves: StepEnd::best and StepEnd::sample ----
  // The number of steps before the host reads the chosen tokens, of which there are `length`: waiting for a device
  // takes time, and steps after the end of a text do too. Long texts are looked at less often.
  std::int64_t steps_at_once(std::int64_t length) const {
    return decoder_.weights().device().is_cpu() ? 1 : std::clamp<std::int64_t>(length / 4, 4, 16);
  }
  struct ChosenTokens {
    Tensor tokens;  // [steps, rows or more] int64, on the CPU
    Tensor scores;  // [steps, rows or more] float32: log-probabilities
  };
  void set_rule(const SampleRule& rule) { buffers_->set_rule(rule); }
  // Takes `steps` steps; the first one of all takes the prompts. The next call may change the result.
  ChosenTokens take_steps(std::int64_t steps, StepEnd end);
  // Whether steps of this many rows would be smaller than the present ones.
  bool has_smaller_step(std::int64_t rows) const { return buffers_->padded(rows) < buffers_->padded(this->rows()); }
  // Continues with fewer rows: row i is the former row kept[i].
  void keep_rows(const std::vector<std::int64_t>& kept);

  // ---- steps after which the host chooses: StepEnd::candidates and StepEnd::logits ----
  // Row i continues row parents[i] of the step before with tokens[i]; its sequence is that of slots[i].
  struct NextRows {
    std::vector<std::int64_t> tokens;
    std::vector<std::int64_t> parents;
    std::vector<std::int64_t> slots;
  };
  const std::vector<std::int64_t>& slots() const { return slots_; }
  // What the next step continues with; not before the first one, which takes the prompts.
  void set_next(const NextRows& next);
  // The best next tokens after one more step, on the CPU. The next call may change them.
  TopTokens step_to_candidates();
  // The logits [rows, vocab_size] after one more step, float32 on the CPU. The next call may change them.
  Tensor step_to_logits();
  // The same, with the attention of that step.
  Tensor step_to_logits(StepAttention& attention);

  // Keys and values of a sequence's first `count` tokens, which have been taken.
  KeptTokens keep_tokens(std::int64_t slot, std::int64_t count) const;

 private:
  void step(StepEnd end, StepAttention* attention = nullptr);
  // The first step: whole prompts, or all of them but their last tokens where these are to be a step of their own.
  void take_prompts(StepEnd end, bool all);
  bool has_single_tokens() const;
  // The state of all rows for the next step.
  RowState row_state(const NextRows& next) const;

  const StepDecoder& decoder_;
  std::vector<BatchSequence> sequences_;  // (slots)
  BatchOptions options_;
  std::unique_ptr<DecodingBuffers> buffers_;
  std::vector<std::int64_t> slots_;  // (rows)
  std::int64_t steps_ = 0;           // so far
  bool reorders_ = false;            // the next step's rows are not those of the step before
};

}  // namespace headway::inline v0::internal
