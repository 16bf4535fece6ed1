// An encoder-decoder for translation in the layout of Hugging Face's Marian models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/module.h"
#include "headway/transformer.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

// Fields and names of a Marian config.json.
struct TranslationModelOptions {
  std::int64_t vocab_size = 0;  // <pad> is the last id
  std::int64_t d_model = 256;
  std::int64_t encoder_layers = 4;
  std::int64_t decoder_layers = 4;
  std::int64_t encoder_attention_heads = 8;
  std::int64_t decoder_attention_heads = 8;
  std::int64_t encoder_ffn_dim = 1024;
  std::int64_t decoder_ffn_dim = 1024;
  double dropout = 0.1;             // on embeddings and on the output of each sublayer
  double attention_dropout = 0.0;   // on attention weights
  double activation_dropout = 0.0;  // inside the feed-forward network
  Activation activation = Activation::relu;
  std::int64_t max_position_embeddings = 512;
  bool scale_embedding = true;  // embeddings times sqrt(d_model)
  std::int64_t eos_token_id = 0;
  std::int64_t pad_token_id = 0;
  std::int64_t decoder_start_token_id = 0;
};

struct TranslationInput {
  Tensor source = {};            // [batch, source_length] int64 ids, padded at the end
  PerEntry source_lengths = {};  // non-padding tokens of each source; default: all
  Tensor target = {};            // [batch, target_length] int64 ids, the decoder's input; begins with the start token
  Weights weights = Weights::none;
};

struct TranslationResult {
  Tensor logits;  // [batch, target_length, vocab_size]
  // [batch, heads, queries, keys] of each layer, or [batch, queries, keys] for the mean; only on request.
  std::vector<Tensor> encoder_weights;
  std::vector<Tensor> decoder_weights;
  std::vector<Tensor> cross_weights;  // queries are target tokens, keys are source tokens
};

// Post-norm Transformer with one embedding for source, target and output: a TransformerModel of the family "marian", of
// which it has the parameters and their names. The row of <pad> is zero and is not trained, unless the loaded row is
// not zero; then it is trained as Hugging Face does.
class HEADWAY_API TranslationModel : public Module {
 public:
  explicit TranslationModel(const TranslationModelOptions& options);

  // Reads config.json and model.safetensors. dtype: float32, or int8 for weights in 8 bits; default: float32, or int8
  // where the files have it.
  static TranslationModel load(const std::filesystem::path& directory, std::optional<DType> dtype = {});
  // Writes config.json, generation_config.json and model.safetensors with tensors of `dtype`, each file
  // atomically. Default: float32, or int8 where the model has it.
  void save(const std::filesystem::path& directory, std::optional<DType> dtype = {}) const;

  TranslationResult forward(const TranslationInput& input) const;
  // The encoder's output [batch, source_length, d_model], and its weights on request.
  EncoderResult encode(const Tensor& source, const PerEntry& source_lengths = {},
                       Weights weights = Weights::none) const;
  // Logits [batch, vocab_size] of the next token, for one new token id per entry: tokens [batch] int64. The memory is
  // encode()'s output.
  Tensor decode_step(const Tensor& tokens, const Tensor& memory, const PerEntry& source_lengths,
                     DecoderCache& cache) const;

  const TranslationModelOptions& options() const { return options_; }
  // The same model, with the functions that every family has.
  const TransformerModel& transformer() const { return transformer_; }

 private:
  TranslationModel(const TranslationModelOptions& options, const TransformerModel& transformer);
  // Refuses texts with more tokens than the model has positions.
  void check_length(std::int64_t length) const;

  TranslationModelOptions options_;
  TransformerModel transformer_;  // shares this module's parameters
};

}  // namespace v0
}  // namespace headway
