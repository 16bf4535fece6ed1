// A translator of a made-up language, from the pairs to the model directory.
#include "headway/translation_training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "headway/threads.h"
#include "headway/training.h"
#include "headway/translator.h"
#include "support/files.h"
#include "support/made_up_language.h"
#include "support/message_of.h"
#include "training/evaluation_copies.h"
#include "training/trained_weights.h"

namespace {

using headway::train_translation;
using headway::TranslationTrainingConfig;
using headway::TranslationTrainingReport;
using headway_test::contains;
using headway_test::message_of;
using headway_test::read_bytes;
using headway_test::small_run;
using headway_test::TemporaryDirectory;
using headway_test::write_bytes;
using headway_test::write_made_up_pairs;
namespace fs = std::filesystem;

// Sanitizers make every step slow.
const bool kReduced = std::getenv("HEADWAY_TEST_REDUCED") != nullptr;

// All files of a model directory, without those of the training.
std::map<std::string, std::string> model_files(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_regular_file()) files[entry.path().filename().string()] = read_bytes(entry.path());
  }
  return files;
}

// The run's model files with the fields that name its directory left out.
std::map<std::string, std::string> comparable(const fs::path& directory) {
  auto files = model_files(directory);
  EXPECT_EQ(files.erase("training_config.json"), 1U);
  return files;
}

// Runs until `steps` steps were taken, then asks to stop.
TranslationTrainingReport stopped_after(const TranslationTrainingConfig& config, int steps, bool resume = false) {
  int taken = 0;
  // It is asked once before the first step.
  return train_translation(config, {.resume = resume, .should_stop = [&taken, steps] { return taken++ == steps; }});
}

std::size_t line_count(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(TranslationTraining, LearnsAMadeUpLanguage) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 3000);
  TranslationTrainingConfig config = small_run(directory);
  config.vocab_size = 380;
  config.width = 64;
  config.seed = 2;
  config.learning_rate = 3e-3;
  config.max_steps = kReduced ? 40 : 500;
  config.validate_every = config.max_steps / 2;
  config.weights = headway::DType::float16;
  config.data_source = "made up by a test";
  std::ostringstream progress;
  const TranslationTrainingReport report = train_translation(config, {.progress = &progress});
  SCOPED_TRACE(progress.str());
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.training.last_step, config.max_steps);
  ASSERT_EQ(report.validations.size(), 2U);
  EXPECT_GT(report.validations.back().bleu, kReduced ? -1.0 : 90.0);
  ASSERT_EQ(report.validations.back().directions.size(), 2U);
  EXPECT_PRED2(contains, progress.str(), "step " + std::to_string(config.max_steps) + ": validation loss");

  const fs::path training = config.output / "training";
  EXPECT_EQ(line_count(read_bytes(training / "training.jsonl")), static_cast<std::size_t>(config.max_steps));
  EXPECT_EQ(line_count(read_bytes(training / "validation.jsonl")), 2U);
  EXPECT_PRED2(contains, read_bytes(training / "plot.html"), "</html>");
  EXPECT_PRED2(contains, read_bytes(config.output / "README.md"), "made up by a test");
  EXPECT_EQ(TranslationTrainingConfig::load(config.output / "training_config.json").to_json(), config.to_json());

  const headway::Translator translator(config.output);
  const headway::Tensor embedding = translator.model().state_dict().at("embedding.weight");
  const std::vector<double> pad = embedding.select(0, translator.tokenizer().pad_id()).to_vector();
  EXPECT_EQ(std::count(pad.begin(), pad.end(), 0.0), std::ssize(pad)) << "the row of <pad> is not zero";
  if (kReduced) return;
  headway::TranslateOptions options;
  const headway_test::MadeUpPair pair = headway_test::made_up_pair(123456);
  options.to = "deu";
  EXPECT_EQ(translator.translate({pair.source}, options)[0].text, pair.target);
  options.to = "eng";
  EXPECT_EQ(translator.translate({pair.target}, options)[0].text, pair.source);
}

