#include "base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/check.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

// Writes and flushes; gives the errno of what failed, or 0.
int write_all(int file, std::string_view bytes) {
  constexpr std::size_t kLargestWrite = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(file) == 0 ? 0 : errno;
}

}  // namespace

std::string read_whole_file(const fs::path& file, std::string_view who) {
  std::error_code ignored;
  check(fs::exists(file, ignored), who, ": ", file.string(), ": no such file");
  check(!fs::is_directory(file, ignored), who, ": ", file.string(), ": is a directory, expected a file");
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  check(stream.is_open(), who, ": ", file.string(), ": cannot be opened: ", std::generic_category().message(errno));
  std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  check(!stream.bad(), who, ": ", file.string(), ": cannot be read");
  return bytes;
}

void replace_file(const fs::path& file, std::string_view bytes, std::string_view who) {
  static std::atomic<unsigned> counter = 0;
  const std::string name = ".headway-" + std::to_string(::getpid()) + "-text-" + std::to_string(counter++) + ".tmp";
  const std::string temporary = (file.parent_path() / name).string();
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  check(descriptor >= 0, who, ": ", file.string(),
        ": no file can be made in its directory: ", std::generic_category().message(errno));
  int problem = write_all(descriptor, bytes);
  ::close(descriptor);
  if (problem == 0 && std::rename(temporary.c_str(), file.c_str()) != 0) problem = errno;
  if (problem != 0) {
    ::unlink(temporary.c_str());
    fail(who, ": ", file.string(), ": cannot be written: ", std::generic_category().message(problem));
  }
}

}  // namespace headway::inline v0::internal
