// Lets the n-th system call of a writer fail, for every n: the old files are whole afterwards, nothing is left beside
// them, and the error names a file.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <map>

#include "base/file_faults.h"
#include "base/files.h"
#include "base/staged_files.h"
#include "headway/fine_tuning.h"
#include "headway/random.h"
#include "headway/safetensors.h"
#include "headway/text_tokenizer.h"
#include "headway/training.h"
#include "headway/transformer_model.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/tiny_fine_tuning.h"

namespace {

using headway::Tensor;
using namespace headway_test;
namespace fs = std::filesystem;

int calls_left = 0;  // until one fails
std::string failed_call;

int fail_in_turn(const char* call) {
  if (--calls_left != 0) return 0;
  failed_call = call;
  return ENOSPC;
}

// All files below a directory, hidden ones included; directories as names that end in "/".
std::map<std::string, std::string> files_in(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const std::string name = entry.path().lexically_relative(directory).string();
    files[name + (entry.is_directory() ? "/" : "")] = entry.is_directory() ? "" : read_bytes(entry.path());
  }
  return files;
}

// `save` writes one of two states into a directory.
void expect_all_or_nothing(const std::function<void(const fs::path&, int)>& save) {
  std::map<std::string, int> failed;  // calls by name
  std::map<std::string, std::string> wanted;
  {
    const TemporaryDirectory directory;
    save(directory.path(), 1);
    save(directory.path(), 2);
    wanted = files_in(directory.path());
  }
  for (int n = 1;; ++n) {
    ASSERT_LT(n, 1000);
    const TemporaryDirectory directory;
    save(directory.path(), 1);
    const auto before = files_in(directory.path());
    calls_left = n;
    headway::internal::file_fault = fail_in_turn;
    failed_call.clear();
    const std::string message = message_of([&] { save(directory.path(), 2); });
    headway::internal::file_fault = nullptr;
    const auto after = files_in(directory.path());
    if (message == "no error") {
      EXPECT_TRUE(after == wanted) << "call " << n << ", " << failed_call;
      if (failed_call.empty()) break;  // there are no more calls
      ++failed["without effect"];
    } else {
      ++failed[failed_call];
      EXPECT_TRUE(after == before) << "call " << n << ", " << failed_call << ": " << message;
      EXPECT_NE(message.find(directory.path().string()), std::string::npos) << message;
      EXPECT_EQ(message.find(".headway-"), std::string::npos) << message;
    }
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  for (const char* call : {"open", "write", "fsync", "close", "rename"}) EXPECT_GT(failed[call], 0) << call;
}

TEST(ModelsWriteFaults, ACheckpoint) {
  expect_all_or_nothing([](const fs::path& directory, int state) {
    const auto seed = static_cast<std::uint64_t>(state);
    headway::Checkpoint checkpoint{.step = state, .module = {{"weight", Tensor::randn({64, 64}, seed)}}};
    checkpoint.optimizer = {{"weight.exp_avg", Tensor::randn({64, 64}, seed + 2)}};
    save_checkpoint(directory, checkpoint, 1);
  });
}

TEST(ModelsWriteFaults, AModelDirectory) {
  const TemporaryDirectory directory;
  write_tiny_bert(directory / "bert", "BertForSequenceClassification");
  const std::string config = read_bytes(directory / "bert" / "config.json");
  expect_all_or_nothing([&](const fs::path& place, int state) {
    headway::set_random_seed(static_cast<std::uint64_t>(state));
    headway::TransformerModel::from_config(config).save(place);
  });
}

TEST(ModelsWriteFaults, ATokenizer) {
  const TemporaryDirectory directory;
  write_tiny_bert(directory / "bert", "BertForSequenceClassification");
  std::string json = read_bytes(directory / "bert" / "tokenizer.json");
  const auto first = headway::TextTokenizer::load(directory / "bert");
  json.replace(json.find("\"good\""), 6, "\"gold\"");
  write_bytes(directory / "bert" / "tokenizer.json", json);
  const auto second = headway::TextTokenizer::load(directory / "bert");
  expect_all_or_nothing([&](const fs::path& place, int state) { (state == 1 ? first : second).save(place); });
}

// What a training run writes at its end: a model, its tokenizer and its card, inside each other's directories.
TEST(ModelsWriteFaults, FilesTogether) {
  expect_all_or_nothing([](const fs::path& place, int state) {
    headway::internal::replace_files(place / "model", [state](const fs::path& files) {
      const std::string text(10, static_cast<char>('0' + state));
      headway::internal::replace_file(files / "README.md", text);
      if (state == 2) headway::internal::replace_file(files / "new", text);
      headway::internal::replace_files(
          files, [&text](const fs::path& inner) { headway::internal::replace_file(inner / "a.json", text); });
    });
  });
}

// A disk that fails at some moment of a training run ends it with an error; resumed, it ends with the same bits.
TEST(ModelsWriteFaults, ATrainingRunGoesOn) {
  const TemporaryDirectory directory;
  write_tiny_bert(directory / "bert", "BertForSequenceClassification");
  write_bytes(directory / "train.csv", tiny_labelled_texts(4));
  headway::FineTuneConfig config = tiny_run(directory, headway::FineTuneTask::classify);
  config.from_config = directory / "bert" / "config.json";
  config.data = config.validation = directory / "train.csv";
  config.steps = 4;
  config.checkpoint_every = 2;
  config.validate_every = 4;
  config.output = directory / "whole";
  fine_tune(config);
  constexpr int kEvery = 29;
  int failures = 0;
  for (int n = 1; n == 1 || !failed_call.empty(); n += kEvery) {
    config.output = directory / ("run" + std::to_string(n));
    calls_left = n;
    failed_call.clear();
    headway::internal::file_fault = fail_in_turn;
    const std::string message = message_of([&] { fine_tune(config); });
    headway::internal::file_fault = nullptr;
    failures += message == "no error" ? 0 : 1;
    fine_tune(config, {.resume = true});
    EXPECT_TRUE(files_in(config.output).at("model.safetensors") ==
                files_in(directory / "whole").at("model.safetensors"))
        << "call " << n << ", " << failed_call << ": " << message;
    for (const auto& [name, bytes] : files_in(config.output)) {
      EXPECT_EQ(name.find(".headway-"), std::string::npos) << name;
    }
  }
  EXPECT_GT(failures, 2);
}

}  // namespace