TEST(TranslationTraining, TheSameSeedGivesTheSameBitsOnAnyNumberOfThreads) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 400);
  std::vector<std::map<std::string, std::string>> results;
  const int before = headway::num_threads();
  for (const int threads : {1, 2, 3}) {
    headway::set_num_threads(threads);
    TranslationTrainingConfig config = small_run(directory);
    config.output = directory / ("model" + std::to_string(threads));
    train_translation(config);
    results.push_back(comparable(config.output));
  }
  headway::set_num_threads(before);
  EXPECT_EQ(results[0].size(), 8U);
  EXPECT_TRUE(results[0] == results[1]);
  EXPECT_TRUE(results[0] == results[2]);

  TranslationTrainingConfig other = small_run(directory);
  other.seed = 2;
  train_translation(other);
  EXPECT_NE(comparable(other.output).at("model.safetensors"), results[0].at("model.safetensors"));
}

TEST(TranslationTraining, AStoppedRunGoesOnToTheSameBits) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 400);
  for (const std::int64_t patience : {0, 2}) {
    TranslationTrainingConfig config = small_run(directory);
    config.patience = patience;
    config.output = directory / ("whole" + std::to_string(patience));
    const TranslationTrainingReport whole = train_translation(config);
    EXPECT_TRUE(whole.finished);
    const fs::path whole_output = config.output;

    config.output = directory / ("parts" + std::to_string(patience));
    TranslationTrainingReport report = stopped_after(config, 5);
    EXPECT_FALSE(report.finished);
    EXPECT_TRUE(report.training.stopped);
    EXPECT_EQ(report.training.last_step, 5);
    EXPECT_FALSE(fs::exists(config.output / "model.safetensors"));
    report = stopped_after(config, 13, true);
    EXPECT_FALSE(report.finished);
    report = train_translation(config, {.resume = true});
    EXPECT_TRUE(report.finished);
    EXPECT_EQ(report.validations.size(), whole.validations.size());
    EXPECT_TRUE(comparable(config.output) == comparable(whole_output));
    EXPECT_EQ(read_bytes(config.output / "training/validation.jsonl"),
              read_bytes(whole_output / "training/validation.jsonl"));
    EXPECT_EQ(read_bytes(config.output / "training/plot.html"), read_bytes(whole_output / "training/plot.html"));

    // A run that has ended only writes its model once more.
    fs::remove(config.output / "model.safetensors");
    EXPECT_TRUE(train_translation(config, {.resume = true}).finished);
    EXPECT_TRUE(comparable(config.output) == comparable(whole_output));
  }
}

// Mixed precision: the losses of float32 within its rounding, the same bits with any number of threads and after a
// stop, and weights that were never rounded to 16 bits.
TEST(TranslationTraining, MixedPrecision) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 400);
  TranslationTrainingConfig config = small_run(directory);
  config.max_steps = kReduced ? 24 : 60;
  const TranslationTrainingReport expected = train_translation(config);

  config.precision = headway::DType::bfloat16;
  for (const std::int64_t patience : {0, 5}) {
    config.patience = patience;
    config.output = directory / ("mixed" + std::to_string(patience));
    const TranslationTrainingReport report = train_translation(config);
    EXPECT_TRUE(report.finished);
    EXPECT_EQ(report.training.skipped_steps, 0);
    EXPECT_NEAR(report.training.loss, expected.training.loss, 0.01 * expected.training.loss);
    EXPECT_NEAR(report.validations.back().loss, expected.validations.back().loss,
                0.01 * expected.validations.back().loss);
    EXPECT_PRED2(contains, read_bytes(config.output / "README.md"), "in bfloat16 with float32 master weights.");

    const headway::Tensor saved = headway::Translator(config.output).model().state_dict().at("embedding.weight");
    EXPECT_NE(saved.to(headway::DType::bfloat16).to_vector(), saved.to_vector()) << "the saved weights are rounded";
    const auto checkpoint = headway::load_checkpoint(config.output / "training");
    EXPECT_EQ(checkpoint->module.at("model.embedding.weight").dtype(), headway::DType::bfloat16);
    EXPECT_EQ(checkpoint->module.at("mean.embedding.weight").dtype(), headway::DType::float32);
    EXPECT_EQ(checkpoint->optimizer.at("embedding.weight.master").dtype(), headway::DType::float32);

    const auto files = comparable(config.output);
    config.output = directory / ("parts" + std::to_string(patience));
    const int before = headway::num_threads();
    headway::set_num_threads(before == 1 ? 2 : 1);
    EXPECT_FALSE(stopped_after(config, 19).finished);
    EXPECT_TRUE(train_translation(config, {.resume = true}).finished);
    headway::set_num_threads(before);
    EXPECT_TRUE(comparable(config.output) == files);
  }
}

