// Files of named tensors in the safetensors format: an 8-byte length, a JSON header, then the tensors' bytes.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headway/export.h"
#include "headway/tensor.h"

namespace headway {
inline namespace v0 {

// An open safetensors file. Copying it shares the file, which stays mapped until the last copy and the last tensor from
// it are destroyed; all members may be called from several threads at once. The file must not be truncated or written
// to while it is open, since its tensors are views of it; save_safetensors() replaces the file and is safe.
class HEADWAY_API SafeTensors {
 public:
  // Maps the file into memory and checks its whole header; throws an Error that names the file and the fault.
  static SafeTensors open(const std::filesystem::path& path);

  // All tensors in the order of their data in the file.
  const std::vector<std::string>& names() const;

  bool contains(std::string_view name) const;

  // The tensor of that name, without a copy where its bytes are aligned for its dtype. It must not be written to:
  // writes never reach the file, but are visible in other tensors of this file. Throws where the name is missing or its
  // dtype is not supported.
  Tensor get(std::string_view name) const;

  // The file's metadata, such as {"format": "pt"}.
  const std::map<std::string, std::string>& metadata() const;

  // Reads the whole file and compares it with the checksums in its metadata, which checkpoints and the models that
  // Headway saves have. Throws an Error that names the tensor which differs; false where the file has no checksums.
  bool verify() const;

 private:
  struct File;
  explicit SafeTensors(std::shared_ptr<const File> file);
  std::shared_ptr<const File> file_;
};

// All tensors of a file by name, as Module::load_state_dict() takes them: SafeTensors::open() and get(), without a copy
// where that is possible. They must not be written to.
HEADWAY_API std::map<std::string, Tensor> load_safetensors(const std::filesystem::path& path);

// Writes the tensors, whatever their strides, and the metadata; names and metadata are UTF-8. A file of that name is
// replaced atomically, and only when everything is on the disk: where anything fails, an Error is thrown and the old
// file is unchanged. A symbolic link of that name is replaced, not followed.
HEADWAY_API void save_safetensors(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                                  const std::map<std::string, std::string>& metadata = {});

}  // namespace v0
}  // namespace headway
