// Training a translator from sentence pairs, from the tokenizer to the model directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "headway/export.h"
#include "headway/text_pairs.h"
#include "headway/tokenizer.h"
#include "headway/training.h"
#include "headway/translation_model.h"
#include "headway/translation_scores.h"

namespace headway {
inline namespace v0 {

// One training run. A JSON file has the same fields by the same names; all have defaults, unknown ones are refused.
struct TranslationTrainingConfig {
  // data
  std::filesystem::path data = {};         // tab-separated, plain or zipped
  std::filesystem::path data_target = {};  // set: `data` holds the sources line by line, this the targets
  std::string source_language = "eng";
  std::string target_language = "deu";
  bool both_directions = true;
  std::int64_t max_characters = 400;
  double max_ratio = 4.0;
  std::int64_t max_pairs = 0;    // use the first so many alone; 0: all
  std::string data_source = {};  // where the pairs are from and their licence, for the model card

  // tokenizer
  std::int64_t vocab_size = 8000;
  std::string pieces = "unigram";  // or "bpe"

  // model
  std::int64_t d_model = 256;
  std::int64_t heads = 8;
  std::int64_t encoder_layers = 4;
  std::int64_t decoder_layers = 4;
  std::int64_t feed_forward = 1024;
  std::string activation = "relu";
  double dropout = 0.15;            // on embeddings and on what each sublayer gives
  double attention_dropout = 0.0;   // on attention weights
  double activation_dropout = 0.0;  // inside the feed-forward networks

  // optimization
  std::int64_t epochs = 27;
  std::int64_t max_steps = 0;         // stop there; 0: epochs decide
  std::int64_t batch_tokens = 12000;  // padded tokens of source plus target in a batch
  std::int64_t accumulate = 1;
  double learning_rate = 1e-3;
  std::int64_t warmup_steps = 1500;
  std::string schedule = "cosine";  // or "inverse_sqrt", "linear", "constant"
  double weight_decay = 0.01;
  double label_smoothing = 0.1;
  double clip_norm = 1.0;
  double average_last = 0.15;  // weights are averaged over this last part of the steps
  std::uint64_t seed = 1;
  // "bfloat16": mixed precision. The model and its gradients are bfloat16, the weights that the optimizer changes, and
  // from which means, validations and what is saved come, float32.
  std::string precision = "float32";

  // run
  std::string device = "cpu";              // where the model is trained; "cuda" or "cuda:1": on a GPU
  std::filesystem::path output = "model";  // the model directory; checkpoints, log and plot go into output/training
  std::int64_t checkpoint_every = 500;     // steps
  std::int64_t keep_checkpoints = 3;
  std::int64_t validate_every = 1000;     // steps; also at the end
  std::int64_t validate_sentences = 500;  // of each direction; 0: all
  // Validations without a better BLEU before stopping early; the best weights are then what is saved. 0: never, and the
  // last weights are saved.
  std::int64_t patience = 0;
  std::string weights = "float32";  // of model.safetensors: float32, float16 or bfloat16

  // Reads a JSON file; an Error names the file, the field, what came and what was expected.
  HEADWAY_API static TranslationTrainingConfig load(const std::filesystem::path& file);
  // Sets a field by its name from text, as in ("epochs", "3").
  HEADWAY_API void set(std::string_view field, std::string_view value);
  HEADWAY_API std::string to_json() const;
  // Throws where a value cannot be.
  HEADWAY_API void check() const;
};
// Every field's name, its default as text and one line that explains it.
struct ConfigField {
  std::string name;
  std::string default_value;
  std::string help;
};
HEADWAY_API std::vector<ConfigField> translation_training_fields();

struct TranslationRunOptions {
  bool resume = false;  // go on from output/training; else it must hold no checkpoint
  std::ostream* progress = nullptr;
  std::function<bool()> should_stop = {};  // true after a signal: a checkpoint is written and the run ends
};

struct ValidationReport {
  std::int64_t step = 0;
  double loss = 0.0;               // mean cross entropy per target token, without smoothing
  double bleu = 0.0;               // mean of the directions
  std::vector<double> directions;  // BLEU of each: source to target, then back
};

struct TranslationTrainingReport {
  TrainingReport training;
  std::vector<ValidationReport> validations;
  bool finished = false;  // false where it was stopped: no model was written
};
HEADWAY_API TranslationTrainingReport train_translation(const TranslationTrainingConfig& config,
                                                        const TranslationRunOptions& options = {});

}  // namespace v0
}  // namespace headway
