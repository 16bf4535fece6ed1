// Fine-tuning of tiny models: every task learns a few examples by heart, frozen parts stay, runs resume and stop early.
#include <gtest/gtest.h>

#include "headway/device.h"
#include "headway/fine_tuning.h"
#include "headway/safetensors.h"
#include "headway/text_classifier.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/tiny_fine_tuning.h"
#include "training/new_tokenizer.h"

namespace {

using headway::fine_tune;
using headway::FineTuneConfig;
using headway::FineTuneReport;
using headway::FineTuneTask;
using namespace headway_test;
namespace fs = std::filesystem;

double score(const headway::FineTuneScores& scores, const std::string& name) {
  for (const headway::NamedScore& one : scores.scores) {
    if (one.name == name) return one.value;
  }
  ADD_FAILURE() << name;
  return 0.0;
}

// A run on labelled texts from a BERT without a head, which is saved first.
FineTuneConfig classify_run(const TemporaryDirectory& directory) {
  write_tiny_bert(directory / "bert", "BertModel");
  headway::TransformerModel::from_config(read_bytes(directory / "bert" / "config.json")).save(directory / "bert");
  write_bytes(directory / "train.csv", tiny_labelled_texts(8));
  write_bytes(directory / "test.csv", tiny_labelled_texts(1));
  FineTuneConfig config = tiny_run(directory, FineTuneTask::classify);
  config.model = directory / "bert";
  config.data = directory / "train.csv";
  config.test = config.validation = directory / "test.csv";
  config.validate_every = 20;
  return config;
}

TEST(FineTune, ClassifiesWhatItHasSeen) {
  const TemporaryDirectory directory;
  FineTuneConfig config = classify_run(directory);
  config.data_source = "Ann's texts";
  const FineTuneReport report = fine_tune(config);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.training.last_step, 60);
  EXPECT_EQ(report.validations.size(), 3u);
  ASSERT_EQ(report.test.size(), 1u);
  EXPECT_EQ(score(report.test[0], "accuracy"), 100.0);
  const auto model = headway::TransformerModel::load(config.output);
  EXPECT_EQ(model.options().labels, (std::vector<std::string>{"blame", "praise"}));
  EXPECT_EQ(headway::TextTokenizer::load(config.output).size(), model.options().vocab_size);
  for (const char* name : {"README.md", "training_config.json", "training/training.jsonl", "training/plot.html"}) {
    EXPECT_TRUE(fs::exists(config.output / name)) << name;
  }
  const std::string card = read_bytes(config.output / "README.md");
  EXPECT_PRED2(contains, card, "headway finetune --task classify");
  EXPECT_PRED2(contains, card, "| accuracy | 100.00 |");
  EXPECT_PRED2(contains, card, " Ann's texts.\n");
  EXPECT_PRED2(contains, card, R"(--data-source 'Ann'\''s texts')");
}

TEST(FineTune, GoesOnFromItsOwnHead) {
  const TemporaryDirectory directory;
  FineTuneConfig config = classify_run(directory);
  fine_tune(config);
  config.model = config.output;
  config.output = directory / "more";
  config.steps = 1;
  config.learning_rate = 0.0;
  EXPECT_EQ(score(fine_tune(config).test.at(0), "accuracy"), 100.0);
}

TEST(FineTune, OutOfScopeIsReportedApart) {
  const TemporaryDirectory directory;
  FineTuneConfig config = classify_run(directory);
  write_bytes(directory / "all.json", R"({"train": [["the film was good", "praise"], ["the food was bad", "blame"]],
      "oos_train": [["a table for two", "oos"]], "test": [["the film was good", "praise"]],
      "oos_test": [["a table for two", "oos"]]})");
  config.data = directory / "all.json";
  config.validation.clear();
  config.test.clear();
  config.parts = "train,oos_train";
  config.test_parts = "test,oos_test";
  config.out_of_scope = "oos";
  const FineTuneReport report = fine_tune(config);
  EXPECT_EQ(score(report.test.at(0), "in_scope_accuracy"), 100.0);
  EXPECT_EQ(score(report.test.at(0), "out_of_scope_recall"), 100.0);
  EXPECT_TRUE(report.validations.empty());
}

