// Whole runs on several ranks: checkpoints across counts, stopping, errors that reach all ranks, the log.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <mutex>
#include <sstream>

#include "base/file_faults.h"
#include "headway/device.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/rank_runs.h"

namespace {

using headway::BatchLoss;
using headway::BatchPosition;
using headway::Communicator;
using headway::DType;
using headway::TrainingOptions;
using namespace headway_test;
namespace fs = std::filesystem;

// The message on every rank of a run that ends with an error.
std::vector<std::string> messages_of(const RankRun& run) {
  std::vector<std::string> messages(static_cast<std::size_t>(run.ranks));
  headway::run_ranks(run.ranks, [&](const Communicator& ranks) {
    messages[static_cast<std::size_t>(ranks.rank())] = message_of([&] {
      const TinyModel model(run.tiny);
      const auto optimizer = run.optimizer(model);
      TrainingOptions options = run.options;
      options.ranks = ranks;
      if (run.change) run.change(ranks.rank(), options);
      const auto loss_of = [&](const BatchPosition& position) {
        return run.loss ? run.loss(model, position, ranks.rank()) : model(position);
      };
      headway::train(model, *optimizer, headway::constant_schedule(0.01), loss_of, options);
    });
  });
  return messages;
}

TEST(TrainRanksRuns, CheckpointsAreThoseOfOneRankWhateverTheirNumber) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const TemporaryDirectory directory;
    std::string expected;
    for (const int ranks : {1, 2, 4}) {
      RankRun run{.ranks = ranks, .tiny = {.width = 5, .dtype = dtype}};
      run.options.directory = directory / std::to_string(ranks);
      run.options.checkpoint_every = 2;
      run.options.save_state = [] { return "a state"; };
      // Four parts whatever the ranks; only one rank alone and four with one each have the same bits.
      run.options.accumulate = 4 / ranks;
      outcomes(run);
      const std::string bytes = read_bytes(run.options.directory / "step-00000006.safetensors");
      if (ranks == 1) expected = bytes;
      EXPECT_EQ(bytes.size(), expected.size());
      EXPECT_TRUE(ranks != 4 || bytes == expected);
      EXPECT_EQ(std::distance(fs::directory_iterator(run.options.directory), {}), 3);
    }
  }
}

TEST(TrainRanksRuns, ARunGoesOnOnAnotherNumberOfRanks) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const RankRun whole{.ranks = 1, .tiny = {.width = 5, .dtype = dtype}};
    const RankOutcome expected = alone(whole, 4);
    for (const std::vector<int>& counts : std::vector<std::vector<int>>{{4, 1, 4}, {1, 4, 1}, {4, 2, 1}, {2, 4, 2}}) {
      const TemporaryDirectory directory;
      std::vector<RankOutcome> all;
      std::mutex mutex;
      for (std::size_t part = 0; part < counts.size(); ++part) {
        RankRun run = whole;
        run.ranks = counts[part];
        run.options.accumulate = 4 / counts[part];
        run.options.directory = directory.path();
        run.options.save_state = [part] { return std::to_string(part); };
        run.change = [part, &mutex](int, TrainingOptions& options) {
          options.load_state = [part, &mutex](const std::string& text) {
            const std::lock_guard lock(mutex);
            EXPECT_EQ(text, std::to_string(part - 1));
          };
          int taken = 0;
          if (part < 2) options.should_stop = [taken]() mutable { return ++taken == 2; };
        };
        all = outcomes(run);
        expect_ranks_agree(all);
        EXPECT_EQ(all[0].training.first_step, static_cast<std::int64_t>(2 * part + 1));
      }
      EXPECT_EQ(all[0].training.last_step, 6);
      const bool same = dtype == DType::float32 && counts[0] + counts[1] == 5;
      if (same) {
        expect_same_state(all[0].module, expected.module);
        expect_same_state(all[0].optimizer, expected.optimizer);
      } else {
        expect_near_state(all[0].module, expected.module, dtype == DType::float32 ? 1e-5 : 0.03);
        expect_near_state(all[0].masters, expected.masters, dtype == DType::float32 ? 1e-5 : 0.03);
      }
    }
  }
}

TEST(TrainRanksRuns, OneRankThatIsAskedToStopStopsAll) {
  const TemporaryDirectory directory;
  RankRun run{.ranks = 3};
  run.options.directory = directory.path();
  run.change = [](int rank, TrainingOptions& options) {
    if (rank == 2) options.should_stop = [taken = 0]() mutable { return ++taken == 4; };
  };
  const std::vector<RankOutcome> all = outcomes(run);
  expect_ranks_agree(all);
  for (const RankOutcome& outcome : all) {
    EXPECT_TRUE(outcome.training.stopped);
    EXPECT_EQ(outcome.training.last_step, 4);
  }
  EXPECT_TRUE(fs::exists(directory / "step-00000004.safetensors"));
  run.change = {};
  expect_same_state(outcomes(run)[0].module, alone(RankRun(), 3).module);
}

