// Training models of every family on a user's texts, from a model directory or from nothing: classification, tags of
// words, answers in texts, language models, text to text, masked words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "headway/dtype.h"
#include "headway/export.h"
#include "headway/training.h"
#include "headway/training_run.h"

namespace headway {
inline namespace v0 {

enum class FineTuneTask {
  classify,        // a label of a whole text: encoders
  tag,             // labelled spans in a text, learned as B-, I- and O tags of tokens: encoders
  answer,          // where a text answers a question: encoders
  language_model,  // the next token: decoders
  text_to_text,    // a text from a text, as a summary: encoder-decoders
  masked_words,    // words that were masked out: encoders
};

// The tokenizer of a model that is trained from nothing.
enum class NewTokenizer {
  none,        // it is in the directory that `tokenizer` or `from_config` names
  characters,  // one token for each character of the training texts
  unigram,     // pieces that SentencePiece learns from the training texts, in T5's form (spiece.model)
  bpe,         // the same with byte-pair encoding
};

// The settings of one run. A JSON file has the same fields under the same names, and enumerations by the names of their
// values with "-" for "_" ("text-to-text"). Every field has a default; an unknown field is an Error.
//
// Files of examples, by `task`:
//   classify       .csv, .tsv, .json or .jsonl with a text and a label; a .json may be an object of lists [text,
//   label],
//                  of which `parts` chooses
//   tag            .json or .jsonl of {"text", "spans": [{"begin", "end", "label"}]}, in characters; or the objects of
//                  restaurant8k: {"userInput": {"text"}, "labels": [{"slot", "valueSpan": {"startIndex", "endIndex"}}]}
//   answer         SQuAD 1.1's .json
//   language_model, masked_words   text
//   text_to_text   .csv, .tsv, .json or .jsonl with a text and a target
// A .tsv has a line for a record and no quotes; a .csv is that of RFC 4180. A first record that holds the names of the
// fields is a header; otherwise the fields are the first and the second column.
struct FineTuneConfig {
  FineTuneTask task = FineTuneTask::classify;

  // model
  std::filesystem::path model = {};        // a directory with model and tokenizer to go on from
  std::filesystem::path from_config = {};  // a config.json, for a model from nothing; excludes `model`
  std::filesystem::path tokenizer = {};    // a directory; default: that of `model` or `from_config`
  NewTokenizer new_tokenizer = NewTokenizer::none;
  std::int64_t vocab_size = 8000;  // of a new tokenizer that learns pieces
  double dropout = -1.0;           // all dropouts of the model; below 0: those of its config
  std::int64_t freeze_layers = 0;  // this many first layers of every stack keep their weights
  bool freeze_embeddings = false;
  std::int64_t max_length = 0;  // tokens of a text; 0: what the model can, at most 512
  std::int64_t max_target_length = 64;
  std::int64_t stride = 128;  // answer: tokens that neighbouring windows share
  std::string prefix = {};    // text_to_text: in front of every text, as "summarize: "

  // data
  std::filesystem::path data = {};
  std::filesystem::path validation = {};
  std::filesystem::path test = {};
  std::string parts = {};             // lists of a .json to train on, as "train,oos_train"
  std::string validation_parts = {};  // of the file `validation`, default `data`
  std::string test_parts = {};        // of the file `test`, default `data`
  std::string text_field = {};        // name or number (from 1) of a column, name of a JSON field; default "text"
  std::string label_field = {};       // likewise; default "label", or "target" for text_to_text
  std::int64_t folds = 0;             // cut the data into so many test parts, record i (article i) into part i % folds
  std::int64_t fold = 0;              // and hold out this one as test
  double validation_share = 0.0;      // the last part of the data, where there is no `validation`
  std::string out_of_scope = {};      // classify: the label whose recall is reported apart
  std::string data_source = {};       // origin and licence of the data, for the model card

  // optimization
  std::int64_t epochs = 3;
  std::int64_t steps = 0;         // above 0: so many steps, whatever the epochs
  std::int64_t batch = 32;        // texts
  std::int64_t batch_tokens = 0;  // above 0: as many texts as have this many tokens with padding, instead of `batch`
  std::int64_t accumulate = 1;
  double learning_rate = 5e-5;    // the peak, reached after the warm-up
  double final_rate = 0.0;        // where linear and cosine end
  double head_rate_factor = 1.0;  // of the learning rate, for a new head
  std::int64_t warmup_steps = 0;
  double warmup_share = 0.1;  // of all steps, where warmup_steps is 0
  LearningRateSchedule schedule = LearningRateSchedule::linear;
  double weight_decay = 0.01;  // on matrices; not on biases and norms
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double label_smoothing = 0.0;
  // classify: "balanced", or labels whose examples count more, as "oos=5"; the loss is the weighted mean.
  std::string class_weights = {};
  double mask_share = 0.15;  // masked_words
  double clip_norm = 1.0;
  std::uint64_t seed = 1;
  // float32, or bfloat16 for mixed precision: the model and its gradients are bfloat16; the weights that the optimizer
  // updates, and that evaluations and saved files are made from, stay float32.
  DType precision = DType::float32;

  // run
  std::string device = "cpu";  // "cpu", "cuda" or "cuda:1"
  std::filesystem::path output = "model";
  std::int64_t checkpoint_every = 500;  // steps
  std::int64_t keep_checkpoints = 2;
  std::int64_t validate_every = 0;    // steps; 0: every epoch. The last step is always validated
  std::int64_t validate_texts = 0;    // of the validation part; 0: all
  std::int64_t generate_texts = 200;  // text_to_text: of these, as many are written by greedy search and scored
  std::int64_t patience = 0;       // ends the run after so many validations in a row without a better score; 0: never
  bool keep_best = true;           // saves the weights of the best validation instead of the last ones
  DType weights = DType::float32;  // element type in model.safetensors: float32, float16 or bfloat16

  // Reads a JSON file; an Error names the file, the field, its value and what was expected.
  HEADWAY_API static FineTuneConfig load(const std::filesystem::path& file);
  // Sets a field by its name from text, as in ("epochs", "3").
  HEADWAY_API void set(std::string_view field, std::string_view value);
  HEADWAY_API std::string to_json() const;
  // Throws an Error where a value is out of its range, or two values exclude each other.
  HEADWAY_API void check() const;
};
HEADWAY_API std::vector<ConfigField> fine_tuning_fields();

struct NamedScore {
  std::string name;
  double value = 0.0;
};
// What a model reaches on texts that it was not trained on.
struct FineTuneScores {
  std::int64_t step = 0;
  double loss = 0.0;   // mean cross entropy of what is predicted, without label smoothing
  double score = 0.0;  // the greater the better: the first of `scores`, or -loss where there are none
  // classify: accuracy, and where the config has out_of_scope in_scope_accuracy, out_of_scope_recall; tag: f1,
  // precision, recall of whole spans; answer: f1, exact, as SQuAD counts them; text_to_text: rouge_l, rouge1, rouge2
  // (f1, with stems); all in percent.
  std::vector<NamedScore> scores;
};

struct FineTuneReport {
  TrainingReport training;
  std::vector<FineTuneScores> validations;
  std::vector<FineTuneScores> test;  // one, of the saved weights, where there is a test part and the run finished
  std::int64_t saved_step = 0;       // whose weights were saved
  bool finished = false;             // false where should_stop ended the run, which then wrote no model
};
// Trains a model on the texts of config.data and writes a model directory: config.json, model.safetensors, the
// tokenizer's files and a model card, which Headway and transformers open. A run that is killed and started again with
// `resume` ends with the same bits as an uninterrupted one.
HEADWAY_API FineTuneReport fine_tune(const FineTuneConfig& config, const TrainingRunOptions& options = {});

}  // namespace v0
}  // namespace headway
