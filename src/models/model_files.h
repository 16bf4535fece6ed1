// The tensors of a model directory: one safetensors file, or several with an index.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "headway/safetensors.h"

namespace headway::inline v0::internal {

class ModelFiles {
 public:
  // Maps the files. Errors name what is there instead, and how a pytorch_model.bin is converted.
  explicit ModelFiles(const std::filesystem::path& directory);

  bool contains(const std::string& name) const { return files_.contains(name); }
  // A view of the mapped file that is_read_only().
  Tensor get(const std::string& name) const;
  std::vector<std::string> names() const;

 private:
  void add(const std::filesystem::path& file);
  void add_indexed(const std::filesystem::path& index);

  std::map<std::string, SafeTensors> files_;  // by the tensors' names; copies share the mapping
};

}  // namespace headway::inline v0::internal
