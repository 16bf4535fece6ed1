// What a run keeps beside its checkpoints: its settings, and the checksums of its tokenizer's files.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "headway/training.h"
#include "training/config_table.h"

namespace headway::inline v0::internal {

// The contents of output/training/settings.json.
struct RunSettings {
  std::string kind;                         // "translation" or "fine-tuning"
  std::filesystem::path working_directory;  // that relative paths of the settings begin at
  Json config;
};
void write_run_settings(const std::filesystem::path& file, const RunSettings& settings);
// Throws where the file is damaged, with its name.
RunSettings read_run_settings(const std::filesystem::path& file);
// A relative path that is not there seen from this process's working directory, but is from the run's: the latter.
std::string path_of_run(const std::string& path, const std::filesystem::path& working_directory);

// The settings of the run in output/training: from its file, or else from its newest whole checkpoint; nothing where
// there is no run. `output` replaces the one in the settings, since the directory may have been moved.
template <typename State, typename Config>
std::optional<Config> settings_of_run(const ConfigTable<Config>& table, const std::filesystem::path& output) {
  const std::filesystem::path directory = output / "training", file = directory / "settings.json";
  std::error_code ignored;
  std::optional<Config> config;
  std::string problem, kind = State::kKind;
  if (std::filesystem::exists(file, ignored)) {
    try {
      const RunSettings settings = read_run_settings(file);
      kind = settings.kind;
      config = table.from_json(settings.config.text(), file.string());
      for (const auto& entry : table.entries()) {
        if (!entry.rule.is_path) continue;
        entry.set(*config, path_of_run(config_value_text(entry.get(*config)), settings.working_directory));
      }
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  check(kind == State::kKind, file.string(), ": is of a run of ", kind, ", expected ", State::kKind);
  if (!config) {
    const std::optional<Checkpoint> checkpoint = load_checkpoint(directory);
    check(checkpoint.has_value() || problem.empty(), problem);
    if (!checkpoint) return {};
    config = State::from_json(checkpoint->state).config;
  }
  config->output = output;
  return config;
}

// ---- the tokenizer's files ----

using FileChecksums = std::map<std::string, std::string>;  // by the names of files in one directory

// The checksums of all files in a directory that a tokenizer reads; none where the directory is missing.
FileChecksums tokenizer_checksums(const std::filesystem::path& directory);
// Throws an Error that names the first file which is not what it was.
void check_tokenizer_unchanged(const FileChecksums& before, const FileChecksums& now,
                               const std::filesystem::path& directory);
// A checksum of tensors on the CPU and of their names; "" for none.
std::string tensors_checksum(const StateDict& tensors);
Json json_of_checksums(const FileChecksums& checksums);
// Those of a field of a run's state; none where it was written by an earlier version.
FileChecksums checksums_of_json(const Json& state);
inline constexpr const char* kTokenizerField = "tokenizer_xxh64";

}  // namespace headway::inline v0::internal
