// Writes tensors as a safetensors file, one after the other.
#include <algorithm>
#include <string_view>

#include "base/check.h"
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

}  // namespace
}  // namespace internal

void save_safetensors(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  using internal::check;
  const std::string path_text = path.string();
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

  internal::FileReplacement file(path, "safetensors");
  file.write(start);
  for (const auto& [name, tensor] : order) {
    const Tensor dense = tensor->to(Device::cpu()).contiguous();
    file.write({static_cast<const char*>(dense.raw_data()), internal::byte_count(dense)});
  }
  file.commit();
}

}  // namespace headway::inline v0
