// Checkpoints: what is written comes back, the last few are kept, damaged ones are skipped.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <functional>
#include <limits>
#include <map>

#include "headway/safetensors.h"
#include "support/bits.h"
#include "support/files.h"
#include "support/message_of.h"
#include "train/checkpoint.h"

namespace {

using headway::Checkpoint;
using headway::DType;
using headway::Tensor;
using namespace headway_test;
using Names = std::vector<std::string>;

Checkpoint make_checkpoint(std::int64_t step) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.module = {{"weight", Tensor::randn({3, 4}, static_cast<std::uint64_t>(step))},
                       {"optimizer.odd", Tensor::randn({2}, 2, DType::bfloat16)}};
  checkpoint.optimizer = {{"weight.exp_avg", Tensor::randn({3, 4}, 3, DType::float64)},
                          {"steps", Tensor::full({}, static_cast<double>(step), DType::int64)}};
  checkpoint.state = "{\"epoch\": 3, \"word\": \"\u6ce8\u610f\"}\n";
  checkpoint.seed = 0xFFFFFFFFFFFFFFF1u;
  checkpoint.loss = 0.1 + 1e-17 * static_cast<double>(step);
  checkpoint.skipped_steps = 5;
  checkpoint.skipped_in_a_row = 2;
  return checkpoint;
}

TEST(TrainCheckpoint, ComesBackBitByBit) {
  const TemporaryDirectory directory;
  Checkpoint saved = make_checkpoint(123456789012);
  save_checkpoint(directory / "new" / "inner", saved);
  const auto loaded = headway::load_checkpoint(directory / "new" / "inner");
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->step, saved.step);
  EXPECT_EQ(loaded->state, saved.state);
  EXPECT_EQ(loaded->seed, saved.seed);
  EXPECT_EQ(loaded->loss, saved.loss);
  EXPECT_EQ(loaded->skipped_steps, 5);
  EXPECT_EQ(loaded->skipped_in_a_row, 2);
  EXPECT_TRUE(loaded->unreadable.empty());
  ASSERT_EQ(loaded->module.size(), 2u);
  ASSERT_EQ(loaded->optimizer.size(), 2u);
  for (const auto& [name, tensor] : saved.module) EXPECT_TRUE(same_bits(tensor, loaded->module.at(name))) << name;
  for (const auto& [name, tensor] : saved.optimizer) EXPECT_TRUE(same_bits(tensor, loaded->optimizer.at(name))) << name;

  saved.loss = std::nan("");
  save_checkpoint(directory.path(), saved);
  EXPECT_TRUE(std::isnan(headway::load_checkpoint(directory.path())->loss));
}

TEST(TrainCheckpoint, NothingWhereThereIsNone) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(headway::load_checkpoint(directory.path()).has_value());
  EXPECT_FALSE(headway::load_checkpoint(directory / "missing").has_value());
  headway_test::write_bytes(directory / "file", "text");
  EXPECT_NE(message_of([&] { headway::load_checkpoint(directory / "file"); }).find("is not a directory"),
            std::string::npos);
}

TEST(TrainCheckpoint, TheLastFewAreKeptAndOtherFilesLeftAlone) {
  const TemporaryDirectory directory;
  for (const char* name :
       {"step-5.safetensors", "step-0000000x.safetensors", "best.safetensors", "step-00000001.txt"}) {
    headway_test::write_bytes(directory / name, "mine");
  }
  for (const std::int64_t step : {10, 20, 30, 40}) save_checkpoint(directory.path(), make_checkpoint(step), 2);
  EXPECT_EQ(directory.listing(),
            (Names{"best.safetensors", "step-00000001.txt", "step-0000000x.safetensors", "step-00000030.safetensors",
                   "step-00000040.safetensors", "step-5.safetensors"}));
  EXPECT_EQ(headway::load_checkpoint(directory.path())->step, 40);
  EXPECT_EQ(message_of([&] { save_checkpoint(directory.path(), make_checkpoint(50), 0); }),
            "save_checkpoint: keep is 0, expected 1 or more");
}