// Without a mean and without a best state, what is saved are the masters.
TEST(TranslationTraining, MixedPrecisionSavesTheMasters) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 400);
  TranslationTrainingConfig config = small_run(directory);
  config.precision = headway::DType::bfloat16;
  config.average_last = 0.0;
  train_translation(config);
  const auto checkpoint = headway::load_checkpoint(config.output / "training");
  for (const auto& [name, saved] : headway::Translator(config.output).model().state_dict()) {
    const auto master = checkpoint->optimizer.find(name + ".master");
    if (master == checkpoint->optimizer.end()) continue;  // a buffer
    EXPECT_EQ(saved.to_vector(), master->second.to_vector()) << name;
  }
}

TEST(TranslationTraining, StopsEarlyWithTheBestWeights) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 400);
  TranslationTrainingConfig config = small_run(directory);
  config.learning_rate = 0.0;  // nothing gets better
  config.validate_every = 3;
  config.patience = 2;
  const TranslationTrainingReport report = train_translation(config);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.training.last_step, 9);
  EXPECT_EQ(report.validations.size(), 3U);
  EXPECT_PRED2(contains, read_bytes(config.output / "README.md"), "those of step 3");
  EXPECT_TRUE(fs::exists(config.output / "model.safetensors"));
  const auto files = comparable(config.output);
  const TranslationTrainingReport again = train_translation(config, {.resume = true});
  EXPECT_TRUE(again.finished);
  EXPECT_EQ(again.training.last_step, 9);
  EXPECT_TRUE(comparable(config.output) == files);
}

TEST(TranslationTraining, WhatCannotGoOnIsNamed) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 400);
  const TranslationTrainingConfig config = small_run(directory);
  stopped_after(config, 3);
  const auto error = [](const TranslationTrainingConfig& changed, bool resume = true) {
    return message_of([&] { train_translation(changed, {.resume = resume}); });
  };
  const std::string checkpoint = read_bytes(config.output / "training/step-00000003.safetensors");
  EXPECT_PRED2(contains, error(config, false), "holds the checkpoint of step 3 of another run");

  TranslationTrainingConfig changed = config;
  changed.width = 64;
  EXPECT_PRED2(contains, error(changed), "width is 64, and the checkpoints in");
  changed = config;
  changed.seed = 5;
  EXPECT_PRED2(contains, error(changed), "seed is 5, and the checkpoints in");
  changed = config;
  changed.precision = headway::DType::bfloat16;
  EXPECT_PRED2(contains, error(changed), "precision is bfloat16, and the checkpoints in");
  changed = config;
  changed.average_last = 0.0;
  EXPECT_PRED2(contains, error(changed), "average_last is 0");
  changed = config;
  changed.patience = 1;
  EXPECT_PRED2(contains, error(changed), "patience is 1");

  const std::string pairs = read_bytes(directory / "pairs.tsv");
  write_bytes(directory / "pairs.tsv", pairs + "new\tneu\n");
  EXPECT_PRED2(contains, error(config), "pairs.tsv has changed since the checkpoint of step 3");
  fs::remove(directory / "pairs.tsv");
  EXPECT_PRED2(contains, error(config), "pairs.tsv");

  EXPECT_EQ(read_bytes(config.output / "training/step-00000003.safetensors"), checkpoint);
  write_bytes(directory / "pairs.tsv", pairs);
  EXPECT_TRUE(train_translation(config, {.resume = true}).finished);
}

