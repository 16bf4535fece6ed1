// Files: all bytes or an Error that names the file; replaced whole or left as they were.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "support/files.h"
#include "support/message_of.h"

namespace {

namespace fs = std::filesystem;
using headway::internal::FileReplacement;
using headway::internal::read_whole_file;
using headway::internal::remove_stray_files;
using headway::internal::replace_file;
using namespace headway_test;
using Names = std::vector<std::string>;

TEST(ReadWholeFile, AllBytes) {
  const TemporaryDirectory directory;
  std::string bytes;
  for (int i = 0; i < 300'000; ++i) bytes += static_cast<char>(i % 251);
  for (const std::string& content : {std::string(), std::string("\0\n\xFF", 3), bytes}) {
    write_bytes(directory / "x", content);
    EXPECT_EQ(read_whole_file(directory / "x"), content);
  }
  EXPECT_FALSE(read_whole_file("/proc/self/status").empty());  // says that it has 0 bytes
}

TEST(ReadWholeFile, ErrorsNameTheFile) {
  const TemporaryDirectory directory;
  const std::string missing = (directory / "missing").string();
  EXPECT_EQ(message_of([&] { read_whole_file(missing); }), missing + ": no such file");
  EXPECT_EQ(message_of([&] { read_whole_file(missing, "training log"); }),
            "training log: " + missing + ": no such file");
  EXPECT_EQ(message_of([&] { read_whole_file(directory.path()); }),
            directory.path().string() + ": is a directory, expected a file");
}

// The system's number in the FileError that a call throws; 0 for anything else.
template <typename Call>
int code_of(const fs::path& path, const Call& call) {
  try {
    call();
  } catch (const headway::FileError& error) {
    EXPECT_EQ(error.path(), path);
    return error.code();
  } catch (const std::exception&) {
  }
  return 0;
}

TEST(FileErrors, HaveTheSystemsNumber) {
  const TemporaryDirectory directory;
  const fs::path missing = directory / "missing";
  EXPECT_EQ(code_of(missing, [&] { read_whole_file(missing); }), ENOENT);
  EXPECT_EQ(code_of(directory.path(), [&] { read_whole_file(directory.path()); }), EISDIR);
  EXPECT_EQ(code_of(missing / "x", [&] { replace_file(missing / "x", "1"); }), ENOENT);
  EXPECT_EQ(code_of(directory.path(), [&] { replace_file(directory.path(), "1"); }), EISDIR);
  write_bytes(directory / "file", "1");
  EXPECT_EQ(code_of(directory / "file", [&] { headway::internal::make_directories(directory / "file"); }), ENOTDIR);
  EXPECT_EQ(code_of(directory / "file", [&] { headway::internal::check_directory(directory / "file"); }), ENOTDIR);
  EXPECT_EQ(code_of(missing, [&] { headway::internal::check_directory(missing); }), ENOENT);
  headway::internal::check_directory(directory.path());
  EXPECT_EQ(code_of(directory / "file", [&] { read_whole_file(directory / "file", "", {.limit = 0}); }), 0);
}

TEST(ReadWholeFile, TheLimitCounts) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x", "12345");
  EXPECT_EQ(read_whole_file(directory / "x", "", {.limit = 5}), "12345");
  EXPECT_PRED2(contains, message_of([&] { read_whole_file(directory / "x", "", {.limit = 4}); }),
               "x: has 5 bytes, expected at most 4");
  // A hole of a terabyte is refused before any memory is taken.
  std::ofstream(directory / "huge").put('x');
  fs::resize_file(directory / "huge", std::uintmax_t{1} << 40);
  EXPECT_PRED2(contains, message_of([&] { read_whole_file(directory / "huge", "", {.limit = 1 << 20}); }),
               "has 1099511627776 bytes, expected at most 1048576");
  // Nor does a file that hides its size pass the limit.
  EXPECT_PRED2(contains, message_of([&] { read_whole_file("/proc/self/status", "", {.limit = 10}); }), "at most 10");
}

TEST(ReadWholeFile, PipesOnlyOnRequest) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  // Without a writer, opening it would wait for ever.
  EXPECT_PRED2(contains, message_of([&] { read_whole_file(directory / "pipe"); }), "pipe: is not a regular file");
  EXPECT_PRED2(contains, message_of([] { read_whole_file("/dev/null"); }), "/dev/null: is not a regular file");
  std::thread writer([&] { std::ofstream(directory / "pipe") << std::string(200'000, 'x'); });
  EXPECT_EQ(read_whole_file(directory / "pipe", "", {.pipes = true}), std::string(200'000, 'x'));
  writer.join();
}

TEST(FileReplacement, NothingBeforeCommit) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x", "old");
  {
    FileReplacement file(directory / "x");
    file.write("ne");
    EXPECT_EQ(read_bytes(directory / "x"), "old");
    EXPECT_EQ(directory.listing().size(), 2u);
    file.write("w");
    file.commit();
    EXPECT_EQ(read_bytes(directory / "x"), "new");
  }
  EXPECT_EQ(read_bytes(directory / "x"), "new");
  {
    FileReplacement file(directory / "x");
    file.write("never");
  }
  EXPECT_EQ(read_bytes(directory / "x"), "new");
  EXPECT_EQ(directory.listing(), Names{"x"});
}

TEST(FileReplacement, LinksAreReplacedAndNotFollowed) {
  const TemporaryDirectory directory;
  write_bytes(directory / "target", "old");
  fs::create_symlink("target", directory / "link");
  replace_file(directory / "link", "new");
  EXPECT_EQ(read_bytes(directory / "target"), "old");
  EXPECT_FALSE(fs::is_symlink(directory / "link"));
  EXPECT_EQ(read_bytes(directory / "link"), "new");
  fs::create_symlink("nowhere", directory / "dangling");
  replace_file(directory / "dangling", "new");
  EXPECT_EQ(read_bytes(directory / "dangling"), "new");
  EXPECT_FALSE(fs::exists(directory / "nowhere"));
}

// An existing file or link of the temporary name is neither used nor followed.
TEST(FileReplacement, TakesNoNameThatIsThere) {
  const TemporaryDirectory directory;
  write_bytes(directory / "victim", "old");
  std::string first;
  {
    const FileReplacement file(directory / "x");
    first = directory.listing().front() == "victim" ? directory.listing().back() : directory.listing().front();
  }
  // The next numbers of this process.
  const std::size_t dash = first.rfind('-');
  const int number = std::stoi(first.substr(dash + 1));
  for (int i = 1; i <= 3; ++i) {
    fs::create_symlink("victim", directory / (first.substr(0, dash + 1) + std::to_string(number + i) + ".tmp"));
  }
  replace_file(directory / "x", "new");
  EXPECT_EQ(read_bytes(directory / "victim"), "old");
  EXPECT_EQ(read_bytes(directory / "x"), "new");
  EXPECT_FALSE(fs::is_symlink(directory / "x"));
}

TEST(FileReplacement, FollowsTheUmask) {
  const TemporaryDirectory directory;
  expect_umask_is_followed(directory / "x", [&] { replace_file(directory / "x", "text"); });
}

TEST(FileReplacement, ErrorsLeaveTheOldFile) {
  const TemporaryDirectory directory;
  EXPECT_PRED2(contains, message_of([&] { replace_file(directory / "none" / "x", "text", "who"); }),
               "none/x: no file can be made in its directory");
  EXPECT_PRED2(contains, message_of([&] { replace_file(directory.path(), "text"); }), "is there already");
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_PRED2(contains, message_of([&] { replace_file(directory / "pipe", "text"); }), "is there already");

  write_bytes(directory / "x", "old");
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = message_of([&] { replace_file(directory / "x", std::string(5000, 'x'), "who"); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, previous);
  EXPECT_PRED2(contains, message, "who: " + (directory / "x").string() + ": cannot be written: ");
  EXPECT_EQ(read_bytes(directory / "x"), "old");
  EXPECT_EQ(directory.listing(), (Names{"pipe", "x"}));
}

TEST(FileReplacement, ManyThreads) {
  const TemporaryDirectory directory;
  std::vector<std::thread> threads;
  for (char c = 'a'; c < 'e'; ++c) {
    threads.emplace_back([&, c] {
      for (int i = 0; i < 20; ++i) replace_file(directory / "x", std::string(10'000, c));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string bytes = read_bytes(directory / "x");
  EXPECT_EQ(bytes, std::string(10'000, bytes.at(0)));
  EXPECT_EQ(directory.listing(), Names{"x"});
}

TEST(StrayFiles, GoAndOthersStay) {
  const TemporaryDirectory directory;
  for (const char* name : {".headway-12-0.tmp", ".headway-99999-3.tmp", ".headway-12", "notes.tmp"}) {
    write_bytes(directory / name, "x");
  }
  remove_stray_files(directory.path());
  EXPECT_EQ(directory.listing(), (Names{".headway-12", "notes.tmp"}));
  remove_stray_files(directory / "none");
  // What FileReplacement makes has such a name.
  const FileReplacement unfinished(directory / "x");
  EXPECT_EQ(directory.listing().size(), 3u);
  remove_stray_files(directory.path());
  EXPECT_EQ(directory.listing().size(), 2u);
}

}  // namespace
