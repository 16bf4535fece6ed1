// The model, the optimizer and the schedule of a training run.
#include "translation/training_setup.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/random_stream.h"

namespace headway::inline v0::internal {
namespace {

constexpr double kFinalRateShare = 0.01;  // of the peak, where a decaying schedule ends

TranslationModelOptions model_options(const TranslationTrainingConfig& config, const TranslationTokenizer& tokenizer) {
  TranslationModelOptions options;
  options.vocab_size = tokenizer.size();
  options.d_model = config.width;
  options.encoder_layers = config.encoder_layers;
  options.decoder_layers = config.decoder_layers;
  options.encoder_attention_heads = options.decoder_attention_heads = config.heads;
  options.encoder_ffn_dim = options.decoder_ffn_dim = config.feed_forward;
  options.dropout = config.dropout;
  options.attention_dropout = config.attention_dropout;
  options.activation_dropout = config.activation_dropout;
  options.activation = config.activation;
  options.max_position_embeddings = kPositions;
  options.eos_token_id = tokenizer.eos_id();
  options.pad_token_id = tokenizer.pad_id();
  options.decoder_start_token_id = tokenizer.pad_id();
  return options;
}

}  // namespace

TranslationModel make_model(const TranslationTrainingConfig& config, const TranslationTokenizer& tokenizer) {
  const OwnRandomStream stream({.seed = config.seed});
  return TranslationModel(model_options(config, tokenizer));
}

std::unique_ptr<AdamW> make_optimizer(const TranslationTrainingConfig& config, const TranslationModel& model) {
  ParameterGroup matrices{.parameters = {}, .weight_decay = config.weight_decay};
  ParameterGroup vectors{.parameters = {}, .weight_decay = 0.0};
  for (const NamedTensor& parameter : model.named_parameters()) {
    (parameter.tensor.rank() > 1 ? matrices : vectors).parameters.push_back(parameter);
  }
  AdamOptions options;
  options.learning_rate = config.learning_rate;
  options.beta2 = 0.98;
  options.epsilon = 1e-9;
  return std::make_unique<AdamW>(std::vector<ParameterGroup>{matrices, vectors}, options);
}

Schedule make_schedule(const TranslationTrainingConfig& config, std::int64_t steps) {
  if (config.schedule == LearningRateSchedule::inverse_sqrt) {
    const std::int64_t warmup = std::max<std::int64_t>(config.warmup_steps, 1);
    // warmup_schedule() peaks at factor * (width * warmup)^-0.5.
    const double factor = config.learning_rate * std::sqrt(static_cast<double>(config.width * warmup));
    return warmup_schedule(config.width, warmup, factor);
  }
  // A run shorter than its warm-up ends within it.
  DecayOptions options{.peak = config.learning_rate,
                       .warmup_steps = config.warmup_steps,
                       .steps = std::max(steps, config.warmup_steps),
                       .final_rate = kFinalRateShare * config.learning_rate};
  if (config.schedule == LearningRateSchedule::constant) options.final_rate = options.peak;
  return config.schedule == LearningRateSchedule::cosine ? cosine_schedule(options) : linear_schedule(options);
}

}  // namespace headway::inline v0::internal
