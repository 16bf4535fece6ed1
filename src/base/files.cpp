#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/directory_entries.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

// Temporary files are .headway-PID-NUMBER.tmp, in the directory of the file that they become.
constexpr std::string_view kTemporaryStart = ".headway-";
constexpr std::string_view kTemporaryEnding = ".tmp";

// The start of a message about a file. An argument of check(), formatted only when the check fails.
struct AboutFile {
  std::string_view who;
  const fs::path& file;
};
void append_part(std::ostream& text, const AboutFile& part) {
  if (!part.who.empty()) text << part.who << ": ";
  text << part.file.string() << ": ";
}

std::string error_text(int number) { return std::generic_category().message(number); }

// Closes a descriptor at the end of a scope.
struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

// Opens for reading. A pipe without a writer would block, so pipes are waited for only where they are allowed.
int open_for_reading(const AboutFile& about, const ReadOptions& options) {
  const int wait = options.pipes ? 0 : O_NONBLOCK;
  const int file = ::open(about.file.c_str(), O_RDONLY | O_CLOEXEC | wait);
  const int problem = errno;
  check(file >= 0 || problem != ENOENT, about, "no such file");
  if (file < 0) fail(about, "cannot be opened: ", error_text(problem));
  return file;
}

// The size that the system reports, which is a hint: for some files it is 0.
std::size_t check_kind(const AboutFile& about, int file, const ReadOptions& options) {
  struct stat status = {};
  if (::fstat(file, &status) != 0) fail(about, "cannot be read: ", error_text(errno));
  check(!S_ISDIR(status.st_mode), about, "is a directory, expected a file");
  check(S_ISREG(status.st_mode) || options.pipes, about, "is not a regular file");
  const auto size = S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) : 0;
  check(size <= options.limit, about, "has ", size, " bytes, expected at most ", options.limit);
  return size;
}

}  // namespace

std::string read_whole_file(const fs::path& file, std::string_view who, const ReadOptions& options) {
  constexpr std::size_t kChunk = std::size_t{1} << 16;
  const AboutFile about{who, file};
  const Descriptor opened{open_for_reading(about, options)};
  std::string bytes(check_kind(about, opened.number, options) + 1, '\0');  // one more, to see the end
  std::size_t filled = 0;
  while (true) {
    const ssize_t count = ::read(opened.number, bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(about, "cannot be read: ", error_text(errno));
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
    check(filled <= options.limit, about, "has more bytes than expected, at most ", options.limit);
    if (filled == bytes.size()) bytes.resize(std::max(bytes.size() + kChunk, bytes.size() / 2 * 3));
  }
  bytes.resize(filled);
  return bytes;
}

FileReplacement::FileReplacement(const fs::path& target, std::string_view who) : target_(target), who_(who) {
  static std::atomic<unsigned> counter = 0;
  std::error_code ignored;
  const fs::file_type type = fs::status(target, ignored).type();
  // A rename would replace a device by the file.
  check(type == fs::file_type::regular || type == fs::file_type::not_found || type == fs::file_type::none,
        AboutFile{who_, target_}, "is there already and is not a file");
  // Not by mkstemp: that would hide the file from other users, whatever the umask says.
  do {
    const std::string number = std::to_string(::getpid()) + "-" + std::to_string(counter++);
    const std::string name = std::string(kTemporaryStart) + number + std::string(kTemporaryEnding);
    temporary_ = (target.parent_path() / name).string();
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  } while (file_ < 0 && errno == EEXIST);
  if (file_ < 0) fail_with_errno("no file can be made in its directory");
}

FileReplacement::~FileReplacement() {
  if (file_ >= 0) ::close(file_);
  if (!moved_) ::unlink(temporary_.c_str());
}

void FileReplacement::write(std::string_view bytes) {
  constexpr std::size_t kLargestWrite = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void FileReplacement::commit() {
  if (::fsync(file_) != 0) fail_with_errno("cannot be flushed to the disk");
  if (::close(std::exchange(file_, -1)) != 0) fail_with_errno("cannot be closed");
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail_with_errno("cannot be replaced");
  moved_ = true;
  sync_directory();
}

void FileReplacement::fail_with_errno(const char* what) const {
  fail(AboutFile{who_, target_}, what, ": ", error_text(errno));
}

// Makes the new name survive a power failure. The file is in place already, and not every file system supports this: a
// failure is ignored.
void FileReplacement::sync_directory() const {
  const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  const Descriptor directory{::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.number >= 0) ::fsync(directory.number);
}

void replace_file(const fs::path& file, std::string_view bytes, std::string_view who) {
  FileReplacement replacement(file, who);
  replacement.write(bytes);
  replacement.commit();
}

void make_directories(const fs::path& directory, std::string_view who) {
  std::error_code problem, ignored;
  fs::create_directories(directory, problem);
  if (fs::is_directory(directory, ignored)) return;
  fail(AboutFile{who, directory},
       "the directory cannot be made: ", problem ? problem.message() : std::string("there is a file of that name"));
}

void remove_stray_files(const fs::path& directory) {
  std::error_code problem, ignored;  // what cannot be listed or removed does no harm
  for (const std::string& name : directory_entries(directory, problem)) {
    if (name.starts_with(kTemporaryStart) && name.ends_with(kTemporaryEnding)) fs::remove(directory / name, ignored);
  }
}

}  // namespace headway::inline v0::internal
