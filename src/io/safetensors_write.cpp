// Writes tensors as a safetensors file, one after the other.
#include <algorithm>
#include <future>
#include <string_view>

#include "base/check.h"
#include "base/checksum.h"
#include "base/files.h"
#include "headway/safetensors.h"
#include "io/safetensors.h"

namespace headway::inline v0 {
namespace internal {
namespace {

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

std::string_view bytes_of(const Tensor& dense) {
  return {static_cast<const char*>(dense.raw_data()), byte_count(dense)};
}

// The header, with placeholders for checksums where they are wanted: they have the same size whatever the data.
SafeTensorsHeader header_of(const std::vector<Placed>& order, const std::map<std::string, std::string>& metadata,
                            bool checksums, std::string_view path) {
  const std::string unknown = xxh64_text({});
  SafeTensorsHeader header;
  header.metadata = metadata;
  if (checksums) header.metadata[std::string(kChecksum)] = unknown;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : order) {
    const std::uint64_t begin = offset;
    check(!__builtin_add_overflow(offset, byte_count(*tensor), &offset), "safetensors: ", path,
          ": the tensors have more bytes than 64 bits can count");
    header.entries.push_back({*name, std::string(safetensors_dtype(tensor->dtype())), tensor->shape(), begin, offset});
    if (checksums) header.metadata[checksum_key(*name)] = unknown;
  }
  return header;
}

// The checksums of all tensors, which are on the CPU.
std::vector<std::string> checksums_of(const std::vector<Placed>& order) {
  std::vector<std::string> checksums;
  checksums.reserve(order.size());
  for (const auto& [name, tensor] : order) checksums.push_back(xxh64_text(bytes_of(tensor->contiguous())));
  return checksums;
}

void write_file(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                const std::map<std::string, std::string>& metadata, bool checksums) {
  const std::string path_text = path.string();
  const std::vector<Placed> order = place(tensors, path_text);
  SafeTensorsHeader header = header_of(order, metadata, checksums, path_text);
  const std::string start = format_safetensors_header(header, path_text);

  FileReplacement file(path, "safetensors");
  // Checksums are computed while the disk is busy.
  std::future<std::vector<std::string>> sums;
  if (checksums) sums = std::async(std::launch::async, [&order] { return checksums_of(order); });
  file.write(start);
  for (const auto& [name, tensor] : order) file.write(bytes_of(tensor->to(Device::cpu()).contiguous()));
  if (checksums) {
    const std::vector<std::string> known = sums.get();
    for (std::size_t i = 0; i < order.size(); ++i) header.metadata[checksum_key(*order[i].name)] = known[i];
    header.metadata[std::string(kChecksum)] = header_checksum(header);
    file.write_at_start(format_safetensors_header(header, path_text));
  }
  file.commit();
}

}  // namespace

void save_safetensors_checked(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::map<std::string, Tensor> on_cpu;
  for (const auto& [name, tensor] : tensors) on_cpu[name] = tensor.defined() ? tensor.to(Device::cpu()) : tensor;
  write_file(path, on_cpu, metadata, /*checksums=*/true);
}

}  // namespace internal

void save_safetensors(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  internal::write_file(path, tensors, metadata, /*checksums=*/false);
}

}  // namespace headway::inline v0
