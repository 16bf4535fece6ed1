// Models that several ranks fine-tune together.
#include <gtest/gtest.h>

#include "headway/communicator.h"
#include "headway/fine_tuning.h"
#include "headway/safetensors.h"
#include "headway/transformer_model.h"
#include "support/bits.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/tiny_fine_tuning.h"

namespace {

using headway::Communicator;
using headway::FineTuneConfig;
using headway::FineTuneReport;
using headway::FineTuneTask;
using namespace headway_test;
namespace fs = std::filesystem;

std::vector<FineTuneReport> tune_on(const FineTuneConfig& config, int ranks, int steps = 0, bool resume = false) {
  std::vector<FineTuneReport> reports(static_cast<std::size_t>(ranks));
  headway::run_ranks(ranks, [&](const Communicator& all) {
    headway::TrainingRunOptions run{.resume = resume, .ranks = all};
    int taken = 0;  // it is asked once before the first step
    if (steps > 0 && all.rank() == 0) run.should_stop = [&taken, steps] { return taken++ == steps; };
    reports[static_cast<std::size_t>(all.rank())] = headway::fine_tune(config, run);
  });
  return reports;
}

FineTuneConfig classify_run(const TemporaryDirectory& directory, const char* output) {
  if (!fs::exists(directory / "bert")) {
    write_tiny_bert(directory / "bert", "BertModel");
    headway::TransformerModel::from_config(read_bytes(directory / "bert" / "config.json")).save(directory / "bert");
    write_bytes(directory / "train.csv", tiny_labelled_texts(8));
    write_bytes(directory / "test.csv", tiny_labelled_texts(1));
  }
  FineTuneConfig config = tiny_run(directory, FineTuneTask::classify);
  config.model = directory / "bert";
  config.data = directory / "train.csv";
  config.test = config.validation = directory / "test.csv";
  config.output = directory / output;
  config.steps = 20;
  config.validate_every = 10;
  return config;
}

void expect_near_models(const fs::path& a, const fs::path& b, double tolerance) {
  const auto first = headway::load_safetensors(a / "model.safetensors");
  const auto second = headway::load_safetensors(b / "model.safetensors");
  ASSERT_EQ(first.size(), second.size());
  for (const auto& [name, tensor] : first) {
    // The scores do not depend on this bias: its gradient is rounding alone, which Adam makes large.
    EXPECT_TRUE(name.ends_with("key.bias") || near(tensor, second.at(name), tolerance)) << name;
  }
}

TEST(TrainingRanks, RanksTuneTheModelOfOneRank) {
  const TemporaryDirectory directory;
  for (const bool frozen : {false, true}) {
    FineTuneConfig config = classify_run(directory, frozen ? "one-frozen" : "one");
    config.freeze_embeddings = frozen;
    config.freeze_layers = frozen ? 1 : 0;
    config.accumulate = 3;
    const FineTuneReport one = tune_on(config, 1).front();
    FineTuneConfig shared = config;
    shared.accumulate = 1;
    shared.output = directory / (frozen ? "three-frozen" : "three");
    const std::vector<FineTuneReport> all = tune_on(shared, 3);
    for (const FineTuneReport& report : all) {
      EXPECT_TRUE(report.finished);
      EXPECT_EQ(report.training.last_step, 20);
      ASSERT_EQ(report.validations.size(), 2U);
      EXPECT_NEAR(report.validations[1].loss, one.validations[1].loss, 1e-3);
      EXPECT_EQ(report.validations[1].loss, all[0].validations[1].loss);
    }
    ASSERT_EQ(all[0].test.size(), 1U);
    EXPECT_EQ(all[0].test[0].score, one.test[0].score);
    EXPECT_EQ(all[0].saved_step, one.saved_step);
    expect_near_models(shared.output, config.output, 1e-3);
  }
}

TEST(TrainingRanks, ATuningGoesOnOnAnotherNumberOfRanks) {
  const TemporaryDirectory directory;
  for (const headway::DType precision : {headway::DType::float32, headway::DType::bfloat16}) {
    FineTuneConfig whole = classify_run(directory, precision == headway::DType::float32 ? "whole" : "whole16");
    whole.accumulate = 4;
    whole.precision = precision;
    const FineTuneReport expected = tune_on(whole, 1).front();
    FineTuneConfig config = whole;
    config.accumulate = 1;
    config.output = directory / (precision == headway::DType::float32 ? "parts" : "parts16");
    EXPECT_TRUE(tune_on(config, 4, 8).front().training.stopped);
    EXPECT_PRED2(contains, message_of([&] { tune_on(config, 3, 0, true); }),
                 "the run was begun with 4 batches in a step, which 3 ranks cannot share evenly");
    EXPECT_EQ(tune_on(config, 1, 5, true).front().training.last_step, 13);
    const FineTuneReport report = tune_on(config, 2, 0, true).front();
    EXPECT_TRUE(report.finished);
    EXPECT_EQ(report.training.first_step, 14);
    const bool exact = precision == headway::DType::float32;
    EXPECT_NEAR(report.validations.back().loss, expected.validations.back().loss, exact ? 1e-3 : 0.1);
    expect_near_models(config.output, whole.output, exact ? 2e-3 : 0.1);
  }
}

TEST(TrainingRanks, EveryRankReadsTheSameTexts) {
  const TemporaryDirectory directory;
  const FineTuneConfig config = classify_run(directory, "one");
  std::vector<std::string> messages(2);
  headway::run_ranks(2, [&](const Communicator& ranks) {
    FineTuneConfig own = config;
    if (ranks.rank() == 1) own.batch = 4;
    messages[static_cast<std::size_t>(ranks.rank())] = message_of([&] { headway::fine_tune(own, {.ranks = ranks}); });
  });
  for (const std::string& message : messages) EXPECT_PRED2(contains, message, "the settings: rank 1 has");
}

TEST(TrainingRanks, ANewTokenizerIsMadeByRankZero) {
  const TemporaryDirectory directory;
  write_tiny_gpt2(directory / "gpt2.json");
  std::string text;
  for (int i = 0; i < 60; ++i) text += "the cat sat on the mat and the dog ate it\n";
  write_bytes(directory / "text.txt", text);
  FineTuneConfig config = tiny_run(directory, FineTuneTask::language_model);
  config.from_config = directory / "gpt2.json";
  config.new_tokenizer = headway::NewTokenizer::characters;
  config.data = directory / "text.txt";
  config.validation_share = 0.2;
  config.steps = 6;
  const std::vector<FineTuneReport> all = tune_on(config, 2);
  EXPECT_TRUE(all[0].finished && all[1].finished);
  EXPECT_EQ(all[0].training.loss, all[1].training.loss);
  EXPECT_NO_THROW(headway::TransformerModel::load(config.output));
}

}  // namespace
