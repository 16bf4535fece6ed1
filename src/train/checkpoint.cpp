// Checkpoints: one safetensors file each.
#include "train/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "base/check.h"
#include "base/directory_entries.h"
#include "base/number_text.h"
#include "headway/safetensors.h"

namespace headway::inline v0 {
namespace internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStart = "step-";
constexpr std::string_view kEnding = ".safetensors";
constexpr std::string_view kModulePrefix = "model.";
constexpr std::string_view kOptimizerPrefix = "optimizer.";
constexpr const char* kFormat = "headway-checkpoint-1";

using Metadata = std::map<std::string, std::string>;

// Adds tensors of any device to those of a file.
void add_prefixed(StateDict& tensors, std::string_view prefix, const StateDict& values) {
  for (const auto& [name, tensor] : values) tensors.emplace(std::string(prefix) + name, tensor.to(Device::cpu()));
}

const std::string& text_of(const Metadata& metadata, const char* key, const std::string& path) {
  const auto found = metadata.find(key);
  check(found != metadata.end(), "checkpoint: ", path, ": has no \"", key, "\" in its metadata");
  return found->second;
}

template <typename Number>
Number number_of(const Metadata& metadata, const char* key, const std::string& path) {
  const std::string& text = text_of(metadata, key, path);
  const std::optional<Number> number = parse_number<Number>(text);
  check(number.has_value(), "checkpoint: ", path, ": its \"", key, "\" is \"", text, "\", expected a number");
  return *number;
}

// The names of all files in a directory; none where it is missing.
std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code problem;
  const fs::file_type type = fs::status(directory, problem).type();
  if (type == fs::file_type::not_found) return names;
  check(type == fs::file_type::directory, "checkpoint: ", directory.string(), ": is not a directory",
        problem ? std::string(": ").append(problem.message()) : std::string());
  names = directory_entries(directory, problem);
  check(!problem, "checkpoint: ", directory.string(), ": cannot be listed: ", problem.message());
  return names;
}

Checkpoint read_checkpoint(const fs::path& directory, std::int64_t step) {
  const std::string path = checkpoint_path(directory, step).string();
  const SafeTensors file = SafeTensors::open(path);
  const Metadata& metadata = file.metadata();
  const std::string& format = text_of(metadata, "format", path);
  check(format == kFormat, "checkpoint: ", path, ": its format is \"", format, "\", expected \"", kFormat, "\"");

  Checkpoint checkpoint;
  checkpoint.step = number_of<std::int64_t>(metadata, "step", path);
  check(checkpoint.step == step, "checkpoint: ", path, ": is of step ", checkpoint.step);
  checkpoint.seed = number_of<std::uint64_t>(metadata, "seed", path);
  checkpoint.loss = number_of<double>(metadata, "loss", path);
  checkpoint.skipped_steps = number_of<std::int64_t>(metadata, "skipped_steps", path);
  checkpoint.skipped_in_a_row = number_of<std::int64_t>(metadata, "skipped_in_a_row", path);
  checkpoint.state = text_of(metadata, "state", path);
  for (const std::string& name : file.names()) {
    const bool of_module = name.starts_with(kModulePrefix);
    check(of_module || name.starts_with(kOptimizerPrefix), "checkpoint: ", path, ": \"", name,
          "\" belongs to neither module nor optimizer");
    StateDict& values = of_module ? checkpoint.module : checkpoint.optimizer;
    values.emplace(name.substr(of_module ? kModulePrefix.size() : kOptimizerPrefix.size()), file.get(name));
  }
  return checkpoint;
}

}  // namespace

std::vector<std::int64_t> checkpoint_steps(const fs::path& directory) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(directory)) {
    if (name.size() <= kStart.size() + kEnding.size() || !name.starts_with(kStart) || !name.ends_with(kEnding))
      continue;
    const auto digits = std::string_view(name).substr(kStart.size(), name.size() - kStart.size() - kEnding.size());
    const auto step = parse_number<std::int64_t>(digits);
    // Only names that save_checkpoint() writes: others, such as "step-5", are the user's.
    if (step && *step >= 0 && checkpoint_path(directory, *step).filename() == name) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

fs::path checkpoint_path(const fs::path& directory, std::int64_t step) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%08lld", static_cast<long long>(step));
  return directory / (std::string(kStart) + digits + std::string(kEnding));
}

void check_fits(const StateDict& values, const StateDict& expected, const char* what, std::int64_t step) {
  for (const auto& [name, tensor] : expected) {
    const auto found = values.find(name);
    check(found != values.end(), "checkpoint: step ", step, " has no \"", name, "\", which the ", what, " has as ",
          tensor);
    check(found->second.shape() == tensor.shape() && found->second.dtype() == tensor.dtype(), "checkpoint: step ", step,
          " has \"", name, "\" as ", found->second, ", the ", what, " as ", tensor);
  }
  for (const auto& [name, tensor] : values) {
    check(expected.contains(name), "checkpoint: step ", step, " has \"", name, "\" (", tensor, "), which the ", what,
          " has not");
  }
}

}  // namespace internal

void save_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint, std::int64_t keep) {
  using internal::check;
  check(checkpoint.step >= 0, "save_checkpoint: the step is ", checkpoint.step, ", expected 0 or more");
  check(keep >= 1, "save_checkpoint: keep is ", keep, ", expected 1 or more");
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);  // where it fails, writing says so

  StateDict tensors;
  internal::add_prefixed(tensors, internal::kModulePrefix, checkpoint.module);
  internal::add_prefixed(tensors, internal::kOptimizerPrefix, checkpoint.optimizer);
  save_safetensors(internal::checkpoint_path(directory, checkpoint.step), tensors,
                   {{"format", internal::kFormat},
                    {"step", internal::number_text(checkpoint.step)},
                    {"seed", internal::number_text(checkpoint.seed)},
                    {"loss", internal::number_text(checkpoint.loss)},
                    {"skipped_steps", internal::number_text(checkpoint.skipped_steps)},
                    {"skipped_in_a_row", internal::number_text(checkpoint.skipped_in_a_row)},
                    {"state", checkpoint.state}});

  // Later checkpoints were unreadable, since training resumed before them: they are not counted, and will be replaced.
  std::vector<std::int64_t> steps = internal::checkpoint_steps(directory);
  steps.erase(std::upper_bound(steps.begin(), steps.end(), checkpoint.step), steps.end());
  const std::int64_t surplus = static_cast<std::int64_t>(steps.size()) - keep;
  for (std::int64_t i = 0; i < surplus; ++i) {
    std::filesystem::remove(internal::checkpoint_path(directory, steps[static_cast<std::size_t>(i)]), ignored);
  }
}

std::optional<Checkpoint> load_checkpoint(const std::filesystem::path& directory) {
  const std::vector<std::int64_t> steps = internal::checkpoint_steps(directory);
  std::vector<std::string> unreadable;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      Checkpoint checkpoint = internal::read_checkpoint(directory, *step);
      checkpoint.unreadable = std::move(unreadable);
      return checkpoint;
    } catch (const Error& error) {
      unreadable.emplace_back(error.what());
    }
  }
  // Starting again from the beginning would hide the loss.
  internal::check(unreadable.empty(), "load_checkpoint: none of the ", unreadable.size(), " checkpoints in ",
                  directory.string(), " can be read; the newest: ", unreadable.empty() ? "" : unreadable.front());
  return {};
}

}  // namespace headway::inline v0
