// A translation model small enough for tests, and ids for it.
#pragma once

#include <cstdint>
#include <vector>

#include "headway/translation_model.h"

namespace headway_test {

// 20 tokens: </s> is 0, <pad> 19.
inline headway::TranslationModelOptions small_options() {
  return {.vocab_size = 20,
          .d_model = 16,
          .encoder_layers = 2,
          .decoder_layers = 3,
          .encoder_attention_heads = 2,
          .decoder_attention_heads = 4,
          .encoder_ffn_dim = 24,
          .decoder_ffn_dim = 40,
          .max_position_embeddings = 32,
          .eos_token_id = 0,
          .pad_token_id = 19,
          .decoder_start_token_id = 19};
}

// Rows of one length as int64 [rows, length].
inline headway::Tensor ids(const std::vector<std::vector<std::int64_t>>& rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const auto length = static_cast<std::int64_t>(rows.empty() ? 0 : rows.front().size());
  const headway::Tensor tensor = headway::Tensor::empty({count, length}, headway::DType::int64);
  std::int64_t* next = tensor.data<std::int64_t>();
  for (const auto& row : rows) {
    for (const std::int64_t id : row) *next++ = id;
  }
  return tensor;
}

}  // namespace headway_test
