// The safetensors format in memory; SafeTensors::open() and save_safetensors() read and write files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/internal_api.h"
#include "headway/dtype.h"
#include "headway/shape.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

// The format's own limit, which keeps a hostile header from taking all memory.
inline constexpr std::uint64_t kMaxSafeTensorsHeader = 100'000'000;

// One tensor of a checked header.
struct SafeTensorsEntry {
  std::string name;
  std::string dtype;  // the format's name: "F32", "F8_E4M3"
  Shape shape;
  std::uint64_t begin = 0;  // in bytes from the start of the data
  std::uint64_t end = 0;

  friend bool operator==(const SafeTensorsEntry&, const SafeTensorsEntry&) = default;
};

struct SafeTensorsHeader {
  std::vector<SafeTensorsEntry> entries;  // in the order of their data, which they cover without a hole
  std::map<std::string, std::string> metadata;
  std::size_t data_start = 0;  // in bytes from the start of the file
};

// Reads and checks the header of a whole file in memory; `path` is its name in errors.
SafeTensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view path);

// The start of a file, up to its data: the length, the JSON text and spaces up to a multiple of 8 bytes.
std::string format_safetensors_header(const SafeTensorsHeader& header, std::string_view path);

// ---- checksums: XXH64 in 16 hexadecimal digits, in the metadata ----

// "xxh64:NAME" has the checksum of a tensor's bytes; "xxh64" that of the rest of the metadata and of the names, dtypes
// and shapes of all tensors.
inline constexpr std::string_view kChecksum = "xxh64";
std::string checksum_key(std::string_view tensor);
// The value that the key "xxh64" has in this header.
std::string header_checksum(const SafeTensorsHeader& header);
// save_safetensors() with checksums in the metadata.
HEADWAY_INTERNAL_API void save_safetensors_checked(const std::filesystem::path& path,
                                                   const std::map<std::string, Tensor>& tensors,
                                                   const std::map<std::string, std::string>& metadata);

// A tensor that is made when its turn to be written comes, and dropped afterwards.
struct TensorToWrite {
  std::string name;
  Shape shape;
  DType dtype = DType::float32;
  std::function<Tensor()> make;
};
// Puts tensors into the order in which a file has them.
void sort_for_file(std::vector<TensorToWrite>& tensors);
// The same file as from the function above; make() is called in the order of sort_for_file().
void save_safetensors_checked(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                              const std::map<std::string, std::string>& metadata);

// One tensor over a file's data, which `owner` keeps alive; a copy where the data is not aligned for its dtype.
Tensor make_safetensors_tensor(const SafeTensorsEntry& entry, std::span<std::byte> data, std::shared_ptr<void> owner,
                               std::string_view path);

// "F32" for DType::float32, and so on.
std::string_view safetensors_dtype(DType dtype);

// A name from a file as errors show it: in quotes, and shortened where it is long.
std::string in_quotes(std::string_view name);

// The start of an error about one tensor of a file. An argument of check(), formatted only when the check fails.
struct AboutTensor {
  std::string_view path;
  std::string_view name;
};
void append_part(std::ostream& text, const AboutTensor& part);

}  // namespace headway::inline v0::internal
