// The buffers that a decoder's steps read and write. They stay on the device, where steps are replayed as graphs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "generate/decoder_weights.h"
#include "generate/rotation_table.h"
#include "headway/device.h"
#include "ops/decoding.h"

namespace headway::inline v0::internal {

// The sizes of the buffers.
struct BufferSize {
  std::int64_t sources = 0;        // 0: a decoder alone
  std::int64_t rows = 0;           // hypotheses of all sequences
  std::int64_t source_length = 0;  // tokens of a source
  std::int64_t tokens = 0;         // tokens of a hypothesis, its prompt included
  std::int64_t best = 1;           // candidates of every row

  bool holds(const BufferSize& other) const {
    return sources >= other.sources && rows >= other.rows && source_length >= other.source_length &&
           tokens >= other.tokens && best == other.best;
  }
};

// What a step ends with.
enum class StepEnd {
  best,        // every row takes its most likely token
  sample,      // every row draws a token
  candidates,  // the best `size.best` tokens of every row, from which the host chooses
  logits,      // the logits themselves
};

// What changes from step to step, for each row. Rows past the last are computed on some devices and not used.
struct RowState {
  std::vector<std::int64_t> positions = {};  // of the newest tokens
  std::vector<std::int64_t> newest = {};
  std::vector<std::int64_t> parents;         // the row of the step before that each row continues
  std::vector<std::int64_t> entries = {};    // where each row puts its keys and values
  std::vector<std::int64_t> sequences = {};  // numbers for the random draws
  std::vector<std::int64_t> sources;         // of each row, where there are sources
};

// Tokens of a prompt, or of a part of it, that are taken at once.
struct PromptPart {
  std::int64_t entry = 0;
  std::int64_t past = 0;  // tokens that the entry has already
  std::span<const std::int64_t> tokens = {};
  std::int64_t source = 0;
  std::int64_t length = 0;  // of the whole prompt
};

// Tokens of several prompts end to end, each a row.
struct PackedPrompts {
  PackedPrompts(std::span<const PromptPart> prompts, Device device);

  std::span<const PromptPart> prompts;
  Tensor tokens;                     // [rows] int64
  Tensor positions;                  // [rows] int64
  Tensor entries;                    // [rows] int32
  Tensor sources;                    // [rows] int32
  std::vector<std::int64_t> counts;  // tokens of each prompt
  std::vector<std::size_t> ending;   // prompts whose last token is here
  std::vector<std::int64_t> ends;    // the rows of those tokens
  std::vector<Tensor> rotations;     // one for each of the weights' rotaries
  std::int64_t last_position = 0;    // one past the largest
};

// Keys and values of some tokens, one tensor per layer: [tokens, 2 * kv_heads * head_dim].
using KeptTokens = std::vector<Tensor>;

// The attention of one step: per layer [rows, heads, tokens] of the longest row, zeros past a row's own tokens.
struct StepAttention {
  std::vector<Tensor> self;
  std::vector<Tensor> cross;  // over source tokens; empty without sources
};

// Tensors that are reused from batch to batch, and the steps that were recorded on them.
class DecodingBuffers {
 public:
  // The weights must outlive the buffers.
  DecodingBuffers(const DecoderWeights& weights, const BufferSize& size);
  DecodingBuffers(const DecodingBuffers&) = delete;
  DecodingBuffers& operator=(const DecodingBuffers&) = delete;

  const BufferSize& size() const { return size_; }
  // Sets the sources: memory (count, length, width), of which each layer keeps keys and values, and lengths (count).
  void set_sources(const Tensor& memory, const std::vector<std::int64_t>& lengths);
  // The number of steps so far, which the history and random draws count by.
  void set_step(std::int64_t step);
  void set_rows(const RowState& rows);
  // Row r's first lengths[r] tokens are those of entry entries[r].
  void set_origins(const std::vector<std::int64_t>& entries, const std::vector<std::int64_t>& lengths);
  // Row i becomes the former row kept[i], between steps.
  void keep_rows(const std::vector<std::int64_t>& kept);
  void set_rule(const SampleRule& rule);
  // A token that is never chosen.
  void set_excluded(std::optional<std::int64_t> token);

  // Puts the tokens of prompts into their entries; returns the hidden states of those tokens with which prompts end
  // (prompts that end, width), in order.
  Tensor prefill(std::span<const PromptPart> prompts);
  // The end of a step, for hidden states (rows, width) that prefill() returned.
  void finish(const Tensor& hidden, StepEnd end);
  // Copies of an entry's first `count` tokens, and such copies back into an entry.
  KeptTokens copy_entry(std::int64_t entry, std::int64_t count) const;
  void restore_entry(std::int64_t entry, const KeptTokens& tokens);

