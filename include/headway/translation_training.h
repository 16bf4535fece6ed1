// Training a translator from sentence pairs, from the tokenizer to the model directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headway/dtype.h"
#include "headway/export.h"
#include "headway/ops.h"
#include "headway/text_pairs.h"
#include "headway/tokenizer.h"
#include "headway/training.h"
#include "headway/training_run.h"
#include "headway/translation_model.h"
#include "headway/translation_scores.h"

namespace headway {
inline namespace v0 {

// The settings of one training run. A JSON file has the same fields under the same names, and enumerations by the names
// of their values ("cosine", "float32"). Every field has a default; an unknown field is an Error.
struct TranslationTrainingConfig {
  // data
  std::filesystem::path data = {};         // sentence pairs: a line is source, tab, target; plain or inside a .zip
  std::filesystem::path data_target = {};  // where set, `data` holds the sources line by line and this file the targets
  std::string source_language = "eng";
  std::string target_language = "deu";
  bool both_directions = true;
  std::int64_t max_characters = 400;  // pairs with a longer side are left out
  double max_ratio = 4.0;             // pairs whose sides differ more in length are left out
  std::int64_t max_pairs = 0;         // train on this many first pairs; 0: on all
  std::string data_source = {};       // origin and licence of the pairs, for the model card

  // tokenizer
  std::int64_t vocab_size = 8000;
  PieceKind pieces = PieceKind::unigram;

  // model
  std::int64_t width = 256;  // of the model: a multiple of `heads`, and even
  std::int64_t heads = 8;
  std::int64_t encoder_layers = 4;
  std::int64_t decoder_layers = 4;
  std::int64_t feed_forward = 1024;          // inner width of the feed-forward networks
  Activation activation = Activation::relu;  // relu, gelu or silu
  double dropout = 0.15;                     // on embeddings and on the output of each sublayer
  double attention_dropout = 0.0;            // on attention weights
  double activation_dropout = 0.0;           // inside the feed-forward networks

  // optimization
  std::int64_t epochs = 27;
  std::int64_t max_steps = 0;         // ends the run after this many steps; 0: after `epochs`
  std::int64_t batch_tokens = 12000;  // tokens of source plus target in a batch, padding included
  std::int64_t accumulate = 1;        // batches whose gradients are accumulated into one step
  double learning_rate = 1e-3;        // the peak, reached after the warm-up
  std::int64_t warmup_steps = 1500;
  LearningRateSchedule schedule = LearningRateSchedule::cosine;  // linear and cosine end at 1% of the peak
  double weight_decay = 0.01;
  double label_smoothing = 0.1;
  double clip_norm = 1.0;
  double average_last = 0.15;  // the saved weights are the mean over this last part of the steps; 0: no mean
  std::uint64_t seed = 1;
  // float32, or bfloat16 for mixed precision: the model and its gradients are bfloat16; the weights that the optimizer
  // updates, and that averages, validations and saved files are made from, stay float32.
  DType precision = DType::float32;

  // run
  // "cpu", "cuda" or "cuda:1". A name and not a Device, because a config may be written where that GPU is missing.
  std::string device = "cpu";
  std::filesystem::path output = "model";  // the model directory; checkpoints, log and plot go into output/training
  std::int64_t checkpoint_every = 500;     // steps
  std::int64_t keep_checkpoints = 3;
  std::int64_t validate_every = 1000;     // steps; the last step is always validated
  std::int64_t validate_sentences = 500;  // of each direction; 0: all
  // Ends the run after this many validations in a row without a better BLEU, and saves the best weights instead of the
  // last ones. 0: never.
  std::int64_t patience = 0;
  DType weights = DType::float32;  // element type in model.safetensors: float32, float16 or bfloat16

  // Reads a JSON file; an Error names the file, the field, its value and what was expected. "d_model", the name of
  // `width` before version 0.2, is still read.
  HEADWAY_API static TranslationTrainingConfig load(const std::filesystem::path& file);
  // The same; fields that the file does not have keep the value that they have in `base`.
  HEADWAY_API static TranslationTrainingConfig load(const std::filesystem::path& file,
                                                    const TranslationTrainingConfig& base);
  // The settings of the run whose output directory this is, from its training/settings.json or its newest checkpoint;
  // nothing where there is no run. Relative paths that are missing here are looked for where the run was begun.
  HEADWAY_API static std::optional<TranslationTrainingConfig> of_run(const std::filesystem::path& output);
  // Sets a field by its name from text, as in ("epochs", "3").
  HEADWAY_API void set(std::string_view field, std::string_view value);
  HEADWAY_API std::string to_json() const;
  // Throws an Error where a value is out of its range, or two values exclude each other.
  HEADWAY_API void check() const;
};

HEADWAY_API std::vector<ConfigField> translation_training_fields();

using TranslationRunOptions = TrainingRunOptions;

struct ValidationReport {
  std::int64_t step = 0;
  double loss = 0.0;               // mean cross entropy per target token, without label smoothing
  double bleu = 0.0;               // mean of the directions
  std::vector<double> directions;  // BLEU of each: source to target, then back
};

struct TranslationTrainingReport {
  TrainingReport training;
  std::vector<ValidationReport> validations;
  bool finished = false;  // false where should_stop ended the run, which then wrote no model
};
// Trains a model on the pairs of config.data and writes a model directory that Translator opens.
HEADWAY_API TranslationTrainingReport train_translation(const TranslationTrainingConfig& config,
                                                        const TranslationRunOptions& options = {});

}  // namespace v0
}  // namespace headway
