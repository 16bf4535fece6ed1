// TranslationModel: embeddings, encoder, decoder and the product with the embedding again.
#include "headway/translation_model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "models/model_checks.h"

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

// True where row `row` of the matrix holds zeros alone.
bool is_zero_row(const Tensor& matrix, std::int64_t row) {
  const std::vector<double> values = matrix.select(0, row).to_vector();
  return std::all_of(values.begin(), values.end(), [](double value) { return value == 0.0; });
}

// Ones with a zero at `row`: [rows of the matrix, 1], of its dtype and on its device.
Tensor all_rows_but(std::int64_t row, const Tensor& matrix) {
  const Tensor kept = Tensor::full({matrix.size(0), 1}, 1.0);
  kept.data<float>()[row] = 0.0F;
  return kept.to(matrix.device()).to(matrix.dtype());
}

// Which source positions are tokens: keep [batch, source_length], or nothing where all are.
Mask padding_of(const char* name, const Tensor& lengths, std::int64_t batch, std::int64_t source_length) {
  if (!lengths.defined()) return {};
  check(lengths.dtype() == DType::int64 && lengths.shape() == Shape({batch}), name, ": source_lengths is ", lengths,
        ", expected int64", Shape({batch}));
  const Tensor dense = lengths.to(Device::cpu()).contiguous();
  const Tensor keep = Tensor::empty({batch, source_length}, DType::boolean);
  bool* kept = keep.data<bool>();
  bool any_padding = false;
  for (std::int64_t entry = 0; entry < batch; ++entry) {
    const std::int64_t length = dense.data<std::int64_t>()[entry];
    check(length >= 0 && length <= source_length, name, ": source_lengths has ", length, " at ", entry,
          ", expected 0 to ", source_length);
    any_padding = any_padding || length < source_length;
    for (std::int64_t i = 0; i < source_length; ++i) *kept++ = i < length;
  }
  return any_padding ? Mask::keep(keep) : Mask();
}

void check_tokens(const char* name, const char* argument, const Tensor& tokens, int rank) {
  check(tokens.defined() && tokens.rank() == rank && tokens.dtype() == DType::int64, "TranslationModel::", name, ": ",
        argument, " is ", tokens, ", expected int64 ids ", rank == 2 ? "[batch, length]" : "[batch]");
}

}  // namespace

TranslationModel::TranslationModel(const TranslationModelOptions& options)
    : options_(checked(options)),
      shared_({.count = options.vocab_size, .features = options.d_model, .padding_index = options.pad_token_id}),
      positions_(
          {.max_length = options.max_position_embeddings, .features = options.d_model, .layout = Sinusoid::halves}),
      encoder_(encoder_options(options)),
      decoder_(decoder_options(options)),
      dropout_(options.dropout) {
  add_module("shared", shared_);
  add_module("positions", positions_);
  add_module("encoder", encoder_);
  add_module("decoder", decoder_);
  add_module("dropout", dropout_);
  final_logits_bias_ = add_buffer("final_logits_bias", Tensor::zeros({1, options.vocab_size}));

  // The embedding serves twice: times sqrt(d_model) its rows have the size of the positions, and as the output's matrix
  // it gives logits of size 1. Matrices start Xavier-uniform, biases at zero.
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

bool TranslationModel::keeps_padding_zero() const {
  const Tensor& weight = shared_.weight().get();
  return gradients_enabled() && weight.requires_grad() && is_zero_row(weight, options_.pad_token_id);
}

Tensor TranslationModel::project(const Tensor& hidden, bool padding_stays_zero) const {
  Tensor weight = shared_.weight().get();
  // The row of <pad> gets no gradient from the output's matrix either.
  if (padding_stays_zero) weight = mul(weight, all_rows_but(options_.pad_token_id, weight));
  return linear(hidden, weight, final_logits_bias_.get().view({options_.vocab_size}));
}

Tensor TranslationModel::encode(const Tensor& source, const Tensor& source_lengths,
                                std::vector<Tensor>* weights) const {
  check_tokens("encode", "source", source, 2);
  return encoder_.forward(
      {.source = embed(source, 0),
       .padding_mask = padding_of("TranslationModel::encode", source_lengths, source.size(0), source.size(1)),
       .weights = weights});
}

Tensor TranslationModel::forward(const TranslationInput& input) const {
  check_tokens("forward", "source", input.source, 2);
  check_tokens("forward", "target", input.target, 2);
  check(input.source.size(0) == input.target.size(0), "TranslationModel::forward: source is ", input.source,
        " and target is ", input.target, ", expected one batch");
  const bool padding_stays_zero = keeps_padding_zero();  // asked before a device has work that this would wait for
  const Tensor memory = encode(input.source, input.source_lengths, input.encoder_weights);
  const Tensor hidden =
      decoder_.forward({.target = embed(input.target, 0),
                        .memory = memory,
                        .memory_padding_mask = padding_of("TranslationModel::forward", input.source_lengths,
                                                          memory.size(0), memory.size(1)),
                        .target_causal = Causal::top_left,
                        .self_weights = input.decoder_weights,
                        .memory_weights = input.cross_weights});
  return project(hidden, padding_stays_zero);
}

Tensor TranslationModel::decode_step(const Tensor& tokens, const Tensor& memory, const Tensor& source_lengths,
                                     DecoderCache& cache) const {
  check_tokens("decode_step", "tokens", tokens, 1);
  check(
      memory.defined() && memory.rank() == 3 && memory.size(0) == tokens.size(0) && memory.size(2) == options_.d_model,
      "TranslationModel::decode_step: memory is ", memory, ", expected [", tokens.size(0), ", source_length, ",
      options_.d_model, "]");
  const Tensor hidden =
      decoder_.forward({.target = embed(tokens.unsqueeze(1), cache.length()),
                        .memory = memory,
                        .memory_padding_mask = padding_of("TranslationModel::decode_step", source_lengths,
                                                          memory.size(0), memory.size(1))},
                       cache);
  return project(hidden.select(1, 0), keeps_padding_zero());
}

}  // namespace headway::inline v0
