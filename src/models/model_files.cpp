#include "models/model_files.h"

#include <cerrno>
#include <set>

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {
namespace {

// An Error about a directory without safetensors.
[[noreturn]] void refuse_directory(const std::filesystem::path& directory) {
  std::error_code ignored;
  const std::string path = directory.string();
  for (const char* other : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!std::filesystem::exists(directory / other, ignored)) continue;
    fail(path, ": has ", other, ", expected model.safetensors; convert it with: python -c \"from transformers import ",
         "AutoConfig; import transformers; c = AutoConfig.from_pretrained('", path,
         "'); getattr(transformers, c.architectures[0]).from_pretrained('", path, "').save_pretrained('", path, "')\"");
  }
  for (const char* other : {"tf_model.h5", "flax_model.msgpack", "model.onnx"}) {
    check(!std::filesystem::exists(directory / other, ignored), path, ": has ", other, ", expected model.safetensors");
  }
  fail_on_file(directory, ENOENT, path, ": has neither model.safetensors nor model.safetensors.index.json");
}

}  // namespace

ModelFiles::ModelFiles(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (std::filesystem::exists(directory / "model.safetensors", ignored)) {
    add(directory / "model.safetensors");
  } else if (std::filesystem::exists(directory / "model.safetensors.index.json", ignored)) {
    add_indexed(directory / "model.safetensors.index.json");
  } else {
    refuse_directory(directory);
  }
}

void ModelFiles::add(const std::filesystem::path& file) {
  const SafeTensors tensors = SafeTensors::open(file);
  for (const std::string& name : tensors.names()) {
    check(files_.emplace(name, tensors).second, file.string(), ": tensor ", name, " is in another file too");
  }
}

void ModelFiles::add_indexed(const std::filesystem::path& index) {
  const std::string where = index.string();
  const Json json = read_json(index);
  const Json* map = json.find("weight_map");
  check(map != nullptr && map->is_object(), where, ": weight_map is not there, expected an object of file names");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->fields()) {
    constexpr std::size_t kMost = 100;
    const std::string name = file.is_string() ? file.string() : "";
    // A file of the directory alone: an index must not lead elsewhere.
    const bool plain = std::filesystem::path(name).filename() == name && name.ends_with(".safetensors") &&
                       name.find('\0') == std::string::npos;
    check(plain, where, ": weight_map has ", shortened(file.text(), kMost), " for ", shortened(tensor, kMost),
          ", expected the name of a safetensors file beside it");
    names.insert(name);
  }
  check(!names.empty(), where, ": weight_map is empty");
  for (const std::string& name : names) add(index.parent_path() / name);
  std::string missing;
  for (const auto& [tensor, file] : map->fields()) {
    if (!contains(tensor)) missing += (missing.empty() ? "" : ", ") + tensor;
  }
  check(missing.empty(), where, ": weight_map has tensors that are in none of its files: ", missing);
}

Tensor ModelFiles::get(const std::string& name) const {
  const auto found = files_.find(name);
  check(found != files_.end(), "there is no tensor ", name);
  const Tensor tensor = found->second.get(name);
  return Tensor::wrap(static_cast<const void*>(tensor.raw_data()), tensor.shape(), tensor.dtype(), [tensor] {});
}

std::vector<std::string> ModelFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : files_) names.push_back(name);
  return names;
}

}  // namespace headway::inline v0::internal
