// Feeds bytes to the reader of safetensors files. What it accepts must hold together; what it does not must be an
// Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "headway/error.h"
#include "headway/tensor.h"
#include "io/safetensors.h"

namespace headway {
namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

// Reads all elements, so that a sanitizer sees memory that is not there.
void touch(const Tensor& tensor, std::uint64_t size) {
  require(static_cast<std::uint64_t>(tensor.element_count()) * item_size(tensor.dtype()) == size);
  unsigned sum = 0;
  for (std::uint64_t i = 0; i < size; ++i) {
    sum += static_cast<const unsigned char*>(tensor.raw_data())[i];
  }
  [[maybe_unused]] volatile unsigned used = sum;
  if (size > 0 && size < 256) {
    require(tensor.to_vector().size() * item_size(tensor.dtype()) == size);
  }
}

void read_file(std::vector<std::byte> file) {
  internal::SafeTensorsHeader header;
  try {
    header = internal::parse_safetensors(file, "fuzz");
  } catch (const Error&) {
    return;
  }
  require(header.data_start <= file.size());
  const std::span<std::byte> data = std::span(file).subspan(header.data_start);
  std::uint64_t covered = 0;
  for (const internal::SafeTensorsEntry& entry : header.entries) {
    require(entry.begin == covered && entry.end >= entry.begin && entry.end <= data.size());
    covered = entry.end;
    try {
      touch(internal::make_safetensors_tensor(entry, data, nullptr, "fuzz"), entry.end - entry.begin);
    } catch (const Error&) {
      // a dtype that is none of ours, or a BOOL that is none
    }
  }
  require(covered == data.size());

  // What was read can be written, and reads the same again.
  const std::string text = internal::format_safetensors_header(header, "fuzz");
  require(text.size() % 8 == 0);
  std::vector<std::byte> again(text.size() + data.size());
  std::memcpy(again.data(), text.data(), text.size());
  const internal::SafeTensorsHeader reread = internal::parse_safetensors(again, "fuzz");
  require(reread.entries == header.entries && reread.metadata == header.metadata);
}

}  // namespace
}  // namespace headway

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(input);
  headway::read_file({bytes, bytes + size});

  // Once more with a length that fits, which mutations rarely hit: what ends with the last brace is the header.
  std::size_t header = size;
  while (header > 0 && input[header - 1] != '}') {
    --header;
  }
  const std::size_t skip = size >= 9 && input[8] == '{' && header > 8 ? 8 : 0;  // the length it had
  const std::uint64_t length = header > skip ? header - skip : 0;
  std::vector<std::byte> repaired(8 + size - skip);
  std::memcpy(repaired.data(), &length, 8);
  if (size > skip) {
    std::memcpy(repaired.data() + 8, input + skip, size - skip);
  }
  headway::read_file(std::move(repaired));
  return 0;
}
