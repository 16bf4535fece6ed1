// Lines of plain and of zipped text files.
#include "text/line_reader.h"

#include <fcntl.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/files.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{1} << 16;
// Longer lines are refused: a small archive could hold one that fills the memory.
constexpr std::size_t kLongestLine = std::size_t{16} << 20;
// What may come out of an archive: so many times its size, and in any case, and at all. Texts shrink to a third, seldom
// to a tenth; an archive made to fill the memory, to a thousandth.
constexpr std::uint64_t kMostGrowth = 32;
constexpr std::uint64_t kAlwaysUnpacked = std::uint64_t{16} << 20;
constexpr std::uint64_t kMostUnpacked = std::uint64_t{16} << 30;

bool is_zip(const fs::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".zip";
}

}  // namespace

// The source of the bytes.
class LineReader::Bytes {
 public:
  virtual ~Bytes() = default;
  // Reads up to `size` bytes and returns how many; 0 at the end.
  virtual std::size_t read(char* there, std::size_t size) = 0;
};

// Also of a pipe, as a shell's <(command).
class LineReader::PlainBytes : public LineReader::Bytes {
 public:
  explicit PlainBytes(const fs::path& path) : file_(path, {}, {.pipes = true}) {}

  std::size_t read(char* there, std::size_t size) override { return file_.read(there, size); }

 private:
  InputFile file_;
};

class LineReader::ZippedBytes : public LineReader::Bytes {
 public:
  explicit ZippedBytes(const fs::path& path) : path_(path.string()) {
    const InputFile file(path);
    most_ = std::min(kMostUnpacked, std::max(kAlwaysUnpacked, kMostGrowth * file.size()));
    open_archive(file);
    try {
      open_entry();
    } catch (...) {
      zip_discard(archive_);
      throw;
    }
  }
  ~ZippedBytes() override {
    zip_fclose(entry_);
    zip_discard(archive_);
  }
  ZippedBytes(const ZippedBytes&) = delete;
  ZippedBytes& operator=(const ZippedBytes&) = delete;

  std::size_t read(char* there, std::size_t size) override {
    const zip_int64_t count = zip_fread(entry_, there, size);
    check(count >= 0, path_, ": ", name_, " cannot be unpacked: ", zip_file_strerror(entry_));
    unpacked_ += static_cast<std::uint64_t>(count);
    check_growth(unpacked_);
    return static_cast<std::size_t>(count);
  }

 private:
  void open_archive(const InputFile& file) {
    int code = 0;
    const int descriptor = ::fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 0);  // the archive closes its own
    check(descriptor >= 0, path_, ": cannot be opened: ", std::generic_category().message(errno));
    archive_ = zip_fdopen(descriptor, 0, &code);
    if (archive_ != nullptr) return;
    ::close(descriptor);
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    fail(path_, ": cannot be opened as a zip archive: ", reason);
  }

  void check_growth(std::uint64_t bytes) const {
    check(bytes <= most_, path_, ": ", name_, " unpacks to more than ", most_ >> 20,
          " MiB, which an archive of this size may not; where it is right, unpack it first");
  }

  // Opens the one .txt or .tsv file in the archive; files such as "_about.txt" and "__MACOSX/..." do not count.
  void open_entry() {
    std::vector<zip_uint64_t> texts;
    std::string names;
    const zip_int64_t count = zip_get_num_entries(archive_, 0);
    for (zip_int64_t n = 0; n < count; ++n) {
      const char* const name = zip_get_name(archive_, static_cast<zip_uint64_t>(n), 0);
      if (name == nullptr) continue;
      const fs::path inside(name);
      const std::string ending = inside.extension().string();
      if (ending != ".txt" && ending != ".tsv") continue;
      if (name[0] == '_' || inside.filename().string().starts_with('_')) continue;
      texts.push_back(static_cast<zip_uint64_t>(n));
      names += (names.empty() ? "" : ", ") + std::string(name);
      name_ = name;
    }
    check(!texts.empty(), path_, ": holds no .txt or .tsv file, expected one");
    check(texts.size() == 1, path_, ": holds ", texts.size(), " text files (", names, "), expected one");
    zip_stat_t status;
    if (zip_stat_index(archive_, texts[0], 0, &status) == 0 && (status.valid & ZIP_STAT_SIZE) != 0) {
      check_growth(status.size);
    }
    entry_ = zip_fopen_index(archive_, texts[0], 0);
    check(entry_ != nullptr, path_, ": ", name_, " cannot be unpacked: ", zip_strerror(archive_));
  }

  std::string path_;
  std::string name_ = {};  // of the text inside
  zip_t* archive_ = nullptr;
  zip_file_t* entry_ = nullptr;
  std::uint64_t most_ = 0;      // bytes that may come out of it
  std::uint64_t unpacked_ = 0;  // bytes that did
};

LineReader::LineReader(const fs::path& file) : file_(file) {
  if (is_zip(file)) {
    bytes_ = std::make_unique<ZippedBytes>(file);
  } else {
    bytes_ = std::make_unique<PlainBytes>(file);
  }
}

LineReader::~LineReader() = default;

std::string LineReader::about_line() const { return file_.string() + ": line " + std::to_string(number_) + ": "; }

// Drops the part of the buffer that was read and appends more bytes; false at the end of the file.
bool LineReader::fill() {
  buffer_.erase(0, position_);
  position_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kChunk);
  buffer_.resize(before + bytes_->read(buffer_.data() + before, kChunk));
  return buffer_.size() > before;
}

bool LineReader::next(std::string& line) {
  ++number_;
  std::size_t end = buffer_.find('\n', position_);
  while (end == std::string::npos) {
    const std::size_t searched = buffer_.size() - position_;
    check(searched < kLongestLine, about_line(), "is longer than ", kLongestLine >> 20, " MiB");
    if (!fill()) break;
    end = buffer_.find('\n', searched);
  }
  if (end == std::string::npos) {
    if (position_ == buffer_.size()) return false;
    end = buffer_.size();
  }
  line.assign(buffer_, position_, end - position_);
  position_ = std::min(end + 1, buffer_.size());
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (number_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  return true;
}

}  // namespace headway::inline v0::internal