TEST(TranslationTraining, AChangedTokenizerIsNoticed) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 400);
  const TranslationTrainingConfig config = small_run(directory);
  stopped_after(config, 3);
  const fs::path vocabulary = config.output / "training/tokenizer/vocab.json";
  const std::string whole = read_bytes(vocabulary);
  std::string changed = whole;  // two tokens have each other's ids
  const std::size_t one = changed.find(": 299,"), two = changed.find(": 300,");
  ASSERT_TRUE(one != std::string::npos && two != std::string::npos);
  changed.replace(one, 6, ": 300,");
  changed.replace(two, 6, ": 299,");
  write_bytes(vocabulary, changed);
  const std::string message = message_of([&] { train_translation(config, {.resume = true}); });
  EXPECT_PRED2(contains, message, "training/tokenizer/vocab.json: has changed since the run was begun");
  // Without the directory the same tokenizer is made again.
  fs::remove_all(config.output / "training/tokenizer");
  EXPECT_TRUE(train_translation(config, {.resume = true}).finished);
  EXPECT_EQ(read_bytes(vocabulary), whole);
}

TEST(TranslationTraining, ADamagedCheckpointIsReplacedByTheOneBefore) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 400);
  TranslationTrainingConfig config = small_run(directory);
  config.output = directory / "whole";
  train_translation(config);
  config.output = directory / "parts";
  stopped_after(config, 14);
  const fs::path newest = config.output / "training/step-00000014.safetensors";
  std::string bytes = read_bytes(newest);
  bytes[bytes.size() - 1000] ^= 4;
  write_bytes(newest, bytes);
  const TranslationTrainingReport report = train_translation(config, {.resume = true});
  EXPECT_EQ(report.training.first_step, 8);
  ASSERT_EQ(report.training.unreadable.size(), 1u);
  EXPECT_PRED2(contains, report.training.unreadable[0], "step-00000014.safetensors");
  EXPECT_EQ(read_bytes(config.output / "model.safetensors"), read_bytes(directory / "whole" / "model.safetensors"));
}

TEST(TranslationTraining, ARunKnowsItsSettings) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 400);
  TranslationTrainingConfig config = small_run(directory);
  EXPECT_FALSE(TranslationTrainingConfig::of_run(config.output).has_value());
  stopped_after(config, 0);  // before its first step, and so its first checkpoint
  ASSERT_TRUE(TranslationTrainingConfig::of_run(config.output).has_value());
  EXPECT_EQ(TranslationTrainingConfig::of_run(config.output)->to_json(), config.to_json());
  TranslationTrainingConfig changed = config;
  changed.width = 64;
  EXPECT_PRED2(contains, message_of([&] { train_translation(changed, {.resume = true}); }), "width is 64, and");

  stopped_after(config, 3, /*resume=*/true);
  const fs::path settings = config.output / "training/settings.json";
  std::string text = read_bytes(settings);
  text.replace(text.find("\"width\": 32"), 11, "\"width\": 64");
  write_bytes(settings, text);  // the checkpoint is the second place
  EXPECT_EQ(TranslationTrainingConfig::of_run(config.output)->width, 32);
  fs::remove(settings);
  fs::rename(config.output, directory / "moved");
  config.output = directory / "moved";
  EXPECT_EQ(TranslationTrainingConfig::of_run(config.output)->to_json(), config.to_json());
  fs::remove(config.output / "training/step-00000003.safetensors");
  write_bytes(config.output / "training/settings.json", text);
  EXPECT_PRED2(contains, message_of([&] { TranslationTrainingConfig::of_run(config.output); }),
               "settings.json: is damaged or was changed");
}

TEST(TranslationTraining, BadDataAndPlacesAreNamed) {
  const TemporaryDirectory directory;
  TranslationTrainingConfig config = small_run(directory);
  const auto error = [&config] { return message_of([&] { train_translation(config); }); };
  EXPECT_PRED2(contains, error(), "pairs.tsv");
  config.data = "";
  EXPECT_PRED2(contains, error(), "data is empty");
  config.heads = 5;
  EXPECT_PRED2(contains, error(), "heads is 5");
  config = small_run(directory);
  write_bytes(directory / "file", "x");
  config.output = directory / "file";
  EXPECT_PRED2(contains, error(), "file: the directory cannot be made");
  config = small_run(directory);
  write_bytes(directory / "pairs.tsv", "\t\n");
  EXPECT_PRED2(contains, error(), "none for training");
}

