// DirectoryLock: one holder at a time, whatever way the holder ends.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/directory_lock.h"
#include "support/files.h"
#include "support/message_of.h"

namespace {

using headway::internal::DirectoryLock;
using headway_test::message_of;
using headway_test::TemporaryDirectory;

TEST(DirectoryLock, ADirectoryIsForOneHolderAtATime) {
  const TemporaryDirectory directory;
  const auto path = directory / "made" / "run";
  {
    const DirectoryLock lock(path, "checkpoint", "another run is there");
    EXPECT_EQ(message_of([&] { DirectoryLock(path, "checkpoint", "another run is there"); }),
              "checkpoint: " + path.string() + ": another run is there");
    EXPECT_EQ(message_of([&] { DirectoryLock(path, "", "busy"); }), path.string() + ": busy");
    const DirectoryLock neighbour(directory / "made", "", "busy");
  }
  const DirectoryLock again(path, "checkpoint", "another run is there");
}

TEST(DirectoryLock, AFileOfThatNameIsNamed) {
  const TemporaryDirectory directory;
  headway_test::write_bytes(directory / "file", "x");
  for (const auto& path : {directory / "file", directory / "file" / "inside"}) {
    EXPECT_NE(
        message_of([&] { DirectoryLock(path, "", "busy"); }).find(path.string() + ": the directory cannot be made"),
        std::string::npos);
  }
}

TEST(DirectoryLock, EndsWithItsProcess) {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    new DirectoryLock(directory / "run", "", "busy");  // no destructor runs
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(message_of([&] { DirectoryLock(directory / "run", "", "busy"); }), "no error");
}

}  // namespace