// A part that is named several times is there as often.
TEST(FineTune, PartsMayBeRepeated) {
  const TemporaryDirectory directory;
  FineTuneConfig config = classify_run(directory);
  write_bytes(directory / "all.json", R"({"train": [["the film was good", "praise"], ["the food was bad", "blame"]],
      "oos_train": [["a table for two", "oos"]]})");
  config.data = directory / "all.json";
  config.validation.clear();
  config.test.clear();
  config.parts = "train,oos_train,oos_train,oos_train";
  config.steps = 1;
  fine_tune(config);
  EXPECT_PRED2(contains, read_bytes(config.output / "README.md"), "Data: 5 texts for training");
}

// One text has two labels, one of them three times as often as the other: weights decide between them.
TEST(FineTune, ClassWeightsDecideBetweenLabels) {
  for (const auto& [weights, expected] : {std::pair<std::string, std::string>{"", "blame"}, {"praise=20", "praise"}}) {
    const TemporaryDirectory directory;
    FineTuneConfig config = classify_run(directory);
    std::string texts = "text,label\n";
    for (int i = 0; i < 24; ++i) texts += i % 4 == 0 ? "the film was good,praise\n" : "the film was good,blame\n";
    write_bytes(directory / "train.csv", texts);
    config.validation.clear();
    config.test.clear();
    config.class_weights = weights;
    fine_tune(config);
    const headway::TextClassifier classifier(config.output);
    EXPECT_EQ(classifier.classify({"the film was good"}).front().label(), expected) << weights;
  }
}

FineTuneConfig tag_run(const TemporaryDirectory& directory) {
  write_tiny_bert(directory / "bert", "BertForTokenClassification");
  std::string all;
  for (int i = 0; i < 10; ++i) {
    all += R"({"text": "a table for two at noon", "spans": [{"begin": 12, "end": 15, "label": "people"}, )";
    all += R"({"begin": 19, "end": 23, "label": "time"}]})";
    all += "\n";
    all += R"({"text": "three at eight", "spans": [{"begin": 0, "end": 5, "label": "people"}, )";
    all += R"({"begin": 9, "end": 14, "label": "time"}]})";
    all += "\n{\"text\": \"the food was good\"}\n";
  }
  write_bytes(directory / "spans.jsonl", all);
  FineTuneConfig config = tiny_run(directory, FineTuneTask::tag);
  config.from_config = directory / "bert" / "config.json";
  config.data = config.test = directory / "spans.jsonl";
  return config;
}

TEST(FineTune, TagsSpans) {
  const TemporaryDirectory directory;
  const FineTuneConfig config = tag_run(directory);
  const FineTuneReport report = fine_tune(config);
  EXPECT_EQ(score(report.test.at(0), "f1"), 100.0);
  EXPECT_EQ(headway::TransformerModel::load(config.output).options().labels.size(), 5u);
}

std::string question_json(const std::string& context, const std::string& question, int begin, const std::string& text) {
  return R"({"context": ")" + context + R"(", "qas": [{"id": "q", "question": ")" + question +
         R"(", "answers": [{"text": ")" + text + R"(", "answer_start": )" + std::to_string(begin) + "}]}]}";
}

FineTuneConfig answer_run(const TemporaryDirectory& directory) {
  write_tiny_bert(directory / "bert", "BertForQuestionAnswering");
  const std::string far = "the film was good the film was good the film was good the film was good ann wrote it";
  std::string paragraphs;
  for (int i = 0; i < 4; ++i) {
    paragraphs += (i == 0 ? "" : ", ") + question_json("bob ate the food at noon", "who ate", 0, "bob") + ", " +
                  question_json("ann wrote the book", "who wrote", 0, "ann") + ", " +
                  question_json(far, "who wrote it", 72, "ann");
  }
  write_bytes(directory / "squad.json", R"({"data": [{"paragraphs": [)" + paragraphs + "]}]}");
  FineTuneConfig config = tiny_run(directory, FineTuneTask::answer);
  config.from_config = directory / "bert" / "config.json";
  config.data = config.test = directory / "squad.json";
  config.max_length = 16;
  config.stride = 4;
  config.steps = 150;
  return config;
}

TEST(FineTune, FindsAnswersInWindows) {
  const TemporaryDirectory directory;
  const FineTuneReport report = fine_tune(answer_run(directory));
  EXPECT_GT(score(report.test.at(0), "f1"), 99.0);
  EXPECT_GT(score(report.test.at(0), "exact"), 99.0);
}

