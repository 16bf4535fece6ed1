// The fields of a fine-tuning run.
#include "training/fine_tune_fields.h"

#include "base/files.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Tuning = FineTuneConfig;
using TuningTable = ConfigTable<Tuning>;
constexpr auto kTuningFixed = OnResume::fixed;
constexpr auto kTuningFree = OnResume::free;
constexpr double kMostDropout = 0.999;

void add_model_fields(TuningTable& table) {
  table.choice("task", &Tuning::task, kTuningFixed,
               {{FineTuneTask::classify, "classify"},
                {FineTuneTask::tag, "tag"},
                {FineTuneTask::answer, "answer"},
                {FineTuneTask::language_model, "language-model"},
                {FineTuneTask::text_to_text, "text-to-text"},
                {FineTuneTask::masked_words, "masked-words"}},
               "what the model learns");
  table.text("model", &Tuning::model, kTuningFree, "directory with model and tokenizer to go on from");
  table.text("from_config", &Tuning::from_config, kTuningFree, "config.json of a model that is trained from nothing");
  table.text("tokenizer", &Tuning::tokenizer, kTuningFree,
             "directory of the tokenizer; default: that of model or from-config");
  table.choice("new_tokenizer", &Tuning::new_tokenizer, kTuningFixed,
               {{NewTokenizer::none, "none"},
                {NewTokenizer::characters, "characters"},
                {NewTokenizer::unigram, "unigram"},
                {NewTokenizer::bpe, "bpe"}},
               "make a tokenizer from the training texts");
  table.number("vocab_size", &Tuning::vocab_size, kTuningFixed, {8, 16777216}, "pieces that a new tokenizer learns");
  table.number("dropout", &Tuning::dropout, kTuningFree, {-1, kMostDropout},
               "all dropouts of the model; below 0: those of its config");
  table.number("freeze_layers", &Tuning::freeze_layers, kTuningFixed, {0, 1024},
               "so many first layers keep their weights");
  table.text("freeze_embeddings", &Tuning::freeze_embeddings, kTuningFixed, "embeddings keep their weights");
  table.number("max_length", &Tuning::max_length, kTuningFixed, {0, kMostCount},
               "tokens of a text; 0: what the model can, at most 512");
  table.number("max_target_length", &Tuning::max_target_length, kTuningFixed, {1, kMostCount},
               "text-to-text: tokens of a target");
  table.number("stride", &Tuning::stride, kTuningFixed, {0, kMostCount},
               "answer: tokens that neighbouring windows share");
  table.text("prefix", &Tuning::prefix, kTuningFixed, "text-to-text: in front of every text");
}

void add_data_fields(TuningTable& table) {
  table.text("data", &Tuning::data, kTuningFree, "file to train on");
  table.text("validation", &Tuning::validation, kTuningFree, "file that is scored during training");
  table.text("test", &Tuning::test, kTuningFree, "file that is scored at the end");
  table.text("parts", &Tuning::parts, kTuningFixed, "lists of a .json to train on, separated by commas");
  table.text("validation_parts", &Tuning::validation_parts, kTuningFixed, "lists of the validation's .json");
  table.text("test_parts", &Tuning::test_parts, kTuningFixed, "lists of the test's .json");
  table.text("text_field", &Tuning::text_field, kTuningFixed, "name or number of the text's field");
  table.text("label_field", &Tuning::label_field, kTuningFixed, "name or number of the label's or target's field");
  table.number("folds", &Tuning::folds, kTuningFixed, {0, kMostCount}, "cut the data into so many test parts; 0: none");
  table.number("fold", &Tuning::fold, kTuningFixed, {0, kMostCount}, "the part that is held out as test");
  table.number("validation_share", &Tuning::validation_share, kTuningFixed, {0, 0.9},
               "hold out this last part of the data, where no validation is given");
  table.text("out_of_scope", &Tuning::out_of_scope, kTuningFixed, "classify: the label whose recall is reported apart");
  table.number("out_of_scope_cost", &Tuning::out_of_scope_cost, kTuningFree, {0, 100},
               "points of validation's in-scope accuracy that are given up for that recall");
  table.text("data_source", &Tuning::data_source, kTuningFree,
             "where the data is from and its licence, for the model card");
}

