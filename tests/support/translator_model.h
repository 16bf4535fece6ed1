// A translation model for a tokenizer, with random weights.
#pragma once

#include "headway/random.h"
#include "headway/tokenizer.h"
#include "headway/translation_model.h"

namespace headway_test {

struct TranslatorSizes {
  std::int64_t d_model = 16, encoder_layers = 1, decoder_layers = 1, encoder_heads = 2, decoder_heads = 2;
  std::int64_t feed_forward = 16, positions = 64;
  double dropout = 0.1;
};

inline headway::TranslationModel random_model(const headway::TranslationTokenizer& tokenizer, std::uint64_t seed,
                                              const TranslatorSizes& sizes = {}) {
  headway::set_random_seed(seed);
  return headway::TranslationModel({.vocab_size = tokenizer.size(),
                                    .d_model = sizes.d_model,
                                    .encoder_layers = sizes.encoder_layers,
                                    .decoder_layers = sizes.decoder_layers,
                                    .encoder_attention_heads = sizes.encoder_heads,
                                    .decoder_attention_heads = sizes.decoder_heads,
                                    .encoder_ffn_dim = sizes.feed_forward,
                                    .decoder_ffn_dim = sizes.feed_forward,
                                    .dropout = sizes.dropout,
                                    .max_position_embeddings = sizes.positions,
                                    .eos_token_id = tokenizer.eos_id(),
                                    .pad_token_id = tokenizer.pad_id(),
                                    .decoder_start_token_id = tokenizer.pad_id()});
}

}  // namespace headway_test
