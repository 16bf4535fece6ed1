#include "resumable_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/checksum.h"
#include "base/files.h"
#include "headway/error.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr std::string_view kStateBegin = "headway output 1\n";
constexpr std::string_view kSettingsBegin = "settings\n";
constexpr std::size_t kLargestState = std::size_t{1} << 24;
constexpr std::size_t kUnwrittenBytes = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kStateTime{500};  // between two states, which are flushed to the disk

// What differs first between the settings of two runs.
std::string difference_of(const std::string& earlier, const std::string& now) {
  std::istringstream earlier_lines(earlier), lines(now);
  std::string before, after;
  do {
    before.clear(), after.clear();
    std::getline(earlier_lines, before), std::getline(lines, after);
  } while (before == after && (earlier_lines || lines));
  if (before.empty()) return "it had no " + after;
  return "it had " + before + (after.empty() ? "" : ", and now there is " + after);
}

}  // namespace

ResumableOutput::ResumableOutput(std::string file, std::string settings, bool resume)
    : file_(std::move(file)), state_file_(file_ + ".state"), settings_(std::move(settings)) {
  std::error_code ignored;
  const bool has_state = std::filesystem::exists(state_file_, ignored);
  const std::filesystem::file_status status = std::filesystem::status(file_, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail(EEXIST, "is there already and is not a file");
  }
  if (has_state) read_state(headway::internal::read_whole_file(state_file_, "", {.limit = kLargestState}));
  if (has_state && !resume) {
    throw headway::Error(state_file_ + " is there: a run ended after " + count_of(lines_, "line") +
                         "; --resume goes on with it, and without that file a run starts over");
  }
  if (!has_state && resume && std::filesystem::exists(status)) {
    throw headway::Error(file_ + " is there without " + state_file_ +
                         ": its run has ended well, or it is of another program; remove it to start over");
  }
  open(has_state);
  earlier_checksum_ = std::exchange(checksum_, "-");
  kept_lines_ = lines_;
  is_checked_ = !has_state;
  if (!has_state) keep(/*at_once=*/true);
}

ResumableOutput::~ResumableOutput() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ResumableOutput::fail(int code, const std::string& what) const {
  headway::internal::fail_on_file(file_, code, file_, ": ", what);
}

void ResumableOutput::read_state(const std::string& text) {
  const std::size_t settings = text.find(kSettingsBegin);
  std::istringstream numbers(text.substr(0, std::min(settings, text.size())));
  std::string title, lines, failed, bytes, checksum;
  std::getline(numbers, title);
  numbers >> lines >> lines_ >> failed >> failed_ >> bytes >> bytes_ >> checksum >> checksum_;
  const bool is_whole = title + '\n' == kStateBegin && settings != std::string::npos && lines == "lines" &&
                        failed == "failed" && bytes == "bytes" && checksum == "checksum" && !numbers.fail() &&
                        lines_ >= 0 && failed_ >= 0 && bytes_ >= 0;
  if (!is_whole) throw headway::Error(state_file_ + ": is not the state of an unfinished run");
  const std::string earlier = text.substr(settings + kSettingsBegin.size());
  if (earlier == settings_) return;
  throw headway::Error(state_file_ + ": the run is another one: " + difference_of(earlier, settings_));
}

// Opens the file, and cuts off what the state does not know of.
void ResumableOutput::open(bool resume) {
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
  if (descriptor_ < 0) {
    const int problem = errno;
    fail(problem, "cannot be opened: " + std::generic_category().message(problem));
  }
  // Some file systems know no locks; that is no reason to refuse them.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fail(EBUSY, "another process writes it");
  }
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0 || status.st_size < bytes_) {
    fail(EINVAL, "has fewer bytes than the " + std::to_string(bytes_) + " that " + state_file_ + " knows of");
  }
  if (::ftruncate(descriptor_, resume ? bytes_ : 0) != 0 || ::lseek(descriptor_, 0, SEEK_END) < 0) {
    const int problem = errno;
    fail(problem, "cannot be written: " + std::generic_category().message(problem));
  }
}

void ResumableOutput::add_input(std::string_view text) {
  std::string bytes = checksum_;
  bytes += text;
  checksum_ = headway::internal::xxh64_text(bytes);
}

void ResumableOutput::check_input() {
  is_checked_ = checksum_ == earlier_checksum_;
  if (is_checked_) return;
  throw headway::Error(state_file_ + ": the run is another one: the input differs in its first " +
                       count_of(lines_, "line"));
}

void ResumableOutput::write(std::string_view text) {
  in_line_ = true;
  unwritten_ += text;
  if (unwritten_.size() >= kUnwrittenBytes) flush();
}

void ResumableOutput::flush() {
  std::string_view rest = unwritten_;
  while (!rest.empty()) {
    const ssize_t count = ::write(descriptor_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int problem = errno;
      is_broken_ = true;
      fail(problem, "cannot be written: " + std::generic_category().message(problem));
    }
    rest.remove_prefix(static_cast<std::size_t>(count));
    bytes_ += count;
  }
  unwritten_.clear();
}

void ResumableOutput::end_line(bool failed) {
  in_line_ = false;
  ++lines_;
  failed_ += failed ? 1 : 0;
}

void ResumableOutput::keep(bool at_once) {
  if (in_line_ || is_broken_ || !is_checked_) return;
  flush();
  const auto now = std::chrono::steady_clock::now();
  const bool is_first = kept_ == std::chrono::steady_clock::time_point();
  if (lines_ == kept_lines_ && !is_first) return;
  if (!at_once && now - kept_ < kStateTime) return;
  if (::fsync(descriptor_) != 0) {
    const int problem = errno;
    is_broken_ = true;
    fail(problem, "cannot be flushed to the disk: " + std::generic_category().message(problem));
  }
  std::string text(kStateBegin);
  text += "lines " + std::to_string(lines_) + "\nfailed " + std::to_string(failed_) + "\nbytes " +
          std::to_string(bytes_) + "\nchecksum " + checksum_ + '\n';
  text += kSettingsBegin;
  headway::internal::replace_file(state_file_, text + settings_);
  kept_ = now;
  kept_lines_ = lines_;
}

void ResumableOutput::finish() {
  keep(/*at_once=*/true);
  if (::unlink(state_file_.c_str()) != 0) {
    const int problem = errno;
    fail(problem, "its state cannot be removed: " + std::generic_category().message(problem));
  }
  headway::internal::flush_names(std::filesystem::path(file_).parent_path());
}

}  // namespace cli
