// save_safetensors() when things go wrong: the old file stays, nothing is left beside it, an Error says why.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "headway/error.h"
#include "headway/safetensors.h"
#include "support/cases.h"
#include "support/files.h"
#include "support/message_of.h"

namespace headway {
namespace {

using namespace headway_test;
using Names = std::vector<std::string>;

void expect_contains(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "expected: " << part << "\ncame: " << message;
}

// No file of this process may pass the limit while this lives, as if the disk were full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit = {bytes, old_limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  void (*old_handler_)(int);
  rlimit old_limit_ = {};
};

// An ordinary user while this lives: the superuser may write everywhere.
class OrdinaryUser {
 public:
  OrdinaryUser() : changed_(::geteuid() == 0 && ::seteuid(65534) == 0) {}
  ~OrdinaryUser() { EXPECT_TRUE(!changed_ || ::seteuid(0) == 0); }
  bool is_ordinary() const { return ::geteuid() != 0; }

 private:
  bool changed_;
};

TEST(SaveSafeTensors, ReplacesTheOldFile) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x", "old");
  save_safetensors(directory / "x", {{"a", Tensor::full({3}, 1.0)}});
  EXPECT_EQ(SafeTensors::open(directory / "x").names(), Names{"a"});
  EXPECT_EQ(directory.listing(), Names{"x"});
}

TEST(SaveSafeTensors, FollowsTheUmask) {
  const TemporaryDirectory directory;
  expect_umask_is_followed(directory / "x", [&] { save_safetensors(directory / "x", {}); });
}

TEST(SaveSafeTensors, AFullDiskLeavesTheOldFile) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x", "old");
  const std::map<std::string, Tensor> tensors = {{"a", Tensor::zeros({1000})}, {"b", Tensor::zeros({2000})}};
  for (const rlim_t limit : {0, 5, 100, 4000, 5000, 12'000}) {  // inside the length, the header, a, b
    std::string message;
    {
      const FileSizeLimit full(limit);
      message = message_of([&] { save_safetensors(directory / "x", tensors); });
    }
    expect_contains(message, "safetensors: " + (directory / "x").string() + ": cannot be written: File too large");
    EXPECT_EQ(read_bytes(directory / "x"), "old");
    EXPECT_EQ(directory.listing(), Names{"x"});
  }
  save_safetensors(directory / "x", tensors);
  EXPECT_EQ(SafeTensors::open(directory / "x").get("b").shape(), Shape{2000});
}

TEST(SaveSafeTensors, ADirectoryThatIsNotWritable) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x", "old");
  ASSERT_EQ(::chmod(directory.path().c_str(), 0555), 0);
  std::string message = "skipped";
  {
    const OrdinaryUser user;
    if (user.is_ordinary()) {
      message = message_of([&] { save_safetensors(directory / "x", {{"a", Tensor::zeros({3})}}); });
    }
  }
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  if (message == "skipped") {
    GTEST_SKIP() << "the superuser writes everywhere and cannot become an ordinary user here";
  }
  expect_contains(message, "no file can be made in its directory: Permission denied");
  EXPECT_EQ(read_bytes(directory / "x"), "old");
  EXPECT_EQ(directory.listing(), Names{"x"});
}

TEST(SaveSafeTensors, PlacesWhereNoFileCanBe) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x", "old");
  const auto save = [](const std::filesystem::path& path) { return message_of([&] { save_safetensors(path, {}); }); };
  expect_contains(save(directory / "none" / "y"), "no file can be made in its directory: No such file or directory");
  expect_contains(save(directory / "x" / "y"), "no file can be made in its directory: Not a directory");
  expect_contains(save(directory.path()), "is there already and is not a file");
  expect_contains(save("/dev/null"), "is there already and is not a file");
  expect_contains(save(directory / std::string(300, 'n')), "File name too long");
  expect_contains(save(""), "cannot be replaced");
  EXPECT_EQ(directory.listing(), Names{"x"});
}

TEST(SaveSafeTensors, BadArgumentsAreNamed) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x", "old");
  const Tensor one = Tensor::zeros({1});
  const auto save = [&](const std::map<std::string, Tensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
    return message_of([&] { save_safetensors(directory / "x", tensors, metadata); });
  };
  expect_contains(save({{"a", Tensor()}}, {}), "tensor 'a' is undefined");
  expect_contains(save({{"__metadata__", one}}, {}), "no tensor can have the name __metadata__");
  expect_contains(save({{"\xFF", one}}, {}), "the name '\xFF' is not valid UTF-8");
  expect_contains(save({}, {{"\xC3", "v"}}), "the metadata key '\xC3' is not valid UTF-8");
  expect_contains(save({}, {{"k", "\xC3("}}), "the metadata value '\xC3(' is not valid UTF-8");
  if (!headway_test::reduced()) {  // 100 MB of text take long under a sanitizer
    expect_contains(save({}, {{"k", std::string(100'000'000, 'x')}}), "the header would have 1000000");
  }
  const Tensor huge = Tensor::zeros({1}).expand({std::int64_t{1} << 60});
  expect_contains(save({{"a", huge}, {"b", huge}, {"c", huge}, {"d", huge}}, {}), "more bytes than 64 bits can count");
  EXPECT_EQ(read_bytes(directory / "x"), "old");
  EXPECT_EQ(directory.listing(), Names{"x"});
}

TEST(SaveSafeTensors, ManyWritersLeaveOneWholeFile) {
  const TemporaryDirectory directory;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int repeat = 0; repeat < 5; ++repeat) {
        save_safetensors(directory / "x", {{"a", Tensor::full({1000 + thread}, thread)}});
        const Tensor read = SafeTensors::open(directory / "x").get("a");
        EXPECT_EQ(read.size(0), 1000 + static_cast<int>(read.at({0})));
        EXPECT_EQ(read.at({0}), read.at({999}));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(directory.listing(), Names{"x"});
}

}  // namespace
}  // namespace headway
