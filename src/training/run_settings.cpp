// The settings of a run as a file, and checksums of what lies beside it.
#include "training/run_settings.h"

#include <system_error>

#include "base/checksum.h"
#include "base/files.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

// The names that tokenizers of all kinds have for their files.
constexpr const char* kTokenizerFiles[] = {
    "added_tokens.json", "merges.txt", "sentencepiece.bpe.model", "source.spm",      "special_tokens_map.json",
    "spiece.model",      "target.spm", "tokenizer.json",          "tokenizer.model", "tokenizer_config.json",
    "vocab.json",        "vocab.txt"};

Json settings_json(const RunSettings& settings) {
  return {{"run", settings.kind},
          {"working_directory", settings.working_directory.string()},
          {"settings", settings.config}};
}

}  // namespace

void write_run_settings(const fs::path& file, const RunSettings& settings) {
  Json all = settings_json(settings);
  all.set("xxh64", xxh64_text(all.text()));
  make_directories(file.parent_path());
  replace_file(file, all.text(2) + "\n");
}

RunSettings read_run_settings(const fs::path& file) {
  const Json all = read_json(file);
  check(all.is_object(), file.string(), ": is of the type ", all.kind_name(), ", expected the settings of a run");
  for (const char* name : {"run", "working_directory", "settings", "xxh64"}) {
    check(all.find(name) != nullptr, file.string(), ": has no \"", name, "\", expected the settings of a run");
  }
  RunSettings settings{.kind = all.at("run").string(),
                       .working_directory = all.at("working_directory").string(),
                       .config = all.at("settings")};
  const std::string found = xxh64_text(settings_json(settings).text()), expected = all.at("xxh64").string();
  check(found == expected, file.string(), ": is damaged or was changed: its checksum is ", found, ", expected ",
        expected, "; settings are changed by options of the command that resumes the run");
  return settings;
}

std::string path_of_run(const std::string& path, const fs::path& working_directory) {
  std::error_code ignored;
  const bool elsewhere = !path.empty() && fs::path(path).is_relative() && !fs::exists(path, ignored) &&
                         fs::exists(working_directory / path, ignored);
  return elsewhere ? (working_directory / path).string() : path;
}

FileChecksums tokenizer_checksums(const fs::path& directory) {
  FileChecksums checksums;
  std::error_code ignored;
  for (const char* name : kTokenizerFiles) {
    if (fs::is_regular_file(directory / name, ignored)) checksums[name] = xxh64_text(read_whole_file(directory / name));
  }
  return checksums;
}

void check_tokenizer_unchanged(const FileChecksums& before, const FileChecksums& now, const fs::path& directory) {
  for (const auto& [name, checksum] : before) {
    const auto found = now.find(name);
    check(found != now.end(), (directory / name).string(), ": is missing, and the run was begun with it");
    check(found->second == checksum, (directory / name).string(), ": has changed since the run was begun: its checksum",
          " is ", found->second, ", expected ", checksum);
  }
}

std::string tensors_checksum(const StateDict& tensors) {
  std::string all;
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = tensor.contiguous();
    const std::size_t bytes = static_cast<std::size_t>(dense.element_count()) * item_size(dense.dtype());
    all += name + " " + xxh64_text({static_cast<const char*>(dense.raw_data()), bytes}) + "\n";
  }
  return all.empty() ? "" : xxh64_text(all);
}

Json json_of_checksums(const FileChecksums& checksums) {
  Json all = Json::object();
  for (const auto& [name, checksum] : checksums) all.set(name, checksum);
  return all;
}

FileChecksums checksums_of_json(const Json& state) {
  FileChecksums checksums;
  const Json* const field = state.find(kTokenizerField);
  if (field == nullptr) return checksums;
  for (const JsonField& file : field->fields()) checksums[file.name] = file.value.string();
  return checksums;
}

}  // namespace headway::inline v0::internal
