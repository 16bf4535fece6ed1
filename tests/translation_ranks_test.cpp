// A translator that several ranks train together.
#include <gtest/gtest.h>

#include <sstream>

#include "headway/communicator.h"
#include "headway/safetensors.h"
#include "headway/translation_training.h"
#include "headway/translator.h"
#include "support/bits.h"
#include "support/files.h"
#include "support/made_up_language.h"
#include "support/message_of.h"
#include "translation/training_data.h"
#include "translation/training_setup.h"
#include "translation/validation.h"

namespace {

using headway::Communicator;
using headway::TranslationTrainingConfig;
using headway::TranslationTrainingReport;
using namespace headway_test;
namespace fs = std::filesystem;

struct RunOptions {
  int ranks = 1;
  int steps = 0;  // until one rank asks to stop; 0: never
  bool resume = false;
  std::ostream* progress = nullptr;
};

// The reports of all ranks.
std::vector<TranslationTrainingReport> train_on(const TranslationTrainingConfig& config, const RunOptions& options) {
  std::vector<TranslationTrainingReport> reports(static_cast<std::size_t>(options.ranks));
  headway::run_ranks(options.ranks, [&](const Communicator& ranks) {
    headway::TrainingRunOptions run{.resume = options.resume, .progress = options.progress, .ranks = ranks};
    int taken = 0;  // it is asked once before the first step
    if (options.steps > 0 && ranks.rank() == options.ranks - 1) {
      run.should_stop = [&taken, &options] { return taken++ == options.steps; };
    }
    reports[static_cast<std::size_t>(ranks.rank())] = headway::train_translation(config, run);
  });
  return reports;
}

void expect_near_models(const fs::path& a, const fs::path& b, double tolerance) {
  const auto first = headway::load_safetensors(a / "model.safetensors");
  const auto second = headway::load_safetensors(b / "model.safetensors");
  ASSERT_EQ(first.size(), second.size());
  for (const auto& [name, tensor] : first) EXPECT_TRUE(near(tensor, second.at(name), tolerance)) << name;
}

std::vector<std::string> files_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    names.push_back(entry.path().lexically_relative(directory).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TranslationTrainingConfig short_run(const TemporaryDirectory& directory, const char* output) {
  write_made_up_pairs(directory / "pairs.tsv", 400);
  TranslationTrainingConfig config = small_run(directory);
  config.output = directory / output;
  config.max_steps = 12;
  config.validate_every = 6;
  config.validate_sentences = 80;
  config.learning_rate = 1e-3;
  return config;
}

TEST(TranslationRanks, RanksTrainTheModelOfOneRank) {
  const TemporaryDirectory directory;
  TranslationTrainingConfig config = short_run(directory, "one");
  config.accumulate = 2;
  const TranslationTrainingReport one = train_on(config, {}).front();
  for (const int ranks : {2}) {
    TranslationTrainingConfig shared = config;
    shared.accumulate = 1;
    shared.output = directory / "two";
    std::ostringstream progress;
    const std::vector<TranslationTrainingReport> all = train_on(shared, {.ranks = ranks, .progress = &progress});
    for (const TranslationTrainingReport& report : all) {
      EXPECT_TRUE(report.finished);
      EXPECT_EQ(report.training.last_step, 12);
      ASSERT_EQ(report.validations.size(), 2U);
      EXPECT_EQ(report.validations[1].loss, all[0].validations[1].loss);
      EXPECT_EQ(report.validations[1].bleu, all[0].validations[1].bleu);
      EXPECT_NEAR(report.validations[1].loss, one.validations[1].loss, 1e-3);
      EXPECT_NEAR(report.training.loss, one.training.loss, 1e-3);
    }
    expect_near_models(shared.output, config.output, 2e-3);
    EXPECT_EQ(files_in(shared.output), files_in(config.output));
    EXPECT_PRED2(contains, progress.str(), " on 2 ranks, ");
    const std::string lines = progress.str(), note = "examples, ";
    EXPECT_EQ(lines.find(note), lines.rfind(note)) << lines;
    EXPECT_NO_THROW(headway::Translator translator(shared.output));
  }
}

TEST(TranslationRanks, TheValidationHasTheBitsOfOneRank) {
  const TemporaryDirectory directory;
  write_made_up_pairs(directory / "pairs.tsv", 3000);
  TranslationTrainingConfig config = small_run(directory);
  config.max_steps = 150;
  config.validate_every = 1000;
  train_on(config, {.ranks = 2});
  const headway::internal::TrainingData data = headway::internal::read_training_data(config);
  const headway::Translator translator(config.output);
  const headway::internal::Validator validator(
      translator.tokenizer(), headway::internal::directions_of(config), data.parts.training,
      {.sentences = 200, .max_length = headway::internal::kPositions, .batch_tokens = 800});
  const headway::ValidationReport one = validator.run(translator.model(), 1);
  EXPECT_GT(one.bleu, 0.0);
  for (const int ranks : {2, 3}) {
    headway::run_ranks(ranks, [&](const Communicator& all) {
      const headway::ValidationReport report = validator.run(headway::Translator(config.output).model(), 1, all);
      EXPECT_EQ(report.loss, one.loss);
      EXPECT_EQ(report.directions, one.directions);
    });
  }
}

TEST(TranslationRanks, ARunGoesOnOnAnotherNumberOfRanks) {
  const TemporaryDirectory directory;
  for (const headway::DType precision : {headway::DType::float32, headway::DType::bfloat16}) {
    TranslationTrainingConfig whole = short_run(directory, precision == headway::DType::float32 ? "whole" : "whole16");
    whole.accumulate = 4;
    whole.precision = precision;
    whole.average_last = 0.5;
    whole.patience = 5;
    const TranslationTrainingReport expected = train_on(whole, {}).front();
    TranslationTrainingConfig config = whole;
    config.accumulate = 1;
    config.output = directory / (precision == headway::DType::float32 ? "parts" : "parts16");
    EXPECT_TRUE(train_on(config, {.ranks = 4, .steps = 5}).front().training.stopped);
    TranslationTrainingReport report = train_on(config, {.ranks = 2, .steps = 3, .resume = true}).front();
    EXPECT_EQ(report.training.first_step, 6);
    EXPECT_EQ(report.training.last_step, 8);
    report = train_on(config, {.ranks = 1, .resume = true}).front();
    EXPECT_TRUE(report.finished);
    EXPECT_EQ(report.validations.size(), expected.validations.size());
    const bool exact = precision == headway::DType::float32;
    EXPECT_NEAR(report.validations.back().loss, expected.validations.back().loss, exact ? 1e-3 : 0.05);
    expect_near_models(config.output, whole.output, exact ? 2e-3 : 0.05);
  }
}

TEST(TranslationRanks, RanksWithOtherSettingsOrPairsAreRefused) {
  const TemporaryDirectory directory;
  const TranslationTrainingConfig config = short_run(directory, "one");
  const auto messages = [&](const auto& change) {
    std::vector<std::string> all(2);
    headway::run_ranks(2, [&](const Communicator& ranks) {
      TranslationTrainingConfig own = config;
      if (ranks.rank() == 1) change(own);
      all[static_cast<std::size_t>(ranks.rank())] =
          message_of([&] { headway::train_translation(own, {.ranks = ranks}); });
    });
    return all;
  };
  for (const std::string& message : messages([](auto& own) { own.seed = 7; })) {
    EXPECT_PRED2(contains, message, "the settings: rank 1 has   \"seed\": 7");
  }
  for (const std::string& message : messages([&](auto& own) { own.width = 33; })) {
    EXPECT_PRED2(contains, message, "width");
  }
  EXPECT_FALSE(fs::exists(config.output / "model.safetensors"));
}

}  // namespace
