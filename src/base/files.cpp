#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/directory_entries.h"
#include "base/file_faults.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

// Temporary names are .headway-RANDOM.tmp, in the directory of what they become.
constexpr std::string_view kTemporaryStart = ".headway-";
constexpr std::string_view kTemporaryEnding = ".tmp";
constexpr int kTemporaryTries = 100;

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
  const int file = ::open(about.file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | wait);
  const int problem = errno;
  if (file < 0 && problem == ENOENT) fail_on_file(about.file, problem, about, "no such file");
  if (file < 0) fail_on_file(about.file, problem, about, "cannot be opened: ", error_text(problem));
  return file;
}

std::size_t check_kind(const AboutFile& about, int file, const ReadOptions& options) {
  struct stat status = {};
  if (::fstat(file, &status) != 0) {
    const int problem = errno;
    fail_on_file(about.file, problem, about, "cannot be read: ", error_text(problem));
  }
  if (S_ISDIR(status.st_mode)) fail_on_file(about.file, EISDIR, about, "is a directory, expected a file");
  check(S_ISREG(status.st_mode) || options.pipes, about, "is not a regular file");
  const auto size = S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) : 0;
  check(size <= options.limit, about, "has ", size, " bytes, expected at most ", options.limit);
  return size;
}

fs::path parent_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

}  // namespace

std::string temporary_name(const fs::path& directory) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device source;
  std::string name(kTemporaryStart);
  for (int word = 0; word < 4; ++word) {
    std::uint32_t bits = source();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4) name += kDigits[bits & 15];
  }
  return (directory / (name + std::string(kTemporaryEnding))).string();
}

void flush_names(const fs::path& directory) {
  const Descriptor opened{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (opened.number >= 0 && !file_call_fails("fsync")) ::fsync(opened.number);
}

void check_directory(const fs::path& directory) {
  struct stat status = {};
  int problem = ::stat(directory.c_str(), &status) == 0 ? ENOTDIR : errno;
  if (problem == ENOTDIR && S_ISDIR(status.st_mode)) {
    if (::access(directory.c_str(), X_OK) == 0) return;
    problem = errno;  // there, but what is in it cannot be opened
  }
  const bool is_missing = problem == ENOENT || problem == ENOTDIR;
  fail_on_file(directory, problem, directory.string(),
               is_missing ? std::string(": no such directory") : ": cannot be opened: " + error_text(problem));
}

InputFile::InputFile(const fs::path& file, std::string_view who, const ReadOptions& options) : file_(file), who_(who) {
  const AboutFile about{who_, file_};
  Descriptor opened{open_for_reading(about, options)};
  size_ = check_kind(about, opened.number, options);
  descriptor_ = std::exchange(opened.number, -1);
}

InputFile::~InputFile() { ::close(descriptor_); }

std::size_t InputFile::read(char* there, std::size_t size) {
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, there, size);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    const int problem = errno;
    fail_on_file(file_, problem, AboutFile{who_, file_}, "cannot be read: ", error_text(problem));
  }
  return static_cast<std::size_t>(count);
}

std::string read_whole_file(const fs::path& file, std::string_view who, const ReadOptions& options) {
  constexpr std::size_t kChunk = std::size_t{1} << 16;
  InputFile input(file, who, options);
  std::string bytes(input.size() + 1, '\0');  // one more, to see the end
  std::size_t filled = 0;
  while (const std::size_t count = input.read(bytes.data() + filled, bytes.size() - filled)) {
    filled += count;
    check(filled <= options.limit, AboutFile{who, file}, "has more bytes than expected, at most ", options.limit);
    if (filled == bytes.size()) bytes.resize(std::max(bytes.size() + kChunk, bytes.size() / 2 * 3));
  }
  bytes.resize(filled);
  return bytes;
}