TEST(TrainCheckpoint, DamagedOnesArePassedOver) {
  const TemporaryDirectory directory;
  for (const std::int64_t step : {10, 20, 30, 40, 50}) save_checkpoint(directory.path(), make_checkpoint(step), 9);
  const std::string whole = headway_test::read_bytes(directory / "step-00000050.safetensors");
  headway_test::write_bytes(directory / "step-00000050.safetensors", whole.substr(0, whole.size() - 1));
  headway_test::write_bytes(directory / "step-00000040.safetensors", "");
  headway_test::write_bytes(directory / "step-00000030.safetensors", whole);  // of another step
  headway::save_safetensors(directory / "step-00000020.safetensors", {{"weight", Tensor::zeros({2})}});
  const auto loaded = headway::load_checkpoint(directory.path());
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->step, 10);
  ASSERT_EQ(loaded->unreadable.size(), 4u);
  EXPECT_NE(loaded->unreadable[0].find("step-00000050"), std::string::npos);
  EXPECT_NE(loaded->unreadable[2].find("is of step 50"), std::string::npos);
  EXPECT_NE(loaded->unreadable[3].find("has no \"format\""), std::string::npos);

  std::filesystem::remove(directory / "step-00000010.safetensors");
  EXPECT_NE(message_of([&] { headway::load_checkpoint(directory.path()); }).find("none of the 4 checkpoints in"),
            std::string::npos);
}

TEST(TrainCheckpoint, ADamagedLaterOneDoesNotPushOutAGoodOne) {
  const TemporaryDirectory directory;
  headway_test::write_bytes(directory / "step-00000090.safetensors", "damaged");
  save_checkpoint(directory.path(), make_checkpoint(10), 1);
  save_checkpoint(directory.path(), make_checkpoint(20), 1);
  EXPECT_EQ(headway::load_checkpoint(directory.path())->step, 20);
  EXPECT_EQ(directory.listing(), (Names{"step-00000020.safetensors", "step-00000090.safetensors"}));
}

// A checkpoint of 384 KB.
Checkpoint larger_checkpoint(std::int64_t step) {
  Checkpoint checkpoint = make_checkpoint(step);
  checkpoint.module["large"] = Tensor::randn({256, 128}, 7);
  checkpoint.optimizer["large.exp_avg"] = Tensor::randn({256, 256}, 8);
  return checkpoint;
}

// The newest checkpoint is step 20 with its bytes changed: step 10 is taken, and the reason names the file.
void expect_older_is_taken(const std::function<void(std::string&)>& damage, const std::string& reason) {
  const TemporaryDirectory directory;
  for (const std::int64_t step : {10, 20}) save_checkpoint(directory.path(), larger_checkpoint(step));
  std::string bytes = read_bytes(directory / "step-00000020.safetensors");
  damage(bytes);
  write_bytes(directory / "step-00000020.safetensors", bytes);
  const auto loaded = headway::load_checkpoint(directory.path());
  ASSERT_TRUE(loaded.has_value()) << reason;
  EXPECT_EQ(loaded->step, 10) << reason;
  ASSERT_EQ(loaded->unreadable.size(), 1u) << reason;
  EXPECT_NE(loaded->unreadable[0].find("step-00000020.safetensors: "), std::string::npos) << loaded->unreadable[0];
  EXPECT_NE(loaded->unreadable[0].find(reason), std::string::npos) << loaded->unreadable[0];
}