FineTuneConfig language_model_run(const TemporaryDirectory& directory) {
  write_tiny_gpt2(directory / "config.json");
  std::string text;
  for (int i = 0; i < 60; ++i) text += "abcdefgh\n";
  write_bytes(directory / "input.txt", text);
  FineTuneConfig config = tiny_run(directory, FineTuneTask::language_model);
  config.from_config = directory / "config.json";
  config.new_tokenizer = headway::NewTokenizer::characters;
  config.data = directory / "input.txt";
  config.validation_share = 0.2;
  config.learning_rate = 1e-2;
  return config;
}

TEST(FineTune, ALanguageModelOfCharacters) {
  const TemporaryDirectory directory;
  const FineTuneConfig config = language_model_run(directory);
  const FineTuneReport report = fine_tune(config);
  EXPECT_LT(report.validations.back().loss, 0.3);
  const auto tokenizer = headway::TextTokenizer::load(config.output);
  EXPECT_EQ(tokenizer.size(), 9);
  EXPECT_EQ(tokenizer.encode("\nha"), (std::vector<std::int64_t>{0, 8, 1}));
  EXPECT_EQ(tokenizer.decode({1, 2, 0, 3}), "ab\nc");
  EXPECT_EQ(headway::TransformerModel::load(config.output).options().vocab_size, 9);
}

FineTuneConfig text_to_text_run(const TemporaryDirectory& directory) {
  write_tiny_t5(directory / "config.json");
  std::string lines = "text\ttarget\n";
  const std::pair<const char*, const char*> pairs[] = {
      {"red green", "one"}, {"green blue", "two"}, {"blue red", "three"}, {"red red", "four"}};
  for (int i = 0; i < 8; ++i) {
    for (const auto& [text, target] : pairs) lines += std::string(text) + "\t" + target + "\n";
  }
  write_bytes(directory / "pairs.tsv", lines);
  FineTuneConfig config = tiny_run(directory, FineTuneTask::text_to_text);
  config.from_config = directory / "config.json";
  config.new_tokenizer = headway::NewTokenizer::unigram;
  config.vocab_size = 20;
  config.data = config.test = directory / "pairs.tsv";
  config.steps = 250;
  config.learning_rate = 1e-2;
  return config;
}

TEST(FineTune, TextToTextWithNewPieces) {
  const TemporaryDirectory directory;
  const FineTuneConfig config = text_to_text_run(directory);
  const FineTuneReport report = fine_tune(config);
  EXPECT_GT(score(report.test.at(0), "rouge1"), 99.0);
  EXPECT_TRUE(fs::exists(config.output / "spiece.model"));
}

FineTuneConfig masked_words_run(const TemporaryDirectory& directory) {
  write_tiny_bert(directory / "bert", "BertForMaskedLM");
  std::string text;
  for (int i = 0; i < 60; ++i) text += "ann ate food\n";
  write_bytes(directory / "input.txt", text);
  FineTuneConfig config = tiny_run(directory, FineTuneTask::masked_words);
  config.from_config = directory / "bert" / "config.json";
  config.data = config.validation = directory / "input.txt";
  config.max_length = 14;
  config.mask_share = 0.25;
  config.steps = 150;
  config.validate_every = 15;
  config.learning_rate = 1e-2;
  return config;
}

TEST(FineTune, MaskedWordsAreLearned) {
  const TemporaryDirectory directory;
  const FineTuneReport report = fine_tune(masked_words_run(directory));
  EXPECT_LT(report.validations.back().loss, 0.7);  // ln 3 is what knows nothing of the neighbours
}

// Every task on a device beside the CPU, in float32 and with 16-bit parameters.
TEST(FineTune, DeviceAndCpuAgree) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (const auto& make : {classify_run, tag_run, answer_run, language_model_run, text_to_text_run, masked_words_run}) {
    const TemporaryDirectory directory;
    FineTuneConfig config = make(directory);
    config.steps = 3;
    config.dropout = 0.0;
    double losses[3] = {};
    for (const int run : {0, 1, 2}) {
      config.device = run == 0 ? "cpu" : "cuda";
      config.precision = run == 2 ? headway::DType::bfloat16 : headway::DType::float32;
      config.output = directory / ("run" + std::to_string(run));
      const FineTuneReport report = fine_tune(config);
      losses[run] = (report.test.empty() ? report.validations : report.test).back().loss;
    }
    EXPECT_NEAR(losses[1], losses[0], 1e-3 * losses[0]) << config.to_json();
    EXPECT_NEAR(losses[2], losses[0], 5e-2 * losses[0]) << config.to_json();
  }
}

