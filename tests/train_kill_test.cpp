// Kills training at random moments, as kill -9 does, and goes on until it ends with the bits of a run that never
// stopped.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>

#include "headway/random.h"
#include "headway/training.h"
#include "headway/transformer.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/tiny_model.h"

namespace {

using namespace headway_test;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
namespace fs = std::filesystem;

constexpr int kKills = 20;

// Learns to name the token before, with attention and dropout.
class Transformer : public headway::Module {
 public:
  Transformer() {
    add_module("embedding", embedding_);
    add_module("layers.0", layer_);
    add_module("head", head_);
  }
  headway::BatchLoss operator()(const headway::BatchPosition& position) const {
    std::mt19937_64 random(static_cast<std::uint64_t>(position.index));
    std::vector<std::int64_t> tokens(kBatch * (kLength + 1));
    for (std::int64_t& token : tokens) token = static_cast<std::int64_t>(random() % kVocabulary);
    const auto all = headway::Tensor::from(tokens, {kBatch, kLength + 1});
    const headway::Tensor source = embedding_.forward(all.slice(1, 1, kLength + 1));
    const headway::Tensor hidden = layer_.forward({.source = source}).output;
    const headway::Tensor loss = headway::cross_entropy(head_.forward(hidden), all.slice(1, 0, kLength));
    return {.loss = loss, .tokens = kBatch * kLength};
  }

 private:
  static constexpr std::int64_t kBatch = 4, kLength = 12, kVocabulary = 50, kWidth = 64;

  headway::Embedding embedding_{{.count = kVocabulary, .width = kWidth}};
  headway::TransformerEncoderLayer layer_{{.d_model = kWidth, .nhead = 4, .dim_feedforward = 256}};
  headway::Linear head_{{.in_features = kWidth, .out_features = kVocabulary}};
};

struct Plan {
  std::int64_t steps = 0;
  std::int64_t checkpoint_every = 1;
  std::int64_t width = 0;  // of a tiny model: how large a checkpoint is; 0: the Transformer
};

// The program that is killed.
template <typename Model>
void train_in(const fs::path& directory, const Plan& plan, const Model& model) {
  headway::AdamW optimizer(model, {});
  headway::TrainingOptions options{.steps = plan.steps, .accumulate = 2, .clip_norm = 1.0, .seed = 3};
  options.directory = directory;
  options.checkpoint_every = plan.checkpoint_every;
  options.keep_checkpoints = 2;
  options.log = directory / "log.jsonl";
  headway::train(model, optimizer, headway::warmup_schedule(64, 20), model, options);
}

pid_t start(const fs::path& directory, const Plan& plan) {
  return headway_test::start_process([&] {
    headway::set_random_seed(1);
    if (plan.width == 0) {
      train_in(directory, plan, Transformer());
    } else {
      train_in(directory, plan, TinyModel({.width = plan.width, .batch = 32}));
    }
  });
}

// The log without the times, which differ.
std::string log_of(const fs::path& directory) {
  std::istringstream text(read_bytes(directory / "log.jsonl"));
  std::string kept;
  for (std::string line; std::getline(text, line);) {
    kept += line.substr(0, line.find(", \"tokens_per_second\"")) + line.substr(line.find(", \"skipped\"")) + "\n";
  }
  return kept;
}

bool has_stray_file(const fs::path& directory) {
  if (!fs::exists(directory)) return false;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".tmp") return true;
  }
  return false;
}

std::string last_checkpoint(std::int64_t steps) {
  char name[40];
  std::snprintf(name, sizeof(name), "step-%08lld.safetensors", static_cast<long long>(steps));
  return name;
}

// Runs are killed again and again until one ends; it is compared with `whole`, and the next one starts from nothing.
void kill_many_times(const Plan& plan) {
  const TemporaryDirectory directory;
  const fs::path whole = directory / "whole";
  const Clock::time_point begin = Clock::now();
  constexpr Seconds kLong(300);
  ASSERT_TRUE(ends_within(start(whole, plan), kLong));
  const double duration = std::chrono::duration<double>(Clock::now() - begin).count();
  const std::string log = log_of(whole), checkpoint = read_bytes(whole / last_checkpoint(plan.steps));
  ASSERT_EQ(std::count(log.begin(), log.end(), '\n'), plan.steps);

  std::mt19937 random = headway_test::kill_moments(duration);
  std::uniform_real_distribution<double> moment(0.0, 0.15 * duration);
  int killed = 0, ended = 0, within_a_write = 0, starts = 0;
  bool fresh = true;
  while (killed < kKills || !fresh) {
    const fs::path run = directory / ("run" + std::to_string(ended));
    ASSERT_LT(++starts, 100 * kKills);
    fresh = ends_within(start(run, plan), killed < kKills ? Seconds(moment(random)) : kLong);
    ASSERT_FALSE(testing::Test::HasFailure()) << "after " << killed << " kills";
    if (!fresh) {
      ++killed;
      within_a_write += has_stray_file(run) ? 1 : 0;
      continue;
    }
    ++ended;
    EXPECT_EQ(log_of(run), log);
    EXPECT_TRUE(read_bytes(run / last_checkpoint(plan.steps)) == checkpoint) << "the last checkpoints differ";
    EXPECT_FALSE(has_stray_file(run));
  }
  std::cout << killed << " kills, " << within_a_write << " of them within a write, " << ended << " runs ended\n";
}

// Sanitizers and emulation make every step slow.
std::int64_t reduced(std::int64_t steps) { return std::getenv("HEADWAY_TEST_REDUCED") ? steps / 5 : steps; }

TEST(TrainKill, ATransformerWithACheckpointNowAndThen) {
  kill_many_times({.steps = reduced(300), .checkpoint_every = 7});
}

TEST(TrainKill, ATinyModelWithACheckpointEveryStep) {
  kill_many_times({.steps = reduced(120), .checkpoint_every = 1, .width = 4096});
}

}  // namespace