TEST(TrainCheckpoint, DamagedNumbersAreNoticed) {
  for (const std::size_t place : {1u, 777u, 300'000u}) {  // from the end
    const auto flip = [place](std::string& bytes) { bytes[bytes.size() - place] ^= 1; };
    expect_older_is_taken(flip, "is damaged: its checksum is ");
  }
  constexpr std::size_t kHole = 1 << 16;
  const auto zeros = [](std::string& bytes) { bytes.replace(bytes.size() - 2 * kHole, kHole, kHole, '\0'); };
  expect_older_is_taken(zeros, "is damaged: its checksum is ");
  const auto hole = [](std::string& bytes) { bytes.replace(bytes.size() / 4096 * 4096 - 8192, 4096, 4096, '\0'); };
  expect_older_is_taken(hole, "is damaged: its checksum is ");
}

TEST(TrainCheckpoint, DamagedNotesAreNoticed) {
  // The state, the seed, and a shape of the same size.
  const std::pair<const char*, const char*> changes[] = {
      {"epoch", "epoca"}, {"\"seed\":\"1", "\"seed\":\"2"}, {"[256,128]", "[128,256]"}};
  for (const auto& [before, after] : changes) {
    const auto change = [before = before, after = after](std::string& bytes) {
      ASSERT_NE(bytes.find(before), std::string::npos) << before;
      bytes.replace(bytes.find(before), std::string(before).size(), after);
    };
    expect_older_is_taken(change, "the header is damaged: ");
  }
}

// A file as earlier versions wrote it.
void write_without_checksums(const TemporaryDirectory& directory, const Checkpoint& checkpoint) {
  save_checkpoint(directory.path(), checkpoint);
  const std::filesystem::path path = headway::internal::checkpoint_path(directory.path(), checkpoint.step);
  const auto file = headway::SafeTensors::open(path);
  std::map<std::string, std::string> metadata = file.metadata();
  EXPECT_EQ(std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with("xxh64"); }),
            checkpoint.module.size() + checkpoint.optimizer.size() + 1);
  std::map<std::string, Tensor> tensors;
  for (const std::string& name : file.names()) tensors[name] = file.get(name);
  save_safetensors(path, tensors, metadata);
}

TEST(TrainCheckpoint, FilesWithoutChecksumsAreRead) {
  const TemporaryDirectory directory;
  write_without_checksums(directory, make_checkpoint(10));
  EXPECT_EQ(headway::load_checkpoint(directory.path())->step, 10);
  EXPECT_FALSE(headway::SafeTensors::open(directory / "step-00000010.safetensors").verify());
}

TEST(TrainCheckpoint, WeightsThatAreNotFiniteArePassedOver) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double value : {std::nan(""), infinite, -infinite}) {
    const TemporaryDirectory directory;
    Checkpoint good = make_checkpoint(10), bad_weight = make_checkpoint(20), bad_moment = make_checkpoint(30);
    good.module["mask"] = Tensor::full({3}, -infinite);  // not a weight: the optimizer keeps nothing of it
    bad_weight.module["weight"] = Tensor::full({3, 4}, value);
    bad_moment.optimizer["weight.exp_avg"] = Tensor::full({3, 4}, value, DType::float64);
    write_without_checksums(directory, good);
    save_checkpoint(directory.path(), bad_weight);
    write_without_checksums(directory, bad_moment);
    const auto loaded = headway::load_checkpoint(directory.path());
    ASSERT_TRUE(loaded.has_value());
    EXPECT_EQ(loaded->step, 10);
    ASSERT_EQ(loaded->unreadable.size(), 2u);
    EXPECT_NE(loaded->unreadable[0].find("\"weight.exp_avg\" has numbers that are not finite"), std::string::npos);
    EXPECT_NE(loaded->unreadable[1].find("\"weight\" has numbers that are not finite"), std::string::npos);

    std::filesystem::remove(directory / "step-00000010.safetensors");
    const std::string message = message_of([&] { headway::load_checkpoint(directory.path()); });
    for (const char* part : {"none of the 2 checkpoints", "step-00000020.safetensors: ", "step-00000030.safetensors: "})
      EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(TrainCheckpoint, AFullDiskLeavesTheEarlierOnes) {
  const TemporaryDirectory directory;
  save_checkpoint(directory.path(), make_checkpoint(10), 1);
  Checkpoint large = make_checkpoint(20);
  large.module["large"] = Tensor::zeros({1 << 16});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1 << 16;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = message_of([&] { save_checkpoint(directory.path(), large, 1); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, previous);
  EXPECT_NE(message.find("cannot be written"), std::string::npos) << message;
  EXPECT_EQ(directory.listing(), (Names{"step-00000010.safetensors"}));
  EXPECT_EQ(headway::load_checkpoint(directory.path())->step, 10);
}

}  // namespace