TEST(FineTune, FrozenPartsKeepTheirWeights) {
  const TemporaryDirectory directory;
  FineTuneConfig config = classify_run(directory);
  config.freeze_layers = 1;
  config.freeze_embeddings = true;
  config.steps = 3;
  for (const headway::DType precision : {headway::DType::float32, headway::DType::bfloat16}) {
    config.precision = precision;
    config.output = directory / ("out" + std::string(headway::dtype_name(precision)));
    fine_tune(config);
    const headway::StateDict before = headway::TransformerModel::load(config.model).state_dict();
    int kept = 0, changed = 0;
    for (const auto& [name, tensor] : headway::TransformerModel::load(config.output).state_dict()) {
      if (before.count(name) == 0) continue;
      const bool frozen = name.starts_with("encoder.layers.0.") || name.find("embedding") != std::string::npos ||
                          name.find("positions") != std::string::npos || name.find("token_types") != std::string::npos;
      const bool same = tensor.to_vector() == before.at(name).to_vector();
      EXPECT_TRUE(same || !frozen) << name;
      ++(same ? kept : changed);
    }
    EXPECT_GT(kept, 10);
    EXPECT_GT(changed, 10);
  }
}

TEST(FineTune, StopsEarlyAndKeepsTheBest) {
  const TemporaryDirectory directory;
  FineTuneConfig config = classify_run(directory);
  config.validate_every = 2;
  config.patience = 3;
  config.steps = 400;
  const FineTuneReport report = fine_tune(config);
  EXPECT_TRUE(report.finished);
  EXPECT_LT(report.training.last_step, 400);
  EXPECT_EQ(report.training.last_step, report.saved_step + 2 * config.patience);
  // The test part is the validation part, and the weights are those of the best validation.
  for (const headway::FineTuneScores& scores : report.validations) EXPECT_LE(scores.score, report.test.at(0).score);
}

// Stops after some steps and goes on: all files are those of a run that never stopped.
TEST(FineTune, ResumesToTheSameBits) {
  const TemporaryDirectory directory;
  FineTuneConfig config = classify_run(directory);
  config.accumulate = 2;
  config.steps = 24;
  config.validate_every = 5;
  config.output = directory / "whole";
  fine_tune(config);
  config.output = directory / "parts";
  for (const int stop : {3, 11, 100}) {
    int steps = 0;
    fine_tune(config, {.resume = true, .should_stop = [&] { return ++steps > stop; }});
  }
  for (const char* name : {"model.safetensors", "config.json", "tokenizer.json", "training/validation.jsonl"}) {
    EXPECT_TRUE(read_bytes(directory / "whole" / name) == read_bytes(directory / "parts" / name)) << name;
  }
}

TEST(FineTune, AnotherRunsCheckpointsAreRefused) {
  const TemporaryDirectory directory;
  FineTuneConfig config = classify_run(directory);
  config.steps = 2;
  fine_tune(config);
  EXPECT_PRED2(contains, message_of([&] { fine_tune(config); }), "holds the checkpoint of step 2 of another run");
  config.batch = 4;
  EXPECT_PRED2(contains, message_of([&] { fine_tune(config, {.resume = true}); }), "batch is 4, and the checkpoints");
  config.batch = 8;
  write_bytes(config.data, tiny_labelled_texts(9));
  EXPECT_PRED2(contains, message_of([&] { fine_tune(config, {.resume = true}); }), "has changed since the checkpoint");
}

TEST(FineTune, ConfigsThatContradictThemselves) {
  FineTuneConfig config;
  EXPECT_PRED2(contains, message_of([&] { config.check(); }), "expected one of them");
  config.model = "a";
  EXPECT_PRED2(contains, message_of([&] { config.check(); }), "data is empty");
  config.data = "b";
  config.check();
  config.folds = 3;
  config.fold = 3;
  EXPECT_PRED2(contains, message_of([&] { config.check(); }), "folds is 3 and fold 3");
  EXPECT_PRED2(contains, message_of([&] { config.set("taks", "tag"); }), "the nearest is \"task\"");
  config.folds = 0;
  config.class_weights = "balanced";
  config.task = FineTuneTask::tag;
  EXPECT_PRED2(contains, message_of([&] { config.check(); }), "needs the task classify");
  config.set("task", "text-to-text");
  EXPECT_EQ(config.task, FineTuneTask::text_to_text);
  EXPECT_PRED2(contains, message_of([&] { config.set("task", "translate"); }), "expected one of \"classify\"");
}

}  // namespace
