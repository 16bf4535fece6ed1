// Writes a file beside its place, then moves it there.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "headway/safetensors.h"
#include "io/safetensors.h"

namespace headway::inline v0 {
namespace internal {
namespace {

namespace fs = std::filesystem;

// A new file in the directory of `target`. Unless it was moved there it is removed again.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target), path_(target.string()) {
    static std::atomic<unsigned> counter = 0;
    // Not by mkstemp: that would hide the file from other users, whatever the umask says.
    do {
      const std::string name = ".headway-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
      temporary_ = (target.parent_path() / name).string();
      file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file_ < 0 && errno == EEXIST);
    if (file_ < 0) {
      fail_with_errno("no file can be made in its directory");
    }
  }
  ~TemporaryFile() {
    if (file_ >= 0) {
      ::close(file_);
    }
    if (!moved_) {
      ::unlink(temporary_.c_str());
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(const void* data, std::size_t size) {
    const char* next = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = ::write(file_, next, std::min(size, kLargestWrite));
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written < 0) {
        fail_with_errno("cannot be written");
      }
      next += written;
      size -= static_cast<std::size_t>(written);
    }
  }

  // Puts the file on the disk, then into its place.
  void move_to_target() {
    if (::fsync(file_) != 0) {
      fail_with_errno("cannot be flushed to the disk");
    }
    if (::close(std::exchange(file_, -1)) != 0) {
      fail_with_errno("cannot be closed");
    }
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      fail_with_errno("cannot be replaced");
    }
    moved_ = true;
    sync_directory();
  }

 private:
  static constexpr std::size_t kLargestWrite = std::size_t{1} << 30;

  [[noreturn]] void fail_with_errno(const char* what) const {
    fail("safetensors: ", path_, ": ", what, ": ", std::generic_category().message(errno));
  }

  // Makes the new name survive a power cut. The file is in place by now, and not every file system can do this: a
  // failure is none of the caller's.
  void sync_directory() const {
    const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
    const int directory = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
      ::fsync(directory);
      ::close(directory);
    }
  }

  fs::path target_;
  std::string path_;
  std::string temporary_;
  int file_ = -1;
  bool moved_ = false;
};

// A tensor and where its bytes go.
struct Placed {
  const std::string* name;
  const Tensor* tensor;
};

// Large elements first, then by name: every tensor is aligned for its dtype without padding.
std::vector<Placed> place(const std::map<std::string, Tensor>& tensors, std::string_view path) {
  std::vector<Placed> order;
  for (const auto& [name, tensor] : tensors) {
    check(tensor.defined(), AboutTensor{path, name}, "is undefined");
    order.push_back({&name, &tensor});
  }
  std::stable_sort(order.begin(), order.end(), [](const Placed& a, const Placed& b) {
    return item_size(a.tensor->dtype()) > item_size(b.tensor->dtype());
  });
  return order;
}

std::uint64_t byte_count(const Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.element_count()) * item_size(tensor.dtype());
}

}  // namespace
}  // namespace internal

void save_safetensors(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  using internal::check;
  const std::string path_text = path.string();
  std::error_code ignored;
  const std::filesystem::file_type type = std::filesystem::status(path, ignored).type();
  // A rename would put the file where a device was.
  check(type == std::filesystem::file_type::regular || type == std::filesystem::file_type::not_found ||
            type == std::filesystem::file_type::none,
        "safetensors: ", path_text, ": is there already and is not a file");

  const std::vector<internal::Placed> order = internal::place(tensors, path_text);
  internal::SafeTensorsHeader header;
  header.metadata = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : order) {
    const std::uint64_t begin = offset;
    check(!__builtin_add_overflow(offset, internal::byte_count(*tensor), &offset), "safetensors: ", path_text,
          ": the tensors have more bytes than 64 bits can count");
    header.entries.push_back(
        {*name, std::string(internal::safetensors_dtype(tensor->dtype())), tensor->shape(), begin, offset});
  }
  const std::string start = internal::format_safetensors_header(header, path_text);

  internal::TemporaryFile file(path);
  file.write(start.data(), start.size());
  for (const auto& [name, tensor] : order) {
    const Tensor dense = tensor->to(Device::cpu()).contiguous();
    file.write(dense.raw_data(), internal::byte_count(dense));
  }
  file.move_to_target();
}

}  // namespace headway::inline v0
