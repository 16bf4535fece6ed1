// The buffers that a decoder's steps read and write. They stay on the device, where steps are replayed as graphs.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "generate/decoder_weights.h"
#include "headway/device.h"
#include "ops/decoding.h"

namespace headway::inline v0::internal {

// The sizes of the buffers.
struct BufferSize {
  std::int64_t sources = 0;
  std::int64_t rows = 0;           // hypotheses of all sources
  std::int64_t source_length = 0;  // tokens of a source
  std::int64_t tokens = 0;         // tokens of a hypothesis
  std::int64_t best = 1;           // tokens to choose from in every row; 1: the step chooses, as greedy search does

  bool holds(const BufferSize& other) const {
    return sources >= other.sources && rows >= other.rows && source_length >= other.source_length &&
           tokens >= other.tokens && best == other.best;
  }
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
  // The source of each row; those past the last are rows whose results are not used.
  void set_source_of(const std::vector<std::int64_t>& source_of);
  // Sets what the next step reads: the number of tokens before it, the newest token of each row, and the row that each
  // row continues.
  void set_state(std::int64_t position, const std::vector<std::int64_t>& tokens,
                 const std::vector<std::int64_t>& parents);
  // Row i becomes the former row kept[i]; for greedy search, between steps.
  void keep_rows(const std::vector<std::int64_t>& kept);

  // Grows the buffers to hold at least `tokens` tokens; what is cached is kept.
  void reserve(std::int64_t tokens);

  // One step of at least `rows` rows: recorded at the second call with its size, replayed from then on.
  void step(std::int64_t rows);
  // How many rows a step of `rows` computes.
  std::int64_t padded(std::int64_t rows) const;

  // The tokens that steps of `rows` rows have chosen, and the candidates of the last step.
  GreedyHistory history(std::int64_t rows) const;
  TopTokens top(std::int64_t rows) const;

 private:
  void compute(std::int64_t rows) const;
  // x plus the output of the attention: (rows, width).
  Tensor attend_self(std::size_t layer, const Tensor& x) const;
  Tensor attend_source(std::size_t layer, const Tensor& x) const;
  Tensor position() const { return state_.slice(0, 0, 1); }
  Tensor newest(std::int64_t rows) const { return state_.slice(0, 1, 1 + rows); }
  Tensor parents(std::int64_t rows) const { return state_.slice(0, 1 + size_.rows, 1 + size_.rows + rows); }

  struct Step {
    std::int64_t uses = 0;
    DeviceGraph graph = {};
  };

  const DecoderWeights& weights_;
  BufferSize size_;
  std::vector<Tensor> past_;            // per layer (rows, tokens, 2 * width): keys, then values
  std::vector<Tensor> memory_;          // per layer (sources, source_length, 2 * width): keys, then values
  Tensor origins_;                      // (rows, tokens) int32: the row in which each token of a row was cached
  Tensor lengths_;                      // (sources) int64
  Tensor source_of_;                    // (rows) int32
  Tensor state_;                        // (1 + 2 * rows) int64: the position, newest tokens, parents
  Tensor chosen_tokens_;                // (tokens * rows) int64: the history of greedy search
  Tensor chosen_scores_;                // (tokens * rows) float32
  Tensor top_tokens_;                   // (rows * best) int64
  Tensor top_logits_;                   // (rows * best) float32
  Tensor logsumexp_;                    // (rows) float32
  std::map<std::int64_t, Step> steps_;  // by their rows
};

}  // namespace headway::inline v0::internal
