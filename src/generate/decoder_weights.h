// The weights of a decoder for steps of one token per row.
#pragma once

#include <cstdint>
#include <vector>

#include "headway/translation_model.h"
#include "ops/decoding.h"

namespace headway::inline v0::internal {

struct NormWeights {
  Tensor weight;  // [width]
  Tensor bias;    // [width]
};

// A decoder layer: attention over the tokens so far, attention over the source, a feed-forward network; each adds to
// its input, and a norm follows.
struct DecoderLayerWeights {
  PackedWeight self_in;   // width -> queries, keys and values
  PackedWeight self_out;  // width -> width
  NormWeights self_norm;
  PackedWeight cross_query;    // width -> width
  Tensor cross_memory_weight;  // [2 * width, width]: keys and values of the source
  Tensor cross_memory_bias;    // [2 * width]
  PackedWeight cross_out;      // width -> width
  NormWeights cross_norm;
  PackedWeight first;   // width -> hidden width
  PackedWeight second;  // hidden width -> width
  NormWeights last_norm;
};

struct DecoderWeights {
  std::vector<DecoderLayerWeights> layers;
  Tensor embedding;     // [vocab_size, width]
  Tensor positions;     // [most positions, width]
  PackedWeight output;  // width -> vocab_size
  std::int64_t heads = 1;
  Activation activation = Activation::none;
  double embedding_scale = 1.0;
  std::int64_t start_token = 0;     // comes before the first token
  std::int64_t excluded_token = 0;  // is never chosen

  Device device() const { return embedding.device(); }
  std::int64_t width() const { return embedding.size(1); }
};

// Reads the parameters of the model's decoder by their names.
DecoderWeights decoder_weights(const TranslationModel& model);

}  // namespace headway::inline v0::internal
