// Kills a process whose threads train as ranks at random moments, and goes on with another number of them until it ends
// with the bits of a run on one rank that never stopped.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "support/child_process.h"
#include "support/files.h"
#include "support/rank_runs.h"

namespace {

using namespace headway_test;
using Seconds = std::chrono::duration<double>;
namespace fs = std::filesystem;

constexpr int kKills = 10;
constexpr std::int64_t kSteps = 80;

// On one rank with four parts or on four with one each, which have the same bits.
pid_t start(const fs::path& directory, int ranks) {
  return headway_test::start_process([&] {
    RankRun run{.ranks = ranks, .tiny = {.width = 2048, .batch = 32}};
    run.options.steps = kSteps;
    run.options.accumulate = 4 / ranks;
    run.options.directory = directory;
    run.options.log = directory / "log.jsonl";
    run.options.checkpoint_every = 3;
    run.options.keep_checkpoints = 2;
    run.options.bucket_bytes = 1 << 14;
    outcomes(run);
  });
}

TEST(TrainRanksKill, EndsWithTheBitsOfOneRank) {
  const TemporaryDirectory directory;
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(ends_within(start(directory / "whole", 1), Seconds(300)));
  const double duration = Seconds(std::chrono::steady_clock::now() - begin).count();
  const std::string last = "step-00000080.safetensors", expected = read_bytes(directory / "whole" / last);
  std::mt19937 random = kill_moments(duration);
  std::uniform_real_distribution<double> moment(0.02, 0.3 * duration);
  int killed = 0, ended = 0;
  for (int starts = 0; killed < kKills || ended == 0; ++starts) {
    ASSERT_LT(starts, 50 * kKills);
    const fs::path run = directory / ("run" + std::to_string(ended));
    const int ranks = starts % 3 == 0 ? 1 : 4;
    if (!ends_within(start(run, ranks), killed < kKills ? Seconds(moment(random)) : Seconds(300))) {
      ++killed;
      continue;
    }
    ++ended;
    EXPECT_TRUE(read_bytes(run / last) == expected) << "the last checkpoints differ";
    const std::string log = read_bytes(run / "log.jsonl");
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), kSteps);
    for (const auto& entry : fs::directory_iterator(run)) EXPECT_NE(entry.path().extension(), ".tmp");
  }
  std::cout << killed << " kills, " << ended << " runs ended\n";
}

}  // namespace
