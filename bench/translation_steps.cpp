// Headway's translator as a C interface, so that translation_training_bench.py can time its training steps beside
// PyTorch's in one process. On failure, functions return null or a negative number; translation_steps_error() has the
// reason.
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

#include "guarded.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "headway/threads.h"
#include "headway/training.h"
#include "headway/translation_model.h"

#define TRANSLATION_STEPS_API extern "C" __attribute__((visibility("default")))

using headway::DType;
using headway::Tensor;

struct TranslationStepsConfig {
  std::int64_t vocabulary;  // <pad> is the last id
  std::int64_t width;
  std::int64_t heads;
  std::int64_t layers;  // of the encoder and of the decoder
  std::int64_t feed_forward;
  double dropout;
  double learning_rate;
  double weight_decay;
  double label_smoothing;
  double clip_norm;
};

// Ids as int64, read in place.
struct TranslationStepsBatch {
  std::int64_t rows;
  std::int64_t source_length;
  std::int64_t target_length;
  std::int64_t tokens;    // non-padding labels
  std::int64_t* source;   // [rows, source_length]
  std::int64_t* lengths;  // [rows]
  std::int64_t* target;   // [rows, target_length]
  std::int64_t* labels;   // [rows, target_length]
};

namespace {

headway::TranslationModelOptions model_options(const TranslationStepsConfig& config) {
  headway::TranslationModelOptions options;
  options.vocab_size = config.vocabulary;
  options.d_model = config.width;
  options.encoder_layers = options.decoder_layers = config.layers;
  options.encoder_attention_heads = options.decoder_attention_heads = config.heads;
  options.encoder_ffn_dim = options.decoder_ffn_dim = config.feed_forward;
  options.dropout = config.dropout;
  options.pad_token_id = options.decoder_start_token_id = config.vocabulary - 1;
  return options;
}

// As train_translation() has it: the paper's betas, decay on matrices alone.
headway::AdamW make_optimizer(const headway::TranslationModel& model, const TranslationStepsConfig& config) {
  headway::ParameterGroup matrices{.parameters = {}, .weight_decay = config.weight_decay};
  headway::ParameterGroup vectors{.parameters = {}, .weight_decay = 0.0};
  for (const headway::NamedTensor& parameter : model.named_parameters()) {
    (parameter.tensor.rank() > 1 ? matrices : vectors).parameters.push_back(parameter);
  }
  headway::AdamOptions options;
  options.beta2 = 0.98;
  options.epsilon = 1e-9;
  return headway::AdamW({matrices, vectors}, options);
}

}  // namespace

struct TranslationSteps {
  explicit TranslationSteps(const TranslationStepsConfig& asked)
      : config(asked), model(model_options(asked)), optimizer(make_optimizer(model, asked)) {}

  void run(const TranslationStepsBatch& batch) {
    const headway::Shape sources{batch.rows, batch.source_length}, targets{batch.rows, batch.target_length};
    const Tensor source = Tensor::wrap(batch.source, sources, DType::int64);
    const Tensor lengths = Tensor::wrap(batch.lengths, {batch.rows}, DType::int64);
    const Tensor target = Tensor::wrap(batch.target, targets, DType::int64);
    const Tensor labels = Tensor::wrap(batch.labels, targets, DType::int64);
    const auto loss_of = [&](const headway::BatchPosition&) -> headway::BatchLoss {
      const Tensor logits = model.forward({.source = source, .source_lengths = lengths, .target = target}).logits;
      headway::CrossEntropyOptions options;
      options.ignore_index = config.vocabulary - 1;
      options.label_smoothing = config.label_smoothing;
      return {.loss = headway::cross_entropy(logits, labels, options), .tokens = batch.tokens};
    };
    headway::TrainingOptions options;
    options.steps = 1;
    options.clip_norm = config.clip_norm;
    options.seed = ++steps;
    loss = headway::train(model, optimizer, headway::constant_schedule(config.learning_rate), loss_of, options).loss;
  }

  TranslationStepsConfig config;
  headway::TranslationModel model;
  headway::AdamW optimizer;
  std::uint64_t steps = 0;
  double loss = 0.0;
};

TRANSLATION_STEPS_API TranslationSteps* translation_steps_create(const TranslationStepsConfig* config) {
  TranslationSteps* steps = nullptr;
  guarded([&] { steps = new TranslationSteps(*config); });
  return steps;
}

TRANSLATION_STEPS_API void translation_steps_destroy(TranslationSteps* steps) { delete steps; }

// One step: forward, loss, backward, clipping, AdamW.
TRANSLATION_STEPS_API int translation_steps_run(TranslationSteps* steps, const TranslationStepsBatch* batch) {
  return guarded([&] { steps->run(*batch); });
}

// The loss of the last step.
TRANSLATION_STEPS_API double translation_steps_loss(const TranslationSteps* steps) { return steps->loss; }

// Overwrites a parameter with `count` values.
TRANSLATION_STEPS_API int translation_steps_load(TranslationSteps* steps, const char* name, float* values,
                                                 std::int64_t count) {
  return guarded([&] {
    Tensor parameter = steps->model.state_dict().at(name);
    if (parameter.element_count() != count) throw std::runtime_error(std::string(name) + " has another size");
    const headway::NoGradGuard guard;
    parameter.copy_from(Tensor::wrap(values, parameter.shape(), DType::float32));
  });
}

TRANSLATION_STEPS_API int translation_steps_set_threads(int count) {
  return guarded([&] { headway::set_num_threads(count); });
}

// The error of this thread's last failed call.
TRANSLATION_STEPS_API const char* translation_steps_error() { return last_error.c_str(); }