void add_rate_fields(TuningTable& table) {
  table.number("learning_rate", &Tuning::learning_rate, kTuningFree, {0, 1e3}, "the highest, after the warm-up");
  table.number("final_rate", &Tuning::final_rate, kTuningFree, {0, 1e3}, "where linear and cosine end");
  table.number("head_rate_factor", &Tuning::head_rate_factor, kTuningFree, {0, 1e6},
               "of the learning rate, for the head's parameters");
  table.number("warmup_steps", &Tuning::warmup_steps, kTuningFree, {0, kMostCount},
               "steps in which the learning rate rises linearly");
  table.number("warmup_share", &Tuning::warmup_share, kTuningFree, {0, 1},
               "the same as a share of all steps, where warmup-steps is 0");
  table.choice("schedule", &Tuning::schedule, kTuningFree,
               {{LearningRateSchedule::linear, "linear"},
                {LearningRateSchedule::cosine, "cosine"},
                {LearningRateSchedule::inverse_sqrt, "inverse_sqrt"},
                {LearningRateSchedule::constant, "constant"}},
               "the learning rate after the warm-up");
}

void add_optimization_fields(TuningTable& table) {
  table.number("epochs", &Tuning::epochs, kTuningFree, {1, 1e6}, "passes over the training data");
  table.number("steps", &Tuning::steps, kTuningFree, {0, kMostCount}, "take so many steps; 0: epochs decide");
  table.number("batch", &Tuning::batch, kTuningFixed, {1, kMostCount}, "texts in a batch");
  table.number("batch_tokens", &Tuning::batch_tokens, kTuningFixed, {0, kMostCount},
               "padded tokens in a batch, instead of batch; 0: batch decides");
  table.number("accumulate", &Tuning::accumulate, kTuningFixed, {1, 1e6}, "batches whose gradients make one step");
  add_rate_fields(table);
  table.number("weight_decay", &Tuning::weight_decay, kTuningFree, {0, 1e3},
               "AdamW's, on matrices; not on biases and norms");
  table.number("beta1", &Tuning::beta1, kTuningFree, {0, 0.99999}, "AdamW's");
  table.number("beta2", &Tuning::beta2, kTuningFree, {0, 0.999999}, "AdamW's");
  table.number("epsilon", &Tuning::epsilon, kTuningFree, {0, 1}, "AdamW's");
  table.number("label_smoothing", &Tuning::label_smoothing, kTuningFree, {0, 0.999},
               "probability spread over all labels or tokens");
  table.text("class_weights", &Tuning::class_weights, kTuningFixed,
             "classify: labels that count more in the loss, as oos=5, or balanced");
  table.number("mask_share", &Tuning::mask_share, kTuningFixed, {0, 0.9}, "masked-words: of all tokens");
  table.number("clip_norm", &Tuning::clip_norm, kTuningFree, {0, 1e9},
               "gradients of a larger norm are scaled down; 0: never");
  table.number("seed", &Tuning::seed, kTuningFixed, {0, kMaxSeed},
               "of initial weights, dropout and the order of the batches");
  table.choice("precision", &Tuning::precision, kTuningFixed,
               {{DType::float32, "float32"}, {DType::bfloat16, "bfloat16"}},
               "what the model computes in; the weights are kept in float32");
}

