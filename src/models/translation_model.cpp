// TranslationModel: embedding, encoder, decoder, and logits by the product with the embedding.
#include "headway/translation_model.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "models/model_checks.h"
#include "nn/attention_masks.h"
#include "ops/frozen_row.h"

namespace headway::inline v0 {

using internal::check;

namespace {

TransformerStackOptions encoder_options(const TranslationModelOptions& options) {
  return {.layer = {.d_model = options.d_model,
                    .nhead = options.encoder_attention_heads,
                    .dim_feedforward = options.encoder_ffn_dim,
                    .dropout = options.dropout,
                    .attention_dropout = options.attention_dropout,
                    .activation_dropout = options.activation_dropout,
                    .activation = options.activation},
          .num_layers = options.encoder_layers};
}

TransformerStackOptions decoder_options(const TranslationModelOptions& options) {
  TransformerStackOptions stack = encoder_options(options);
  stack.layer.nhead = options.decoder_attention_heads;
  stack.layer.dim_feedforward = options.decoder_ffn_dim;
  stack.num_layers = options.decoder_layers;
  return stack;
}

const TranslationModelOptions& checked(const TranslationModelOptions& options) {
  internal::check_model_options("TranslationModel", options);
  return options;
}

bool is_embedding(const std::string& name) { return name == "shared.weight"; }
bool is_norm(const std::string& name) { return name.find(".norm") != std::string::npos; }

void check_tokens(const char* name, const char* argument, const Tensor& tokens, int rank) {
  check(tokens.defined() && tokens.rank() == rank && tokens.dtype() == DType::int64, "TranslationModel::", name, ": ",
        argument, " is ", tokens, ", expected int64 ids ", rank == 2 ? "[batch, length]" : "[batch]");
}

}  // namespace

TranslationModel::TranslationModel(const TranslationModelOptions& options)
    : options_(checked(options)),
      shared_({.count = options.vocab_size, .width = options.d_model, .padding_index = options.pad_token_id}),
      positions_({.max_length = options.max_position_embeddings, .width = options.d_model, .layout = Sinusoid::halves}),
      encoder_(encoder_options(options)),
      decoder_(decoder_options(options)),
      dropout_(options.dropout) {
  add_module("shared", shared_);
  add_module("positions", positions_);
  add_module("encoder", encoder_);
  add_module("decoder", decoder_);
  add_module("dropout", dropout_);
  final_logits_bias_ = add_buffer("final_logits_bias", Tensor::zeros({1, options.vocab_size}));

  // The embedding is used twice: times sqrt(d_model) its rows have the size of the positions, and as the output's
  // matrix it yields logits of size 1. Matrices are Xavier-uniform, biases zero.
  const NoGradGuard guard;
  for (const auto& [name, parameter] : named_parameters()) {
    Tensor values = parameter.detach();
    if (is_embedding(name)) {
      values.copy_from(scale(values, 1.0 / std::sqrt(static_cast<double>(options.d_model))));
    } else if (parameter.rank() == 2) {
      const double bound = std::sqrt(6.0 / static_cast<double>(parameter.size(0) + parameter.size(1)));
      values.copy_from(Tensor::uniform(parameter.shape(), -bound, bound, next_random_seed()));
    } else if (!is_norm(name)) {
      values.fill(0.0);
    }
  }
}

Tensor TranslationModel::embed(const Tensor& tokens, std::int64_t offset) const {
  check(tokens.size(1) + offset <= options_.max_position_embeddings, "TranslationModel: ", tokens.size(1) + offset,
        " tokens came, and the model has ", options_.max_position_embeddings, " positions");
  Tensor rows = shared_.forward(tokens);
  if (options_.scale_embedding) rows = scale(rows, std::sqrt(static_cast<double>(options_.d_model)));
  return dropout_.forward(positions_.forward(rows, offset));
}

Tensor TranslationModel::project(const Tensor& hidden) const {
  const Tensor& weight = shared_.weight().get();
  // The row of <pad> gets no gradient from the output's matrix either.
  return linear(hidden, trains_pad_row_ ? weight : internal::with_frozen_row(weight, options_.pad_token_id),
                final_logits_bias_.get().view({options_.vocab_size}));
}

EncoderResult TranslationModel::run_encoder(const Tensor& source, const PerEntry& lengths, Weights weights) const {
  return encoder_.forward({.source = embed(source, 0), .source_lengths = lengths, .weights = weights});
}

EncoderResult TranslationModel::encode(const Tensor& source, const PerEntry& source_lengths, Weights weights) const {
  check_tokens("encode", "source", source, 2);
  return run_encoder(source,
                     internal::checked_lengths("TranslationModel::encode", "source_lengths", source_lengths,
                                               source.size(0), source.size(1)),
                     weights);
}

TranslationResult TranslationModel::forward(const TranslationInput& input) const {
  check_tokens("forward", "source", input.source, 2);
  check_tokens("forward", "target", input.target, 2);
  check(input.source.size(0) == input.target.size(0), "TranslationModel::forward: source is ", input.source,
        " and target is ", input.target, ", expected one batch");
  const PerEntry lengths = internal::checked_lengths("TranslationModel::forward", "source_lengths",
                                                     input.source_lengths, input.source.size(0), input.source.size(1));
  EncoderResult encoded = run_encoder(input.source, lengths, input.weights);
  DecoderResult decoded = decoder_.forward({.target = embed(input.target, 0),
                                            .memory = encoded.output,
                                            .memory_lengths = lengths,
                                            .target_causal = Causal::top_left,
                                            .weights = input.weights});
  return {.logits = project(decoded.output),
          .encoder_weights = std::move(encoded.weights),
          .decoder_weights = std::move(decoded.self_weights),
          .cross_weights = std::move(decoded.memory_weights)};
}

Tensor TranslationModel::decode_step(const Tensor& tokens, const Tensor& memory, const PerEntry& source_lengths,
                                     DecoderCache& cache) const {
  check_tokens("decode_step", "tokens", tokens, 1);
  check(
      memory.defined() && memory.rank() == 3 && memory.size(0) == tokens.size(0) && memory.size(2) == options_.d_model,
      "TranslationModel::decode_step: memory is ", memory, ", expected [", tokens.size(0), ", source_length, ",
      options_.d_model, "]");
  const PerEntry lengths = internal::checked_lengths("TranslationModel::decode_step", "source_lengths", source_lengths,
                                                     memory.size(0), memory.size(1));
  const Tensor hidden =
      decoder_
          .forward({.target = embed(tokens.unsqueeze(1), cache.length()), .memory = memory, .memory_lengths = lengths},
                   cache)
          .output;
  return project(hidden.select(1, 0));
}

}  // namespace headway::inline v0
