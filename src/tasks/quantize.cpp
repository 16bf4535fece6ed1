// quantize(): a model directory with weights in 8 bits.
#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/directory_entries.h"
#include "base/files.h"
#include "base/json.h"
#include "headway/quantization.h"
#include "headway/transformer_model.h"
#include "models/quantized_model.h"
#include "tasks/sentence_modules.h"

namespace headway::inline v0 {

using internal::check;

namespace {

namespace fs = std::filesystem;

// Weights, of Headway or of other libraries.
constexpr std::array<const char*, 9> kWeightEndings = {
    ".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".h5", ".msgpack", ".onnx", ".gguf"};

bool is_weights(const std::string& name) {
  return std::any_of(kWeightEndings.begin(), kWeightEndings.end(),
                     [&](const char* ending) { return name.ends_with(ending); });
}

std::vector<std::string> entries_of(const fs::path& directory) {
  std::error_code problem;
  std::vector<std::string> names = internal::directory_entries(directory, problem);
  if (problem) {
    internal::fail_on_file(directory, problem.value(), directory.string(), ": cannot be listed: ", problem.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void copy_one(const fs::path& from, const fs::path& to) {
  constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20;
  internal::InputFile source(from);
  internal::FileReplacement copy(to);
  std::string buffer(kBytesAtOnce, '\0');
  while (const std::size_t count = source.read(buffer.data(), buffer.size())) copy.write({buffer.data(), count});
  copy.commit();
}

// The regular files of a directory, without those of directories in it; hidden ones are left out.
void copy_files(const fs::path& from, const fs::path& to, bool with_weights) {
  for (const std::string& name : entries_of(from)) {
    std::error_code ignored;
    if (name.starts_with('.') || (!with_weights && is_weights(name)) || !fs::is_regular_file(from / name, ignored) ||
        fs::exists(to / name, ignored)) {
      continue;
    }
    copy_one(from / name, to / name);
  }
}

// The folders of the modules of a sentence-transformers directory; that of the Transformer first.
std::vector<fs::path> module_folders(const fs::path& directory) {
  const fs::path file = directory / "modules.json";
  const internal::Json modules = internal::read_json(file);
  std::vector<fs::path> folders;
  for (const internal::Json& module : modules.items()) {
    const fs::path folder = fs::path(module.at("path").string()).lexically_normal();
    check(!folder.is_absolute() && (folder.empty() || *folder.begin() != ".."), file.string(), ": path is \"",
          folder.string(), "\", expected a folder of the directory");
    folders.push_back(folder);
  }
  return folders;
}

fs::path inside(const fs::path& directory, const fs::path& folder) {
  return folder.empty() ? directory : directory / folder;
}

std::int64_t bytes_of_weights(const fs::path& directory) {
  std::int64_t bytes = 0;
  for (const std::string& name : entries_of(directory)) {
    if (name.ends_with(".safetensors")) bytes += static_cast<std::int64_t>(fs::file_size(directory / name));
  }
  return bytes;
}

}  // namespace

QuantizedSizes quantize(const fs::path& directory, const fs::path& output) {
  internal::check_directory(directory);
  std::error_code ignored;
  check(!fs::exists(output, ignored) || (fs::is_directory(output, ignored) && entries_of(output).empty()),
        output.string(), ": is there already, expected no such directory or an empty one");
  std::vector<fs::path> folders = {""};
  if (internal::has_sentence_modules(directory)) {
    internal::read_sentence_modules(directory);  // checks them
    folders = module_folders(directory);
  }
  const fs::path transformer = inside(directory, folders.front());
  check(!internal::is_quantized(internal::ModelConfig::read(transformer / "config.json")), transformer.string(),
        ": its weights have 8 bits already");
  const TransformerModel model = TransformerModel::load(transformer, {.dtype = DType::int8});
  QuantizedSizes sizes = {.before = bytes_of_weights(transformer)};
  internal::replace_directory(output, [&](const fs::path& unfinished) {
    const fs::path written = inside(unfinished, folders.front());
    model.save(written);
    sizes.after = bytes_of_weights(written);
    copy_files(transformer, written, /*with_weights=*/false);
    for (const fs::path& folder : folders) {
      if (folder.empty() || folder == folders.front()) continue;
      internal::make_directories(unfinished / folder);
      std::error_code missing;  // of a module without files
      if (fs::exists(directory / folder, missing)) copy_files(directory / folder, unfinished / folder, true);
    }
    copy_files(directory, unfinished, /*with_weights=*/false);
  });
  return sizes;
}

}  // namespace headway::inline v0
