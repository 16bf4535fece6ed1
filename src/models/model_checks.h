// Which sizes a translation model may have.
#pragma once

#include <string_view>

#include "base/check.h"
#include "headway/translation_model.h"

namespace headway::inline v0::internal {

// Throws where the options are not valid for a model; the message begins with `where` and the field's name.
inline void check_model_options(std::string_view where, const TranslationModelOptions& options) {
  // More than any model has; beyond it, sizes of tensors could overflow before any other check fails.
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  const auto in_range = [&](const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
    check(value >= least && value <= most, where, ": ", name, " is ", value, ", expected ", least, " to ", most);
  };
  in_range("vocab_size", options.vocab_size, 1, kMost);
  in_range("d_model", options.d_model, 2, std::int64_t{1} << 16);
  check(options.d_model % 2 == 0, where, ": d_model is ", options.d_model, ", expected an even number");
  in_range("encoder_layers", options.encoder_layers, 0, 1000);
  in_range("decoder_layers", options.decoder_layers, 0, 1000);
  in_range("encoder_ffn_dim", options.encoder_ffn_dim, 1, kMost);
  in_range("decoder_ffn_dim", options.decoder_ffn_dim, 1, kMost);
  in_range("max_position_embeddings", options.max_position_embeddings, 1, std::int64_t{1} << 16);
  const auto heads = [&](const char* name, std::int64_t value) {
    in_range(name, value, 1, options.d_model);
    check(options.d_model % value == 0, where, ": ", name, " is ", value, ", which does not divide d_model, ",
          options.d_model);
  };
  heads("encoder_attention_heads", options.encoder_attention_heads);
  heads("decoder_attention_heads", options.decoder_attention_heads);
  const auto probability = [&](const char* name, double value) {
    check(value >= 0 && value < 1, where, ": ", name, " is ", value, ", expected 0 or more and less than 1");
  };
  probability("dropout", options.dropout);
  probability("attention_dropout", options.attention_dropout);
  probability("activation_dropout", options.activation_dropout);
  in_range("eos_token_id", options.eos_token_id, 0, options.vocab_size - 1);
  in_range("pad_token_id", options.pad_token_id, 0, options.vocab_size - 1);
  in_range("decoder_start_token_id", options.decoder_start_token_id, 0, options.vocab_size - 1);
}

}  // namespace headway::inline v0::internal
