// Opens a file and returns its tensors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/checksum.h"
#include "base/files.h"
#include "headway/safetensors.h"
#include "io/safetensors.h"

namespace headway::inline v0 {

using internal::check;
using internal::fail;
using internal::in_quotes;

namespace internal {
namespace {

constexpr std::pair<DType, std::string_view> kDTypes[] = {
    {DType::float32, "F32"}, {DType::float64, "F64"}, {DType::bfloat16, "BF16"}, {DType::float16, "F16"},
    {DType::int32, "I32"},   {DType::int64, "I64"},   {DType::boolean, "BOOL"},  {DType::int8, "I8"}};

std::optional<DType> dtype_from(std::string_view wanted) {
  for (const auto& [dtype, name] : kDTypes) {
    if (name == wanted) {
      return dtype;
    }
  }
  return std::nullopt;
}

}  // namespace

// A whole file in memory, private to this process. Named, because SafeTensors::File has one.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    // Without O_NONBLOCK a pipe would wait for its other end before it can be refused.
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
      fail_with_errno(path, "cannot be opened");
    }
    try {
      map(file, path);
    } catch (...) {
      ::close(file);
      throw;
    }
    ::close(file);
  }
  ~Mapping() {
    if (size_ > 0) {
      ::munmap(data_, size_);
    }
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), size_}; }

 private:
  [[noreturn]] static void fail_with_errno(const std::string& path, const char* what) {
    const int problem = errno;
    internal::fail_on_file(path, problem, "safetensors: ", path, ": ", what, ": ",
                           std::generic_category().message(problem));
  }

  void map(int file, const std::string& path) {
    struct stat status = {};
    if (::fstat(file, &status) != 0) {
      fail_with_errno(path, "cannot be looked at");
    }
    if (S_ISDIR(status.st_mode)) {
      internal::fail_on_file(path, EISDIR, "safetensors: ", path, ": is a directory, expected a file");
    }
    check(S_ISREG(status.st_mode), "safetensors: ", path, ": is a device or a pipe, expected a file");
    if (status.st_size == 0) {
      return;  // nothing to map; the header's checks will say so
    }
    // Writable, so that a stray write stays in this process and harms nothing; no swap is set aside for such writes.
    void* data = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_NORESERVE, file, 0);
    if (data == MAP_FAILED && errno == ENOMEM) {
      throw MemoryError(
          internal::join_parts("safetensors: ", path, ": no memory to map its ", status.st_size, " bytes"));
    }
    if (data == MAP_FAILED) {
      fail_with_errno(path, "cannot be mapped into memory");
    }
    data_ = data;
    size_ = static_cast<std::size_t>(status.st_size);
  }

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

std::string_view safetensors_dtype(DType wanted) {
  for (const auto& [dtype, name] : kDTypes) {
    if (dtype == wanted) {
      return name;
    }
  }
  fail("safetensors: dtype ", static_cast<int>(wanted), " is unknown");
}

Tensor make_safetensors_tensor(const SafeTensorsEntry& entry, std::span<std::byte> data, std::shared_ptr<void> owner,
                               std::string_view path) {
  const std::optional<DType> dtype = dtype_from(entry.dtype);
  check(dtype.has_value(), AboutTensor{path, entry.name}, "has the dtype ", entry.dtype,
        ", expected F32, F64, BF16, F16, I8, I32, I64 or BOOL");
  const std::span<std::byte> bytes = data.subspan(entry.begin, entry.end - entry.begin);
  if (*dtype == DType::boolean) {
    // A bool that is neither 0 nor 1 is undefined behaviour in C++.
    const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](std::byte byte) { return byte > std::byte{1}; });
    check(wrong == bytes.end(), AboutTensor{path, entry.name}, "has a byte other than 0 and ", "1 at its element ",
          wrong - bytes.begin(), ", expected BOOL");
  }
  if (bytes.empty() || reinterpret_cast<std::uintptr_t>(bytes.data()) % item_size(*dtype) != 0) {
    Tensor copy = Tensor::empty(entry.shape, *dtype);
    if (!bytes.empty()) {
      std::memcpy(copy.raw_data(), bytes.data(), bytes.size());
    }
    return copy;
  }
  return Tensor::wrap(bytes.data(), entry.shape, *dtype, [owner = std::move(owner)] {});
}

}  // namespace internal

struct SafeTensors::File {
  explicit File(const std::filesystem::path& file_path)
      : path(file_path.string()), mapping(std::make_shared<internal::Mapping>(path)) {
    header = internal::parse_safetensors(mapping->bytes(), path);
    names.reserve(header.entries.size());
    for (const internal::SafeTensorsEntry& entry : header.entries) {
      index.emplace(entry.name, &entry);
      names.push_back(entry.name);
    }
  }

  std::string path;
  std::shared_ptr<internal::Mapping> mapping;
  internal::SafeTensorsHeader header;
  std::vector<std::string> names;
  std::unordered_map<std::string_view, const internal::SafeTensorsEntry*> index;  // into header
};

SafeTensors::SafeTensors(std::shared_ptr<const File> file) : file_(std::move(file)) {}

SafeTensors SafeTensors::open(const std::filesystem::path& path) {
  return SafeTensors(std::make_shared<const File>(path));
}

const std::vector<std::string>& SafeTensors::names() const { return file_->names; }

bool SafeTensors::contains(std::string_view name) const { return file_->index.contains(name); }

Tensor SafeTensors::get(std::string_view name) const {
  const auto found = file_->index.find(name);
  if (found == file_->index.end()) {
    fail("safetensors: ", file_->path, ": there is no tensor ", in_quotes(name), " among its ", file_->names.size());
  }
  const std::span<std::byte> data = file_->mapping->bytes().subspan(file_->header.data_start);
  return internal::make_safetensors_tensor(*found->second, data, file_->mapping, file_->path);
}

const std::map<std::string, std::string>& SafeTensors::metadata() const { return file_->header.metadata; }

bool SafeTensors::verify() const {
  const internal::SafeTensorsHeader& header = file_->header;
  const auto total = header.metadata.find(std::string(internal::kChecksum));
  if (total == header.metadata.end()) return false;
  const std::string found = internal::header_checksum(header);
  check(found == total->second, "safetensors: ", file_->path, ": the header is damaged: its checksum is ", found,
        ", expected ", total->second);
  const std::span<std::byte> data = file_->mapping->bytes().subspan(header.data_start);
  for (const internal::SafeTensorsEntry& entry : header.entries) {
    const auto expected = header.metadata.find(internal::checksum_key(entry.name));
    check(expected != header.metadata.end(), internal::AboutTensor{file_->path, entry.name}, "has no checksum");
    const std::string sum = internal::xxh64_text(
        {reinterpret_cast<const char*>(data.data()) + entry.begin, static_cast<std::size_t>(entry.end - entry.begin)});
    check(sum == expected->second, internal::AboutTensor{file_->path, entry.name}, "is damaged: its checksum is ", sum,
          ", expected ", expected->second);
  }
  return true;
}

std::map<std::string, Tensor> load_safetensors(const std::filesystem::path& path) {
  const SafeTensors file = SafeTensors::open(path);
  std::map<std::string, Tensor> tensors;
  for (const std::string& name : file.names()) tensors.emplace(name, file.get(name));
  return tensors;
}

}  // namespace headway::inline v0
