// The decoder made ready for search: one new token per row and call, weights in the order in which products of few rows
// read them, and caches that the beams of one sentence share.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "generate/step_product.h"
#include "headway/translation_model.h"

namespace headway::inline v0::internal {

struct Norm {
  Tensor weight;  // [d_model]
  Tensor bias;    // [d_model]
};

struct StepLayer {
  StepProduct self_in;   // d_model -> queries, keys and values
  StepProduct self_out;  // d_model -> d_model
  Norm self_norm;
  StepProduct cross_query;     // d_model -> d_model
  Tensor cross_memory_weight;  // [2 * d_model, d_model]
  Tensor cross_memory_bias;    // [2 * d_model]
  StepProduct cross_out;       // d_model -> d_model
  Norm cross_norm;
  StepProduct first;   // d_model -> ffn_dim
  StepProduct second;  // ffn_dim -> d_model
  Norm last_norm;
};

class DecodingRoom;
struct RoomSize;

// Sentences of one batch, padded to the longest, through the encoder.
struct EncodedSources {
  std::vector<std::int64_t> lengths;  // (sentences)
  bool is_padded = false;
  Tensor memory;  // [sentences, longest, d_model]

  EncodedSources(const TranslationModel& model, const std::vector<const std::vector<std::int64_t>*>& sources);
};

// What all searches with one model share. It must not be used once the model has changed: see is_current().
class StepDecoder {
 public:
  explicit StepDecoder(const TranslationModel& model);
  ~StepDecoder();

  const TranslationModel& model() const { return model_; }
  // Where the model is.
  Device device() const { return embedding_.device(); }
  // True while the model's parameters are those that this was made from.
  bool is_current() const;

 private:
  friend class DecodingBatch;
  friend class DecodingRoom;
  friend class DeviceDecoding;

  // A room that holds `size`, for one batch on a device: that of a batch before where it does, else a new one.
  std::unique_ptr<DecodingRoom> take_room(const RoomSize& size) const;
  void give_room_back(std::unique_ptr<DecodingRoom> room) const;

  TranslationModel model_;
  std::vector<std::pair<Tensor, std::uint64_t>> versions_;  // what it was made from, and when
  std::vector<StepLayer> layers_;
  Tensor embedding_;    // [vocab_size, d_model]
  Tensor positions_;    // [max_position_embeddings, d_model]
  StepProduct output_;  // d_model -> vocab_size
  mutable std::mutex room_mutex_;
  mutable std::vector<std::unique_ptr<DecodingRoom>> idle_rooms_;  // wait for the next batch
};

// Sentences that are translated together on the CPU: rows are their beams, those of one sentence side by side.
class DecodingBatch {
 public:
  // Encodes the sources, each without padding and not empty. There is one row per sentence at first.
  DecodingBatch(const StepDecoder& decoder, const std::vector<const std::vector<std::int64_t>*>& sources);

  // Logits [rows, vocab_size] after one more token in each row.
  Tensor step(const std::vector<std::int64_t>& tokens);

  // Row i goes on from what was row parents[i]. Where `sentences` are fewer than before, they are those that stay, in
  // ascending order; every sentence has the same number of rows.
  void reorder(const std::vector<std::int64_t>& parents, const std::vector<std::int64_t>& sentences);

  std::int64_t rows() const { return rows_; }
  std::int64_t sentences() const { return sentences_; }

 private:
  Tensor embed(const std::vector<std::int64_t>& tokens) const;
  // x plus what the attention gives: [rows, d_model].
  Tensor attend_self(std::size_t layer, const Tensor& x);
  Tensor attend_memory(std::size_t layer, const Tensor& x) const;
  void append(std::size_t layer, const Tensor& projected);
  void make_room(std::int64_t rows);
  void keep_sentences(const std::vector<std::int64_t>& sentences);
  void move_rows(const std::vector<std::int64_t>& parents);

  const StepDecoder& decoder_;
  std::int64_t d_model_ = 0;
  std::int64_t heads_ = 0;
  std::int64_t sentences_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t length_ = 0;          // tokens in the caches
  std::int64_t row_capacity_ = 0;    // rows that the caches have room for
  std::int64_t token_capacity_ = 0;  // tokens that they have room for
  std::vector<Tensor> past_;         // per layer (row_capacity, token_capacity, 2 * d_model): keys, then values
  std::vector<Tensor> memory_;       // per layer (sentences, source_length, 2 * d_model): keys, then values
  std::vector<std::int64_t> source_lengths_;
  Tensor key_lengths_;  // [sentences]; undefined where no sentence is padded
  // (row_capacity, token_capacity): which row computed the token that is cached there. Beams of a sentence have most of
  // their past in common; only where these differ must anything be copied.
  std::vector<std::int32_t> origin_;
  std::vector<float> held_;  // what moves, on its way
};

}  // namespace headway::inline v0::internal