void add_run_fields(TuningTable& table) {
  table.text("device", &Tuning::device, kTuningFree, "where the model is trained: cpu, cuda or cuda:N");
  table.text("output", &Tuning::output, kTuningFree,
             "the model directory; checkpoints, log and plot go into its training/");
  table.number("checkpoint_every", &Tuning::checkpoint_every, kTuningFree, {1, kMostCount},
               "steps between two checkpoints");
  table.number("keep_checkpoints", &Tuning::keep_checkpoints, kTuningFree, {1, kMostCount},
               "how many of the last are kept");
  table.number("validate_every", &Tuning::validate_every, kTuningFree, {0, kMostCount},
               "steps between two validations; 0: an epoch");
  table.number("validate_texts", &Tuning::validate_texts, kTuningFree, {0, kMostCount},
               "examples of the validation part that are used; 0: all");
  table.number("generate_texts", &Tuning::generate_texts, kTuningFree, {0, kMostCount},
               "text-to-text: texts that a validation writes and scores; 0: none");
  table.number("patience", &Tuning::patience, kTuningFree, {0, kMostCount},
               "validations without a better score before stopping; 0: never stop early");
  table.text("keep_best", &Tuning::keep_best, kTuningFixed, "save the weights of the best validation");
  table.choice("weights", &Tuning::weights, kTuningFree,
               {{DType::float32, "float32"}, {DType::float16, "float16"}, {DType::bfloat16, "bfloat16"}},
               "type in model.safetensors");
}

TuningTable make_tuning_table() {
  TuningTable table("fine-tuning config");
  add_model_fields(table);
  add_data_fields(table);
  add_optimization_fields(table);
  add_run_fields(table);
  return table;
}

}  // namespace

const ConfigTable<FineTuneConfig>& fine_tune_table() {
  static const TuningTable table = make_tuning_table();
  return table;
}

}  // namespace internal

FineTuneConfig FineTuneConfig::load(const std::filesystem::path& file) { return load(file, {}); }

FineTuneConfig FineTuneConfig::load(const std::filesystem::path& file, const FineTuneConfig& base) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  const std::string text = internal::read_whole_file(file, {}, {.limit = kLargest});
  return internal::fine_tune_table().from_json(text, file.string(), base);
}

void FineTuneConfig::set(std::string_view field, std::string_view value) {
  internal::fine_tune_table().set(*this, field, value);
}

std::string FineTuneConfig::to_json() const { return internal::fine_tune_table().to_json(*this); }

void FineTuneConfig::check() const {
  const std::string& where = internal::fine_tune_table().what();
  internal::fine_tune_table().check(*this);
  internal::check(model.empty() != from_config.empty(), where, ": model is \"", model.string(), "\" and from_config \"",
                  from_config.string(), "\", expected one of them");
  internal::check(new_tokenizer == NewTokenizer::none || !from_config.empty(), where,
                  ": new_tokenizer is set, which needs from_config; a model that is there keeps its tokenizer");
  internal::check(new_tokenizer == NewTokenizer::none || tokenizer.empty(), where, ": tokenizer is \"",
                  tokenizer.string(), "\" and new_tokenizer is set, expected one of them");
  internal::check(folds != 1 && (folds == 0 || fold < folds), where, ": folds is ", folds, " and fold ", fold,
                  ", expected 0, or at least 2 and a fold below it");
  internal::check(folds == 0 || (test.empty() && test_parts.empty()), where, ": folds is ", folds,
                  " and test is set, expected one of them");
  internal::check(out_of_scope_cost == 0.0 || !out_of_scope.empty(), where,
                  ": out_of_scope_cost is given, which needs out_of_scope");
  internal::check(class_weights.empty() || task == FineTuneTask::classify, where, ": class_weights is \"",
                  class_weights, "\", which needs the task classify");
  internal::check_device(where, device);
  internal::check(!data.empty(), where, ": data is empty, expected a file");
  internal::check(!output.empty(), where, ": output is empty, expected a directory");
}

std::vector<ConfigField> fine_tuning_fields() { return internal::fine_tune_table().fields(); }

}  // namespace headway::inline v0