TEST(TrainRanksRuns, RanksThatDisagreeAreToldWhere) {
  const auto all_say = [](const RankRun& run, const std::string& part) {
    const std::vector<std::string> messages = messages_of(run);
    for (const std::string& message : messages) EXPECT_PRED2(contains, message, part);
  };
  RankRun run{.ranks = 3};
  run.change = [](int rank, TrainingOptions& options) { options.seed = rank == 2 ? 12 : 11; };
  all_say(run, "rank 2 has seed 12, rank 0 seed 11");
  run.change = [](int rank, TrainingOptions& options) { options.steps = rank == 1 ? 7 : 6; };
  all_say(run, "rank 1 has steps 7, rank 0 steps 6");
  run.change = [](int rank, TrainingOptions& options) { options.accumulate = rank == 1 ? 2 : 1; };
  all_say(run, "rank 1 has accumulate 2, rank 0 accumulate 1");
  run.change = [](int rank, TrainingOptions& options) { options.clip_norm = rank == 1 ? -1.0 : 0.0; };
  all_say(run, "clip_norm is -1, expected 0 (none) or more");
  run.change = {};
  std::atomic<int> made = 0;
  run.optimizer = [&made](const TinyModel& model) {
    return std::make_unique<headway::AdamW>(model, headway::AdamOptions{.beta2 = made++ == 1 ? 0.9 : 0.99});
  };
  all_say(run, "beta2 0.9");
  headway::run_ranks(3, [](const Communicator& ranks) {
    const std::string message = message_of([&] {
      const TinyModel model({.width = ranks.rank() == 2 ? 4 : 5});
      headway::AdamW optimizer(model);
      headway::train(model, optimizer, headway::constant_schedule(0.01), model, {.steps = 1, .ranks = ranks});
    });
    EXPECT_EQ(message,
              "train: rank 2 has parameter \"layers.0.weight\" float32[4, 6] of group 0, updated 0 times, rank 0 "
              "parameter \"layers.0.weight\" float32[5, 6] of group 0, updated 0 times");
  });
}

TEST(TrainRanksRuns, TheValuesOfRankZeroCount) {
  std::atomic<int> made = 0;
  RankRun run{.ranks = 3};
  headway::StateDict of_first;
  run.optimizer = [&](const TinyModel& model) {
    if (made++ > 0) model.first_.weight_.get().detach().fill(9.0);
    return std::make_unique<headway::AdamW>(model);
  };
  expect_ranks_agree(outcomes(run));
}

TEST(TrainRanksRuns, AnErrorOfOneRankEndsAll) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (const int thrower : {0, 1, 3}) {
    RankRun run{.ranks = 4};
    run.loss = [thrower](const TinyModel& model, const BatchPosition& position, int rank) {
      if (rank == thrower && position.step == 3) throw headway::Error("no more data");
      return model(position);
    };
    const std::vector<std::string> messages = messages_of(run);
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(messages[static_cast<std::size_t>(rank)],
                rank == thrower ? "no more data" : "rank " + std::to_string(thrower) + ": no more data");
    }
  }
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 10.0);
}

std::atomic<int> writes_left = 0;  // until the disk is full

int disk_is_full(const char* call) { return std::string(call) == "write" && --writes_left <= 0 ? ENOSPC : 0; }

TEST(TrainRanksRuns, AFullDiskEndsAllAndLeavesTheLastCheckpoint) {
  for (const int writes : {1, 2, 3, 4, 6}) {
    const TemporaryDirectory directory;
    RankRun run{.ranks = 3, .tiny = {.width = 40}};
    run.options.directory = directory.path();
    run.options.steps = 2;
    outcomes(run);
    const std::string before = read_bytes(directory / "step-00000002.safetensors");
    run.options.steps = 4;
    run.options.checkpoint_every = 3;
    writes_left = writes;
    headway::internal::file_fault = disk_is_full;
    const std::vector<std::string> messages = messages_of(run);
    headway::internal::file_fault = nullptr;
    EXPECT_PRED2(contains, messages[0], "step-00000003.safetensors");
    for (const int rank : {1, 2}) {
      EXPECT_EQ(messages[static_cast<std::size_t>(rank)], "rank 0: " + messages[0]);
    }
    EXPECT_TRUE(read_bytes(directory / "step-00000002.safetensors") == before);
    for (const std::string& name : directory.listing())
      EXPECT_TRUE(name == "step-00000002.safetensors" || name[0] == '.') << name;
  }
}

TEST(TrainRanksRuns, ADeviceTrainsTheSameAndSharesCheckpoints) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const TemporaryDirectory directory;
  RankRun run{.ranks = 3};
  run.options.clip_norm = 0.5;
  const RankOutcome expected = alone(run, 3);
  run.options.directory = directory.path();
  run.options.steps = 3;
  run.device = headway::Device::cuda();
  expect_ranks_agree(outcomes(run));
  run.options.steps = 6;
  const std::vector<RankOutcome> all = outcomes(run);
  EXPECT_EQ(all[0].training.first_step, 4);
  for (const auto& [name, tensor] : expected.module) {
    EXPECT_TRUE(near(all[0].module.at(name), tensor, 2e-3)) << name;
  }
}

TEST(TrainRanksRuns, RankZeroAloneWritesLogAndProgress) {
  const TemporaryDirectory directory;
  std::ostringstream progress;
  RankRun run{.ranks = 2};
  run.options.directory = directory.path();
  run.options.log = directory / "log.jsonl";
  run.options.progress = &progress;
  outcomes(run);
  const std::string log = read_bytes(run.options.log);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 6);
  EXPECT_PRED2(contains, log, "\"ranks\": 2, \"waiting\": ");
  EXPECT_PRED2(contains, log, "\"peak_bytes\": ");
  EXPECT_PRED2(contains, progress.str(), " tokens/s on 2 ranks, ");
  EXPECT_PRED2(contains, progress.str(), "% waiting, ");
  const std::string lines = progress.str();
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 2);
}

}  // namespace
