// Writes tensors as a safetensors file, one after the other.
#include <algorithm>
#include <future>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/checksum.h"
#include "base/files.h"
#include "core/tensor_impl.h"
#include "headway/safetensors.h"
#include "io/safetensors.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Writing = std::vector<TensorToWrite>;

Writing to_write(const std::map<std::string, Tensor>& tensors, std::string_view path) {
  Writing order;
  for (const auto& [name, tensor] : tensors) {
    check(tensor.defined(), AboutTensor{path, name}, "is undefined");
    order.push_back({name, tensor.shape(), tensor.dtype(), [tensor = tensor] { return tensor; }});
  }
  return order;
}

std::string_view bytes_of(const Tensor& dense) {
  return {static_cast<const char*>(dense.raw_data()),
          static_cast<std::size_t>(dense.element_count()) * item_size(dense.dtype())};
}

// The header, with placeholders for checksums where they are wanted: they have the same size whatever the data.
SafeTensorsHeader header_of(const Writing& order, const std::map<std::string, std::string>& metadata, bool checksums,
                            std::string_view path) {
  const std::string unknown = xxh64_text({});
  SafeTensorsHeader header;
  header.metadata = metadata;
  if (checksums) header.metadata[std::string(kChecksum)] = unknown;
  std::uint64_t offset = 0;
  for (const TensorToWrite& tensor : order) {
    const std::uint64_t begin = offset;
    const auto elements = static_cast<std::uint64_t>(checked_element_count(tensor.shape, tensor.dtype));
    check(!__builtin_add_overflow(offset, elements * item_size(tensor.dtype), &offset), "safetensors: ", path,
          ": the tensors have more bytes than 64 bits can count");
    header.entries.push_back({tensor.name, std::string(safetensors_dtype(tensor.dtype)), tensor.shape, begin, offset});
    if (checksums) header.metadata[checksum_key(tensor.name)] = unknown;
  }
  return header;
}

// The checksums of all tensors, which are on the CPU.
std::vector<std::string> checksums_of(const Writing& order) {
  std::vector<std::string> checksums;
  checksums.reserve(order.size());
  for (const TensorToWrite& tensor : order) checksums.push_back(xxh64_text(bytes_of(tensor.make().contiguous())));
  return checksums;
}

enum class Checksums {
  none,
  beside,  // computed on another thread, which makes the tensors again, while the disk is busy
  inside,  // of each tensor when it is written
};

void write_file(const std::filesystem::path& path, Writing order, const std::map<std::string, std::string>& metadata,
                Checksums checksums) {
  const std::string path_text = path.string();
  sort_for_file(order);
  SafeTensorsHeader header = header_of(order, metadata, checksums != Checksums::none, path_text);
  const std::string start = format_safetensors_header(header, path_text);

  FileReplacement file(path, "safetensors");
  std::future<std::vector<std::string>> sums;
  if (checksums == Checksums::beside) sums = std::async(std::launch::async, [&order] { return checksums_of(order); });
  file.write(start);
  std::vector<std::string> known;
  for (const TensorToWrite& tensor : order) {
    const Tensor dense = tensor.make().to(Device::cpu()).contiguous();
    file.write(bytes_of(dense));
    if (checksums == Checksums::inside) known.push_back(xxh64_text(bytes_of(dense)));
  }
  if (checksums != Checksums::none) {
    if (checksums == Checksums::beside) known = sums.get();
    for (std::size_t i = 0; i < order.size(); ++i) header.metadata[checksum_key(order[i].name)] = known[i];
    header.metadata[std::string(kChecksum)] = header_checksum(header);
    file.write_at_start(format_safetensors_header(header, path_text));
  }
  file.commit();
}

}  // namespace

// Large elements first, then by name: every tensor is aligned for its dtype without padding.
void sort_for_file(std::vector<TensorToWrite>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    const std::size_t bytes_a = item_size(a.dtype), bytes_b = item_size(b.dtype);
    return bytes_a != bytes_b ? bytes_a > bytes_b : a.name < b.name;
  });
}

void save_safetensors_checked(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::map<std::string, Tensor> on_cpu;
  for (const auto& [name, tensor] : tensors) on_cpu[name] = tensor.defined() ? tensor.to(Device::cpu()) : tensor;
  write_file(path, to_write(on_cpu, path.string()), metadata, Checksums::beside);
}

void save_safetensors_checked(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                              const std::map<std::string, std::string>& metadata) {
  write_file(path, std::move(tensors), metadata, Checksums::inside);
}

}  // namespace internal

void save_safetensors(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  internal::write_file(path, internal::to_write(tensors, path.string()), metadata, internal::Checksums::none);
}

}  // namespace headway::inline v0
