// Files: all bytes or an Error that names the file; replaced whole or left as they were.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "base/files.h"
#include "support/files.h"
#include "support/message_of.h"

namespace {

namespace fs = std::filesystem;
using headway::internal::FileReplacement;
using headway::internal::read_whole_file;
using headway::internal::remove_stray_files;
using headway::internal::replace_directory;
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

// Whoever may write into the directory cannot put a link there first: no name follows from another.
TEST(FileReplacement, NamesCannotBeGuessed) {
  const TemporaryDirectory directory;
  std::set<std::string> names;
  for (int i = 0; i < 50; ++i) {
    const FileReplacement file(directory / "x");
    names.insert(directory.listing().front());
  }
  ASSERT_EQ(names.size(), 50u);
  const std::string process = std::to_string(::getpid());
  std::array<std::set<char>, 32> digits;  // that were at each place
  for (const std::string& name : names) {
    ASSERT_EQ(name.size(), 45u) << name;  // .headway-, 128 bits in hexadecimal, .tmp
    EXPECT_EQ(name.find("-" + process + "-"), std::string::npos) << name;
    for (std::size_t i = 0; i < digits.size(); ++i) digits[i].insert(name[9 + i]);
  }
  for (const std::set<char>& seen : digits) EXPECT_GT(seen.size(), 4u);
}

// Planted links of the names that were used once, and of those that many programs use.
TEST(FileReplacement, PlantedLinksAreNotFollowed) {
  const TemporaryDirectory directory;
  write_bytes(directory / "victim", "old");
  const std::string process = std::to_string(::getpid());
  for (const char* name : {"x.tmp", "x~", ".x.swp"}) fs::create_symlink("victim", directory / name);
  fs::create_symlink("victim", directory / ("x.tmp-" + process));
  for (int i = 0; i < 100; ++i) {
    fs::create_symlink("victim", directory / (".headway-" + process + "-" + std::to_string(i) + ".tmp"));
  }
  const std::size_t planted = directory.listing().size();
  replace_file(directory / "x", "new");
  EXPECT_EQ(read_bytes(directory / "victim"), "old");
  EXPECT_EQ(read_bytes(directory / "x"), "new");
  EXPECT_FALSE(fs::is_symlink(directory / "x"));
  EXPECT_EQ(directory.listing().size(), planted + 1);
}

TEST(FileReplacement, KeepsPermissions) {
  const TemporaryDirectory directory;
  const auto mode = [&] { return fs::status(directory / "x").permissions(); };
  for (const unsigned wanted : {0600u, 0640u, 0664u}) {
    write_bytes(directory / "x", "old");
    fs::permissions(directory / "x", static_cast<fs::perms>(wanted));
    {
      FileReplacement file(directory / "x");
      for (const std::string& name : directory.listing()) {
        EXPECT_EQ(static_cast<unsigned>(fs::status(directory / name).permissions()), wanted) << name;
      }
      file.write("new");
      file.commit();
    }
    EXPECT_EQ(static_cast<unsigned>(mode()), wanted);
  }
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

TEST(ReplaceDirectory, WholeOrNotAtAll) {
  const TemporaryDirectory directory;
  const fs::path target = directory / "deep/model";
  const auto fill = [](const std::string& text) {
    return [text](const fs::path& unfinished) { replace_file(unfinished / "a", text); };
  };
  replace_directory(target, fill("one"));
  EXPECT_EQ(read_bytes(target / "a"), "one");
  write_bytes(target / "b", "of the old one");
  replace_directory(target.string() + "/", fill("two"));
  EXPECT_EQ(read_bytes(target / "a"), "two");
  EXPECT_FALSE(fs::exists(target / "b"));
  EXPECT_THROW(replace_directory(target,
                                 [](const fs::path& unfinished) {
                                   replace_file(unfinished / "a", "three");
                                   throw std::runtime_error("no more");
                                 }),
               std::runtime_error);
  EXPECT_EQ(read_bytes(target / "a"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory / "deep"), fs::directory_iterator()), 1);
  write_bytes(directory / "file", "x");
  EXPECT_PRED2(contains, message_of([&] { replace_directory(directory / "file", fill("four"), "who"); }),
               "who: " + (directory / "file").string() + ": is there already and is no directory");
  EXPECT_EQ(read_bytes(directory / "file"), "x");
}

TEST(ReplaceDirectory, PlantedLinksAreNotFollowed) {
  const TemporaryDirectory directory, victim;
  write_bytes(victim / "a", "old");
  fs::create_directory_symlink(victim.path(), directory / "model.tmp");  // a name that was used once
  fs::create_directory_symlink(victim.path(), directory / "model");
  replace_directory(directory / "model", [&](const fs::path& unfinished) {
    EXPECT_EQ(unfinished.filename().string().size(), 45u);  // see NamesCannotBeGuessed
    replace_file(unfinished / "a", "new");
  });
  EXPECT_EQ(victim.listing(), Names{"a"});
  EXPECT_EQ(read_bytes(victim / "a"), "old");
  EXPECT_FALSE(fs::is_symlink(directory / "model"));
  EXPECT_EQ(read_bytes(directory / "model/a"), "new");
  EXPECT_TRUE(fs::is_symlink(directory / "model.tmp"));  // not ours
}

TEST(StrayFiles, GoAndOthersStay) {
  const TemporaryDirectory directory;
  for (const char* name : {".headway-12-0.tmp", ".headway-99999-3.tmp", ".headway-12", "notes.tmp"}) {
    write_bytes(directory / name, "x");
  }
  remove_stray_files(directory.path());
  EXPECT_EQ(directory.listing(), (Names{".headway-12", "notes.tmp"}));
  remove_stray_files(directory / "none");
  fs::create_directories(directory / ".headway-12ab.tmp/inside");  // a directory that was never finished
  remove_stray_files(directory.path());
  EXPECT_EQ(directory.listing(), (Names{".headway-12", "notes.tmp"}));
  // What FileReplacement makes has such a name.
  const FileReplacement unfinished(directory / "x");
  EXPECT_EQ(directory.listing().size(), 3u);
  remove_stray_files(directory.path());
  EXPECT_EQ(directory.listing().size(), 2u);
}

}  // namespace