TEST(TranslationTraining, OneDirectionHasNoCodes) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 400);
  TranslationTrainingConfig config = small_run(directory);
  config.both_directions = false;
  config.pieces = headway::PieceKind::bpe;
  config.average_last = 0.0;
  config.accumulate = 2;
  const TranslationTrainingReport report = train_translation(config);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.validations.back().directions.size(), 1U);
  EXPECT_TRUE(headway::TranslationTokenizer::load(config.output).languages().empty());
}

headway::StateDict by_name(const std::vector<headway::NamedTensor>& parameters) {
  headway::StateDict state;
  for (const auto& [name, tensor] : parameters) state.emplace(name, tensor.detach());
  return state;
}

TEST(TranslationTraining, TheMeanOfWeights) {
  headway::TranslationModelOptions options;
  options.vocab_size = 10;
  options.d_model = 4;
  options.encoder_attention_heads = options.decoder_attention_heads = 2;
  options.encoder_layers = options.decoder_layers = 1;
  options.encoder_ffn_dim = options.decoder_ffn_dim = 8;
  options.pad_token_id = options.decoder_start_token_id = 9;
  const headway::TranslationModel model(options);
  const headway::internal::WeightCopy mean(model);
  headway::Tensor weight = model.named_parameters()[0].tensor.detach();
  const std::string name = model.named_parameters()[0].name;
  for (int count = 1; count <= 4; ++count) {
    weight.fill(count * count);
    mean.add_to_mean(by_name(model.named_parameters()), count);
  }
  for (const double value : mean.state_dict().at(name).to_vector()) EXPECT_NEAR(value, 7.5, 1e-5);
  headway::internal::EvaluationCopy<headway::TranslationModel> copy;
  EXPECT_NEAR(copy.of(model, mean.state_dict()).state_dict().at(name).to_vector()[0], 7.5, 1e-5);
  EXPECT_EQ(weight.to_vector()[0], 16.0);
}

TEST(TranslationTraining, ADeviceTrainsTheSameModel) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 600);
  // Trains `first` steps on one device and the rest on another.
  const auto trained = [&](const std::string& first_device, int first, const std::string& device,
                           headway::DType precision = headway::DType::float32) {
    TranslationTrainingConfig config = small_run(directory);
    config.output = directory / ("model-" + first_device + std::to_string(first) + device +
                                 std::string(headway::dtype_name(precision)));
    config.precision = precision;
    config.max_steps = 20;
    config.validate_every = 10;
    config.average_last = 0.5;
    config.patience = 3;
    config.attention_dropout = config.activation_dropout = 0.1;
    config.device = first_device;
    EXPECT_FALSE(stopped_after(config, first).finished);
    config.device = device;
    const TranslationTrainingReport report = train_translation(config, {.resume = true});
    EXPECT_TRUE(report.finished);
    EXPECT_EQ(report.training.first_step, first + 1);
    EXPECT_PRED2(contains, read_bytes(config.output / "README.md"), device == "cpu" ? "on the CPU" : "on cuda (");
    return std::pair(report, read_bytes(config.output / "model.safetensors"));
  };
  const TranslationTrainingReport expected = trained("cpu", 5, "cpu").first;
  const auto early = trained("cuda", 5, "cuda"), late = trained("cuda", 14, "cuda");
  EXPECT_EQ(early.second, late.second);  // the same bits
  constexpr headway::DType kMixed = headway::DType::bfloat16;
  const auto mixed = trained("cuda", 5, "cuda", kMixed), mixed_late = trained("cuda", 14, "cuda", kMixed);
  EXPECT_EQ(mixed.second, mixed_late.second);
  for (const auto& report : {trained("cuda", 5, "cpu").first, trained("cpu", 5, "cuda").first, early.first, mixed.first,
                             trained("cpu", 5, "cuda", kMixed).first}) {
    EXPECT_NEAR(report.training.loss, expected.training.loss, 0.05);
    ASSERT_EQ(report.validations.size(), expected.validations.size());
    EXPECT_NEAR(report.validations.back().loss, expected.validations.back().loss, 0.05);
  }
}

}  // namespace
