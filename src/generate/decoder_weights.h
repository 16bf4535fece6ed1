// The weights of a decoder for steps of one token per row, of every family.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "headway/transformer_model.h"
#include "headway/translation_model.h"
#include "nn/quantized_product.h"
#include "ops/decoding.h"

namespace headway::inline v0::internal {

// A product whose outputs are computed from one matrix, or from several where joining them would copy 16-bit weights
// that lie in a mapped file.
using WeightParts = std::vector<PackedWeight>;

// Attention over the tokens so far, or over a source.
struct AttentionWeights {
  NormPlace place = NormPlace::before;
  StepNormWeights norm = {};         // before the sublayer, or after it for NormPlace::after
  StepNormWeights output_norm = {};  // the second one of NormPlace::both
  WeightParts in = {};               // width -> queries, keys and values; queries alone over a source
  PackedWeight out = {};             // heads * head_dim -> width
  Tensor memory_weight = {};         // [2 * kv_heads * head_dim, width]: keys and values of the source
  Tensor memory_bias = {};           // [2 * kv_heads * head_dim]; undefined: none
  PackedWeight memory = {};          // both, in the place of a weight in 8 bits
  StepScores scores = {};
  Tensor query_norm = {};    // [head_dim]; undefined: none
  Tensor key_norm = {};      // likewise
  double norm_epsilon = 0;   // of both
  std::int64_t rotary = -1;  // in DecoderWeights::rotaries; -1: none
};

struct FeedForwardWeights {
  NormPlace place = NormPlace::before;
  StepNormWeights norm = {};
  StepNormWeights output_norm = {};
  WeightParts in = {};    // width -> hidden, or twice that where gated: the gate first
  PackedWeight out = {};  // hidden -> width
  Activation activation = Activation::none;
  bool gated = false;
};

struct DecoderLayerWeights {
  AttentionWeights self;
  std::optional<AttentionWeights> cross;
  FeedForwardWeights feed_forward;
};

struct DecoderWeights {
  std::vector<DecoderLayerWeights> layers;
  Tensor embedding;              // [vocab_size, width]
  Tensor embedding_scales = {};  // [vocab_size]: of its rows where they are in 8 bits
  double embedding_scale = 1.0;
  StepNormWeights embedding_norm = {};
  Tensor positions;  // [most positions, width]; undefined: none are added
  StepNormWeights final_norm = {};
  double logit_scale = 1.0;
  double logit_softcap = 0.0;  // 0: none
  PackedWeight output;         // width -> vocab_size
  std::vector<RotaryPositions> rotaries;
  std::int64_t most_positions = 0;  // of a sequence; 0: no limit
  std::int64_t most_source = 0;     // tokens of a source; 0: no limit
  bool has_sources = false;

  Device device() const { return embedding.device(); }
  DType dtype() const { return computing_dtype(embedding.dtype()); }
  std::int64_t width() const { return embedding.size(1); }
  std::int64_t vocab_size() const { return output.outputs; }
};

// Read the parameters of a model's decoder by their names. The model has a decoder that ends in logits of tokens.
DecoderWeights decoder_weights(const TranslationModel& model);
DecoderWeights decoder_weights(const TransformerModel& model);

// T5's bias of the scores by distance: weight [buckets, heads] -> [heads, distances] float32, for the keys at and
// before a query. Farther keys have the bias of the last distance.
Tensor distance_bias_of(const Tensor& weight, std::int64_t max_distance);

}  // namespace headway::inline v0::internal
