// TranslationModel: the family "marian" with a translator's initial values and checks.
#include "headway/translation_model.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "models/marian_config.h"
#include "models/model_checks.h"
#include "models/translation_parts.h"
#include "nn/attention_masks.h"

namespace headway::inline v0 {

using internal::check;

namespace {

// Ids of the vocabulary: [batch, length] or [batch].
void check_tokens(const char* name, const char* argument, const Tensor& tokens, int rank, std::int64_t vocab_size) {
  check(tokens.defined() && tokens.rank() == rank && tokens.dtype() == DType::int64, "TranslationModel::", name, ": ",
        argument, " is ", tokens, ", expected int64 ids ", rank == 2 ? "[batch, length]" : "[batch]");
  const Tensor ids = tokens.to(Device::cpu()).contiguous();
  for (std::int64_t i = 0; i < ids.element_count(); ++i) {
    const std::int64_t id = ids.data<std::int64_t>()[i];
    check(id >= 0 && id < vocab_size, "TranslationModel::", name, ": ", argument, " has index ", id, ", expected 0 to ",
          vocab_size - 1);
  }
}

bool is_cross_projection(const std::string& name) {
  return name.ends_with("cross.query.weight") || name.ends_with("cross.key.weight") ||
         name.ends_with("cross.value.weight");
}

// The embedding is used twice: times sqrt(d_model) its rows have the size of the positions, and as the output's matrix
// it yields logits of size 1. Matrices are Xavier-uniform, where an attention's three projections count as one matrix;
// biases are zero.
void set_translation_values(const TransformerModel& model, const TranslationModelOptions& options) {
  const NoGradGuard guard;
  for (const auto& [name, parameter] : model.named_parameters()) {
    Tensor values = parameter.detach();
    if (name == "embedding.weight") {
      const double deviation = 1.0 / std::sqrt(static_cast<double>(options.d_model));
      values.copy_from(scale(Tensor::randn(parameter.shape(), next_random_seed()), deviation));
      values.select(0, options.pad_token_id).fill(0.0);
    } else if (parameter.rank() == 2) {
      const std::int64_t outputs = parameter.size(0) * (is_cross_projection(name) ? 3 : 1);
      const double bound = std::sqrt(6.0 / static_cast<double>(outputs + parameter.size(1)));
      values.copy_from(Tensor::uniform(parameter.shape(), -bound, bound, next_random_seed()));
    } else {
      values.fill(name.ends_with("norm.weight") ? 1.0 : 0.0);
    }
  }
}

TransformerModel initial_translation_model(const TranslationModelOptions& options) {
  internal::check_model_options("TranslationModel", options);
  TransformerModel model = internal::make_translation_transformer(options, /*trains_pad_row=*/false);
  set_translation_values(model, options);
  return model;
}

// A cache of this class's users in the form of the other; moved back in any case.
class BorrowedCache {
 public:
  explicit BorrowedCache(DecoderCache& cache)
      : cache_(cache), borrowed_{std::move(cache.self_attention), std::move(cache.memory_attention)} {}
  ~BorrowedCache() {
    cache_.self_attention = std::move(borrowed_.self_attention);
    cache_.memory_attention = std::move(borrowed_.memory_attention);
  }
  BorrowedCache(const BorrowedCache&) = delete;
  BorrowedCache& operator=(const BorrowedCache&) = delete;
  ModelCache& get() { return borrowed_; }

 private:
  DecoderCache& cache_;
  ModelCache borrowed_;
};

}  // namespace

TransformerModel internal::make_translation_transformer(const TranslationModelOptions& options, bool trains_pad_row,
                                                        DType dtype) {
  ModelPlan plan = plan_model(ModelConfig("TranslationModel", marian_config(options)));
  if (!trains_pad_row) plan.options.head.frozen_row = options.pad_token_id;
  return make_transformer_model(plan.options, "marian", plan.config.fields().text(2),
                                marian_generation_config(options).text(2) + "\n", dtype,
                                /*with_initial_values=*/false);
}

TranslationModel::TranslationModel(const TranslationModelOptions& options)
    : TranslationModel(options, initial_translation_model(options)) {}

TranslationModel::TranslationModel(const TranslationModelOptions& options, const TransformerModel& transformer)
    : Module(transformer), options_(options), transformer_(transformer) {}

void TranslationModel::check_length(std::int64_t length) const {
  check(length <= options_.max_position_embeddings, "TranslationModel: ", length, " tokens came, and the model has ",
        options_.max_position_embeddings, " positions");
}

EncoderResult TranslationModel::encode(const Tensor& source, const PerEntry& source_lengths, Weights weights) const {
  check_tokens("encode", "source", source, 2, options_.vocab_size);
  check_length(source.size(1));
  const PerEntry lengths = internal::checked_lengths("TranslationModel::encode", "source_lengths", source_lengths,
                                                     source.size(0), source.size(1));
  ModelResult encoded = transformer_.encode({.tokens = source, .lengths = lengths, .weights = weights});
  return {.output = encoded.hidden, .weights = std::move(encoded.encoder_weights)};
}

TranslationResult TranslationModel::forward(const TranslationInput& input) const {
  check_tokens("forward", "source", input.source, 2, options_.vocab_size);
  check_tokens("forward", "target", input.target, 2, options_.vocab_size);
  check(input.source.size(0) == input.target.size(0), "TranslationModel::forward: source is ", input.source,
        " and target is ", input.target, ", expected one batch");
  check_length(input.source.size(1));
  check_length(input.target.size(1));
  const PerEntry lengths = internal::checked_lengths("TranslationModel::forward", "source_lengths",
                                                     input.source_lengths, input.source.size(0), input.source.size(1));
  ModelResult result = transformer_.forward(
      {.tokens = input.source, .lengths = lengths, .target = input.target, .weights = input.weights});
  return {.logits = result.logits,
          .encoder_weights = std::move(result.encoder_weights),
          .decoder_weights = std::move(result.decoder_weights),
          .cross_weights = std::move(result.cross_weights)};
}

Tensor TranslationModel::decode_step(const Tensor& tokens, const Tensor& memory, const PerEntry& source_lengths,
                                     DecoderCache& cache) const {
  check_tokens("decode_step", "tokens", tokens, 1, options_.vocab_size);
  check(
      memory.defined() && memory.rank() == 3 && memory.size(0) == tokens.size(0) && memory.size(2) == options_.d_model,
      "TranslationModel::decode_step: memory is ", memory, ", expected [", tokens.size(0), ", source_length, ",
      options_.d_model, "]");
  check_length(cache.length() + 1);
  const PerEntry lengths = internal::checked_lengths("TranslationModel::decode_step", "source_lengths", source_lengths,
                                                     memory.size(0), memory.size(1));
  BorrowedCache borrowed(cache);
  return transformer_.decode({.tokens = tokens.unsqueeze(1)}, borrowed.get(), memory, lengths).logits.select(1, 0);
}

}  // namespace headway::inline v0
