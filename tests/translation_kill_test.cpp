// Kills the training of a translator at random moments, as kill -9 does, and resumes it until it ends with the bits of
// a run that never stopped.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>

#include "headway/safetensors.h"
#include "headway/translation_training.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/made_up_language.h"

namespace {

using headway::TranslationTrainingConfig;
using namespace headway_test;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
namespace fs = std::filesystem;

constexpr Seconds kLong(300);

pid_t start(const TranslationTrainingConfig& config) {
  return headway_test::start_process([&] { headway::train_translation(config, {.resume = true}); });
}

std::string last_checkpoint(const TranslationTrainingConfig& config) {
  char name[64];
  std::snprintf(name, sizeof(name), "training/step-%08lld.safetensors", static_cast<long long>(config.max_steps));
  return name;
}

void expect_same_files(const TranslationTrainingConfig& config, const fs::path& whole) {
  for (const char* name : {"model.safetensors", "config.json", "vocab.json", "source.spm", "README.md",
                           "training/validation.jsonl", "training/plot.html"}) {
    EXPECT_TRUE(read_bytes(config.output / name) == read_bytes(whole / name)) << name;
  }
  // The notes of a checkpoint name the output directory; its tensors are to be the same.
  const auto one = headway::SafeTensors::open(config.output / last_checkpoint(config));
  const auto two = headway::SafeTensors::open(whole / last_checkpoint(config));
  ASSERT_EQ(one.names(), two.names());
  for (const std::string& name : one.names()) {
    EXPECT_EQ(one.get(name).to_vector(), two.get(name).to_vector()) << name;
  }
}

// Runs are killed again and again until one ends; it is compared with `whole`, and the next one starts from nothing.
class TranslationKill : public testing::TestWithParam<headway::DType> {};

TEST_P(TranslationKill, EndsWithTheSameFiles) {
  const bool reduced = std::getenv("HEADWAY_TEST_REDUCED") != nullptr;
  const TemporaryDirectory directory;
  headway_test::write_made_up_pairs(directory / "pairs.tsv", 400);
  TranslationTrainingConfig config = headway_test::small_run(directory);
  config.precision = GetParam();
  config.max_steps = reduced ? 20 : 80;
  config.average_last = 0.5;
  config.patience = 50;
  config.output = directory / "whole";
  const Clock::time_point begin = Clock::now();
  ASSERT_TRUE(ends_within(start(config), kLong));
  const double duration = Seconds(Clock::now() - begin).count();
  const fs::path whole = config.output;

  std::mt19937 random = headway_test::kill_moments(duration);
  std::uniform_real_distribution<double> moment(0.0, 0.5 * duration);
  const int kills = reduced ? 3 : 12;
  int killed = 0, ended = 0, starts = 0;
  for (bool fresh = true; killed < kills || !fresh;) {
    config.output = directory / ("run" + std::to_string(ended));
    ASSERT_LT(++starts, 100 * kills);
    fresh = ends_within(start(config), killed < kills ? Seconds(moment(random)) : kLong);
    ASSERT_FALSE(HasFailure()) << "after " << killed << " kills";
    if (!fresh) {
      ++killed;
      continue;
    }
    ++ended;
    expect_same_files(config, whole);
  }
  std::cout << killed << " kills, " << ended << " runs ended\n";
}

INSTANTIATE_TEST_SUITE_P(Precisions, TranslationKill,
                         testing::Values(headway::DType::float32, headway::DType::bfloat16),
                         [](const auto& precision) { return std::string(headway::dtype_name(precision.param)); });

}  // namespace