FileReplacement::FileReplacement(const fs::path& target, std::string_view who) : target_(target), who_(who) {
  std::error_code ignored;
  const fs::file_type type = fs::status(target, ignored).type();
  // A rename would replace a device by the file.
  if (type != fs::file_type::regular && type != fs::file_type::not_found && type != fs::file_type::none) {
    fail_on_file(target_, type == fs::file_type::directory ? EISDIR : EEXIST, AboutFile{who_, target_},
                 "is there already and is not a file");
  }
  struct stat old = {};
  const bool keeps_mode = ::lstat(target.c_str(), &old) == 0 && S_ISREG(old.st_mode);
  // Not by mkstemp: that would hide a new file from other users, whatever the umask says.
  for (int tries = 0; file_ < 0 && tries < kTemporaryTries; ++tries) {
    temporary_ = temporary_name(target.parent_path());
    constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    file_ = file_call_fails("open") ? -1 : ::open(temporary_.c_str(), kNew, keeps_mode ? 0600 : 0666);
    if (file_ < 0 && errno != EEXIST) break;
  }
  if (file_ < 0) fail_with_errno("no file can be made in its directory");
  // Some file systems have no permissions; there the new file has those of all files.
  if (keeps_mode) static_cast<void>(::fchmod(file_, (old.st_mode & 0777) | 0600));
}

FileReplacement::~FileReplacement() {
  if (file_ >= 0) ::close(file_);
  if (!moved_) ::unlink(temporary_.c_str());
}

void FileReplacement::write(std::string_view bytes) {
  constexpr std::size_t kLargestWrite = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written =
        file_call_fails("write") ? -1 : ::write(file_, bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void FileReplacement::write_at_start(std::string_view bytes) {
  if (::lseek(file_, 0, SEEK_SET) != 0) fail_with_errno("cannot be written");
  write(bytes);
  if (::lseek(file_, 0, SEEK_END) < 0) fail_with_errno("cannot be written");
}

void FileReplacement::commit() {
  if (file_call_fails("fsync") || ::fsync(file_) != 0) fail_with_errno("cannot be flushed to the disk");
  if (::close(std::exchange(file_, -1)) != 0 || file_call_fails("close")) fail_with_errno("cannot be closed");
  if (file_call_fails("rename") || std::rename(temporary_.c_str(), target_.c_str()) != 0)
    fail_with_errno("cannot be replaced");
  moved_ = true;
  flush_names(parent_of(target_));
}

void FileReplacement::fail_with_errno(const char* what) const {
  const int problem = errno;
  fail_on_file(target_, problem, AboutFile{who_, target_}, what, ": ", error_text(problem));
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
  fail_on_file(
      directory, problem ? problem.value() : EEXIST, AboutFile{who, directory},
      "the directory cannot be made: ", problem ? problem.message() : std::string("there is a file of that name"));
}

void replace_directory(const fs::path& directory, const std::function<void(const fs::path&)>& fill,
                       std::string_view who) {
  // "a/b/" is "a/b", whose parent is "a".
  const fs::path target = directory.has_filename() ? directory : directory.parent_path();
  const AboutFile about{who, target};
  const fs::path parent = parent_of(target);
  make_directories(parent, who);
  // Removed at the end of the scope, unless it was put in place.
  struct Unfinished {
    std::string path;
    ~Unfinished() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  };
  const Unfinished unfinished{temporary_name(parent)};
  const std::string old = temporary_name(parent);
  if (::mkdir(unfinished.path.c_str(), 0777) != 0) {
    const int problem = errno;
    fail_on_file(target, problem, about, "the directory cannot be made: ", error_text(problem));
  }
  fill(unfinished.path);
  flush_names(unfinished.path);

  struct stat status = {};
  const bool exists = ::lstat(target.c_str(), &status) == 0;
  check(!exists || S_ISDIR(status.st_mode) || S_ISLNK(status.st_mode), about, "is there already and is no directory");
  if (exists && std::rename(target.c_str(), old.c_str()) != 0) {
    const int problem = errno;
    fail_on_file(target, problem, about, "cannot be replaced: ", error_text(problem));
  }
  if (std::rename(unfinished.path.c_str(), target.c_str()) != 0) {
    const int problem = errno;
    if (exists) static_cast<void>(std::rename(old.c_str(), target.c_str()));
    fail_on_file(target, problem, about, "cannot be put in place: ", error_text(problem));
  }
  flush_names(parent);
  std::error_code ignored;  // a directory that cannot be removed does no harm
  if (exists) fs::remove_all(old, ignored);
}

void remove_stray_files(const fs::path& directory) {
  std::error_code problem, ignored;  // what cannot be listed or removed does no harm
  for (const std::string& name : directory_entries(directory, problem)) {
    if (name.starts_with(kTemporaryStart) && name.ends_with(kTemporaryEnding))
      fs::remove_all(directory / name, ignored);
  }
}

}  // namespace headway::inline v0::internal