  // One step of at least `rows` rows at positions below `end_position`: recorded at the second call of its kind,
  // replayed from then on. `reorders`: rows continue their parents.
  void step(std::int64_t rows, StepEnd end, bool reorders, std::int64_t end_position);
  // The same, with the attention of that step; it is never recorded.
  StepAttention step_with_weights(std::int64_t rows, StepEnd end, bool reorders, std::int64_t end_position);
  // How many rows a step of `rows` computes.
  std::int64_t padded(std::int64_t rows) const;

  // The tokens that steps of `rows` rows have chosen; the candidates, and the logits, of the last step.
  TokenHistory history(std::int64_t rows) const;
  TopTokens top(std::int64_t rows) const;
  Tensor logits(std::int64_t rows) const { return logits_.slice(0, 0, rows); }

 private:
  struct StepKind {
    std::int64_t rows;
    StepEnd end;
    bool reorders;
    auto operator<=>(const StepKind&) const = default;  // NOLINT(modernize-use-nullptr): of what it stands for
  };
  // What rows see, on the host.
  struct RowTables {
    std::vector<std::int64_t> lengths;  // tokens of each row, its newest included
    Tensor origins;                     // [rows, tokens] int32
    std::vector<std::int64_t> sources;
    std::vector<std::int64_t> source_lengths;  // of the sources
  };
  struct Step {
    std::int64_t uses = 0;
    DeviceGraph graph = {};
  };

  // Memory that must be there before a step is recorded.
  void prepare_step(StepEnd end, std::int64_t end_position);
  void compute(const StepKind& kind);
  void end_step(const Tensor& logits, std::int64_t rows, StepEnd end);
  // What a layer needs to append `projected`, whose rows are hypotheses.
  CacheAppend append_of(std::size_t layer, const Tensor& projected) const;
  Tensor prefill_pass(std::span<const PromptPart> prompts);
  void append_prompts(std::size_t layer, const Tensor& projected, const PackedPrompts& packed);
  Tensor attend_sources(std::size_t layer, const Tensor& query, const Tensor& source_of) const;
  // projected [rows, features] -> [rows, heads * head_dim], with the weights [rows, heads, tokens] of all rows.
  Tensor attend_with_weights(std::size_t layer, const Tensor& projected, const RowTables& tables,
                             Tensor& weights) const;
  Tensor attend_source_with_weights(std::size_t layer, const Tensor& query, const RowTables& tables,
                                    Tensor& weights) const;
  Tensor step_of() const { return state_.slice(0, 0, 1); }
  // Part `part` of the state, of some rows.
  Tensor state_of(std::int64_t part, std::int64_t rows) const {
    return state_.slice(0, 1 + part * size_.rows, 1 + part * size_.rows + rows);
  }
  Tensor positions(std::int64_t rows) const { return state_of(0, rows); }
  Tensor newest(std::int64_t rows) const { return state_of(1, rows); }
  Tensor parents(std::int64_t rows) const { return state_of(2, rows); }
  Tensor sequences(std::int64_t rows) const { return state_of(3, rows); }

  const DecoderWeights& weights_;
  BufferSize size_;
  std::vector<Tensor> past_;              // per layer (rows, tokens, 2 * kv_heads * head_dim): keys, then values
  std::vector<Tensor> memory_;            // per layer (sources, source_length, likewise)
  std::vector<RotationTable> rotations_;  // one for each of the weights' rotaries
  Tensor origins_;                        // (rows, tokens) int32: the entry in which each token of a row is
  Tensor entries_;                        // (rows) int32
  Tensor lengths_;                        // (sources) int64
  Tensor source_of_;                      // (rows) int32
  Tensor state_;          // (1 + 4 * rows) int64: the step, positions, newest tokens, parents, sequences
  Tensor chosen_tokens_;  // (tokens * rows) int64: the history
  Tensor chosen_scores_;  // (tokens * rows) float32
  Tensor top_tokens_;     // (rows * best) int64
  Tensor top_logits_;     // (rows * best) float32
  Tensor logsumexp_;      // (rows) float32
  Tensor logits_;         // (rows, vocab_size), of steps that end with them
  SampleRule rule_;
  std::optional<std::int64_t> excluded_;
  std::map<StepKind, Step> steps_;
};

}  // namespace headway::inline v0::internal
