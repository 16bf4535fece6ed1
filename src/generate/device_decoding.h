// Decoding on a device: the caches and all that a step reads and writes stay there, and steps are replayed as graphs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "generate/step_decoder.h"
#include "headway/decoding.h"
#include "headway/device.h"

namespace headway::inline v0::internal {

// How much a room holds.
struct RoomSize {
  std::int64_t sentences = 0;
  std::int64_t rows = 0;           // hypotheses of all sentences
  std::int64_t source_length = 0;  // tokens of a sentence
  std::int64_t tokens = 0;         // tokens of a translation
  std::int64_t best = 1;           // tokens to choose from in every row; 1: the device chooses, as greedy search does

  bool holds(const RoomSize& other) const {
    return sentences >= other.sentences && rows >= other.rows && source_length >= other.source_length &&
           tokens >= other.tokens && best == other.best;
  }
};

// Tensors of one batch after the other, and the steps that were recorded on them.
class DecodingRoom {
 public:
  DecodingRoom(const StepDecoder& decoder, const RoomSize& size);
  DecodingRoom(const DecodingRoom&) = delete;
  DecodingRoom& operator=(const DecodingRoom&) = delete;

  const RoomSize& size() const { return size_; }
  // Sets the sentences: their keys and values in every layer, (count, length, 2 * d_model), and their lengths.
  void set_memory(std::size_t layer, const Tensor& keys_values);
  void set_lengths(const std::vector<std::int64_t>& lengths);
  // The sentence of each row; those past the last are rows that nobody looks at.
  void set_sentences(const std::vector<std::int64_t>& sentence_of);
  // What the next step reads: how many tokens there were before, the newest of each row, and which row each goes on
  // from.
  void set_state(std::int64_t position, const std::vector<std::int64_t>& tokens,
                 const std::vector<std::int64_t>& parents);
  // Row i goes on as what was row kept[i]; for greedy search, between steps.
  void keep_rows(const std::vector<std::int64_t>& kept);

  // One step of at least `rows` rows: recorded when it comes a second time, replayed from then on.
  void step(std::int64_t rows);
  // How many rows a step of `rows` computes.
  std::int64_t padded(std::int64_t rows) const;

  // What steps of `rows` rows have chosen, and among which tokens they choose.
  GreedyHistory history(std::int64_t rows) const;
  TopTokens top(std::int64_t rows) const;

 private:
  void compute(std::int64_t rows) const;
  Tensor attend_self(std::size_t layer, const Tensor& x) const;
  Tensor attend_memory(std::size_t layer, const Tensor& x) const;
  Tensor position() const { return state_.slice(0, 0, 1); }
  Tensor newest(std::int64_t rows) const { return state_.slice(0, 1, 1 + rows); }
  Tensor parents(std::int64_t rows) const { return state_.slice(0, 1 + size_.rows, 1 + size_.rows + rows); }

  struct Step {
    std::int64_t uses = 0;
    DeviceGraph graph = {};
  };

  const StepDecoder& decoder_;
  RoomSize size_;
  std::vector<Tensor> past_;            // per layer (rows, tokens, 2 * d_model): keys, then values
  std::vector<Tensor> memory_;          // per layer (sentences, source_length, 2 * d_model): keys, then values
  Tensor origins_;                      // (rows, tokens) int32: the row in which each token of a row was cached
  Tensor lengths_;                      // (sentences) int64
  Tensor sentence_of_;                  // (rows) int32
  Tensor state_;                        // (1 + 2 * rows) int64: the position, newest tokens, parents
  Tensor chosen_;                       // (tokens * rows) int64: the history of greedy search
  Tensor chosen_scores_;                // (tokens * rows) float32
  Tensor top_tokens_;                   // (rows * best) int64
  Tensor top_logits_;                   // (rows * best) float32
  Tensor logsumexp_;                    // (rows) float32
  std::map<std::int64_t, Step> steps_;  // by their rows
};

// One batch of sentences, in a room that is taken for it.
class DeviceDecoding {
 public:
  // Encodes the sources, each without padding and not empty, for translations of at most `most_tokens`.
  DeviceDecoding(const StepDecoder& decoder, const std::vector<const std::vector<std::int64_t>*>& sources,
                 std::int64_t beam, std::int64_t most_tokens);
  ~DeviceDecoding();
  DeviceDecoding(const DeviceDecoding&) = delete;
  DeviceDecoding& operator=(const DeviceDecoding&) = delete;

  // ---- greedy search: a row per sentence ----
  struct Chosen {
    Tensor tokens;  // [steps, rows or more] int64, on the CPU
    Tensor scores;  // [steps, rows or more] float32: log-probabilities
  };
  // So many steps, the first from the start token.
  Chosen take_steps(std::int64_t steps);
  // Whether steps of so many rows would be smaller than they are now.
  bool has_smaller_step(std::int64_t rows) const { return room_->padded(rows) < room_->padded(rows_); }
  // Fewer rows go on: row i as what was row kept[i].
  void keep_rows(const std::vector<std::int64_t>& kept);

  // ---- beam search ----
  // After one more token in each row: the best next ones, on the CPU. Row i goes on from what was row parents[i] of the
  // step before, of sentence sentences[i].
  struct Rows {
    std::vector<std::int64_t> tokens;
    std::vector<std::int64_t> parents;
    std::vector<std::int64_t> sentences;
  };
  TopTokens step(const Rows& rows);

 private:
  const StepDecoder& decoder_;
  std::unique_ptr<DecodingRoom> room_;
  std::int64_t rows_ = 0;
  std::int64_t length_ = 0;              // steps so far
  std::vector<std::int64_t> sentences_;  // (rows) what the room was told last
};

}  // namespace headway::inline v0::internal
