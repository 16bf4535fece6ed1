// Kills a fine-tuning at random moments, as kill -9 does, and resumes it until it ends with the bits of a run that
// never stopped.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "headway/fine_tuning.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/tiny_fine_tuning.h"

namespace {

using namespace headway_test;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kLong(300);

pid_t start(const headway::FineTuneConfig& config) {
  return start_process([&] { headway::fine_tune(config, {.resume = true}); });
}

TEST(FineTuneKill, EndsWithTheSameFiles) {
  const bool reduced = std::getenv("HEADWAY_TEST_REDUCED") != nullptr;
  const TemporaryDirectory directory;
  write_tiny_bert(directory / "bert", "BertForSequenceClassification");
  write_bytes(directory / "train.csv", tiny_labelled_texts(10));
  headway::FineTuneConfig config = tiny_run(directory, headway::FineTuneTask::classify);
  config.from_config = directory / "bert" / "config.json";
  config.data = config.validation = directory / "train.csv";
  config.validate_every = 10;
  config.steps = reduced ? 20 : 60;
  config.output = directory / "whole";
  const Clock::time_point begin = Clock::now();
  ASSERT_TRUE(ends_within(start(config), kLong));
  const double duration = Seconds(Clock::now() - begin).count();

  std::mt19937 random = kill_moments(duration);
  std::uniform_real_distribution<double> moment(0.0, 0.5 * duration);
  config.output = directory / "killed";
  const int kills = reduced ? 2 : 8;
  int killed = 0;
  for (bool ended = false; !ended;) {
    ended = ends_within(start(config), killed < kills ? Seconds(moment(random)) : kLong);
    ASSERT_FALSE(HasFailure()) << "after " << killed << " kills";
    killed += ended ? 0 : 1;
  }
  for (const char* name : {"model.safetensors", "config.json", "tokenizer.json", "training/validation.jsonl"}) {
    EXPECT_TRUE(read_bytes(config.output / name) == read_bytes(directory / "whole" / name)) << name;
  }
}

}  // namespace
