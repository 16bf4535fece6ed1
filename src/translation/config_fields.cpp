// The fields of a training run.
#include "translation/config_fields.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Config = TranslationTrainingConfig;
using Table = ConfigTable<Config>;
constexpr auto kFixed = OnResume::fixed;
constexpr auto kFree = OnResume::free;
constexpr double kMaxWidth = 65536;  // of a layer
constexpr double kMaxLayers = 1024;
constexpr double kMaxVocabulary = 16777216;

void add_data_fields(Table& entries) {
  entries.text("data", &Config::data, kFree, "sentence pairs: tab-separated, plain or inside a .zip");
  entries.text("data_target", &Config::data_target, kFree,
               "where set, data holds the sources line by line and this file their translations");
  entries.text("source_language", &Config::source_language, kFixed, "code of the first column's language");
  entries.text("target_language", &Config::target_language, kFixed, "code of the second column's language");
  entries.text("both_directions", &Config::both_directions, kFixed, "one model for both directions");
  entries.number("max_characters", &Config::max_characters, kFixed, {1, kMostCount}, "longer sentences are left out");
  entries.number("max_ratio", &Config::max_ratio, kFixed, {1, 1e6}, "pairs whose lengths differ by more are left out");
  entries.number("max_pairs", &Config::max_pairs, kFixed, {0, kMostCount},
                 "train on the first so many pairs; 0: on all");
  entries.text("data_source", &Config::data_source, kFree,
               "where the pairs are from and their licence, for the model card");
}

void add_tokenizer_fields(Table& entries) {
  entries.number("vocab_size", &Config::vocab_size, kFixed, {300, kMaxVocabulary},
                 "pieces that the tokenizer learns, 256 of them for bytes");
  entries.choice("pieces", &Config::pieces, kFixed, {{PieceKind::unigram, "unigram"}, {PieceKind::bpe, "bpe"}},
                 "how the tokenizer learns them");
}

void add_model_fields(Table& entries) {
  entries.number("width", &Config::width, kFixed, {2, kMaxWidth}, "width of the model; a multiple of heads, even");
  entries.number("heads", &Config::heads, kFixed, {1, kMaxWidth}, "attention heads of each layer");
  entries.number("encoder_layers", &Config::encoder_layers, kFixed, {1, kMaxLayers}, "layers that read the source");
  entries.number("decoder_layers", &Config::decoder_layers, kFixed, {1, kMaxLayers}, "layers that write the target");
  entries.number("feed_forward", &Config::feed_forward, kFixed, {1, 16 * kMaxWidth},
                 "inner width of feed-forward networks");
  entries.choice("activation", &Config::activation, kFixed,
                 {{Activation::relu, "relu"}, {Activation::gelu, "gelu"}, {Activation::silu, "silu"}},
                 "of feed-forward networks");
  entries.number("dropout", &Config::dropout, kFree, {0, 0.999}, "on embeddings and on what each sublayer gives");
  entries.number("attention_dropout", &Config::attention_dropout, kFree, {0, 0.999}, "on attention weights");
  entries.number("activation_dropout", &Config::activation_dropout, kFree, {0, 0.999},
                 "inside feed-forward networks, after the activation");
}

void add_optimization_fields(Table& entries) {
  entries.number("epochs", &Config::epochs, kFree, {1, 1e6}, "passes over the training pairs");
  entries.number("max_steps", &Config::max_steps, kFree, {0, kMostCount}, "stop after so many steps; 0: epochs decide");
  entries.number("batch_tokens", &Config::batch_tokens, kFixed, {16, kMostCount},
                 "padded tokens of source plus target in a batch");
  entries.number("accumulate", &Config::accumulate, kFixed, {1, 1e6}, "batches whose gradients make one step");
  entries.number("learning_rate", &Config::learning_rate, kFree, {0, 1e3}, "the highest, after the warm-up");
  entries.number("warmup_steps", &Config::warmup_steps, kFree, {0, kMostCount},
                 "steps in which the learning rate rises linearly");
  entries.choice("schedule", &Config::schedule, kFree,
                 {{LearningRateSchedule::cosine, "cosine"},
                  {LearningRateSchedule::inverse_sqrt, "inverse_sqrt"},
                  {LearningRateSchedule::linear, "linear"},
                  {LearningRateSchedule::constant, "constant"}},
                 "the learning rate after the warm-up");
  entries.number("weight_decay", &Config::weight_decay, kFree, {0, 1e3},
                 "AdamW's, on matrices; not on biases and norms");
  entries.number("label_smoothing", &Config::label_smoothing, kFree, {0, 0.999}, "probability spread over all tokens");
  entries.number("clip_norm", &Config::clip_norm, kFree, {0, 1e9},
                 "gradients of a larger norm are scaled down; 0: never");
  entries.number("average_last", &Config::average_last, kFree, {0, 1},
                 "weights are averaged over this last part of the steps; 0: no average");
  entries.number("seed", &Config::seed, kFixed, {0, kMaxSeed},
                 "of initial weights, dropout and the order of the batches");
  entries.choice("precision", &Config::precision, kFixed, {{DType::float32, "float32"}, {DType::bfloat16, "bfloat16"}},
                 "what the model computes in; the weights are kept in float32");
}

void add_run_fields(Table& entries) {
  entries.text("device", &Config::device, kFree, "where the model is trained: cpu, cuda or cuda:N");
  entries.text("output", &Config::output, kFree,
               "the model directory; checkpoints, log and plot go into its training/");
  entries.number("checkpoint_every", &Config::checkpoint_every, kFree, {1, kMostCount},
                 "steps between two checkpoints");
  entries.number("keep_checkpoints", &Config::keep_checkpoints, kFree, {1, kMostCount},
                 "how many of the last are kept");
  entries.number("validate_every", &Config::validate_every, kFree, {1, kMostCount}, "steps between two validations");
  entries.number("validate_sentences", &Config::validate_sentences, kFree, {0, kMostCount},
                 "translated in a validation, of each direction; 0: all");
  entries.number("patience", &Config::patience, kFree, {0, kMostCount},
                 "validations without a better BLEU before stopping, with the best weights saved; 0: never stop early");
  entries.choice("weights", &Config::weights, kFree,
                 {{DType::float32, "float32"}, {DType::float16, "float16"}, {DType::bfloat16, "bfloat16"}},
                 "type in model.safetensors");
}

Table make_table() {
  Table entries("training config");
  add_data_fields(entries);
  add_tokenizer_fields(entries);
  add_model_fields(entries);
  add_optimization_fields(entries);
  add_run_fields(entries);
  entries.alias("d_model", "width");  // as files of version 0.1 call it
  return entries;
}

}  // namespace

const ConfigTable<TranslationTrainingConfig>& translation_config_table() {
  static const Table table = make_table();
  return table;
}

std::string config_text(const Config& config, std::string_view name) {
  return translation_config_table().text_of(config, name);
}

}  // namespace internal

std::vector<ConfigField> translation_training_fields() { return internal::translation_config_table().fields(); }

}  // namespace headway::inline v0
