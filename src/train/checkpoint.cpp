// Checkpoints: one safetensors file each.
#include "train/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/directory_entries.h"
#include "base/files.h"
#include "base/number_text.h"
#include "headway/safetensors.h"
#include "io/safetensors.h"

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

Metadata metadata_of(const Checkpoint& checkpoint) {
  return {{"format", kFormat},
          {"step", number_text(checkpoint.step)},
          {"seed", number_text(checkpoint.seed)},
          {"loss", number_text(checkpoint.loss)},
          {"skipped_steps", number_text(checkpoint.skipped_steps)},
          {"skipped_in_a_row", number_text(checkpoint.skipped_in_a_row)},
          {"state", checkpoint.state}};
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
  if (type != fs::file_type::directory) {
    fail_on_file(directory, problem ? problem.value() : ENOTDIR, "checkpoint: ", directory.string(),
                 ": is not a directory", problem ? std::string(": ").append(problem.message()) : std::string());
  }
  names = directory_entries(directory, problem);
  if (problem) {
    fail_on_file(directory, problem.value(), "checkpoint: ", directory.string(),
                 ": cannot be listed: ", problem.message());
  }
  return names;
}

// What the bits of an element say, given those of its exponent.
template <typename Bits>
NumberKinds kinds_in(const Tensor& tensor, Bits exponent, Bits fraction) {
  const auto* const elements = static_cast<const Bits*>(tensor.raw_data());
  NumberKinds kinds;
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    if ((elements[i] & exponent) != exponent) continue;
    ((elements[i] & fraction) != 0 ? kinds.nan : kinds.infinite) = true;
  }
  return kinds;
}

// Throws where a weight or what the optimizer keeps of it is not a finite number: the run could not go on from there.
// Other tensors of a module, as masks, may be infinite.
void check_numbers(const Checkpoint& checkpoint, const std::string& path) {
  for (const auto& [name, tensor] : checkpoint.optimizer) {
    const NumberKinds kinds = number_kinds(tensor);
    check(!kinds.nan && !kinds.infinite, "checkpoint: ", path, ": the optimizer's \"", name,
          "\" has numbers that are not finite");
  }
  for (const auto& [name, tensor] : checkpoint.module) {
    const auto next = checkpoint.optimizer.lower_bound(name + ".");
    const bool trained = next != checkpoint.optimizer.end() && next->first.starts_with(name + ".");
    const NumberKinds kinds = number_kinds(tensor);
    check(!kinds.nan && !(trained && kinds.infinite), "checkpoint: ", path, ": \"", name,
          "\" has numbers that are not finite");
  }
}

Checkpoint read_checkpoint(const fs::path& directory, std::int64_t step) {
  const std::string path = checkpoint_path(directory, step).string();
  const SafeTensors file = SafeTensors::open(path);
  file.verify();  // checkpoints of earlier versions have no checksums
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
  check_numbers(checkpoint, path);
  return checkpoint;
}

// Checks what is about to be saved, and makes the directory.
void prepare_saving(const fs::path& directory, const Checkpoint& checkpoint, std::int64_t keep) {
  check(checkpoint.step >= 0, "save_checkpoint: the step is ", checkpoint.step, ", expected 0 or more");
  check(keep >= 1, "save_checkpoint: keep is ", keep, ", expected 1 or more");
  std::error_code ignored;
  fs::create_directories(directory, ignored);  // where it fails, writing says so
}

// Removes all but the last `keep` checkpoints up to `last`. Later ones were unreadable, since training resumed before
// them: they are not counted, and will be replaced.
void remove_surplus(const fs::path& directory, std::int64_t last, std::int64_t keep) {
  std::vector<std::int64_t> steps = checkpoint_steps(directory);
  steps.erase(std::upper_bound(steps.begin(), steps.end(), last), steps.end());
  const std::int64_t surplus = static_cast<std::int64_t>(steps.size()) - keep;
  std::error_code ignored;
  for (std::int64_t i = 0; i < surplus; ++i) {
    fs::remove(checkpoint_path(directory, steps[static_cast<std::size_t>(i)]), ignored);
  }
}

}  // namespace

void save_checkpoint_in_pieces(const fs::path& directory, const Checkpoint& checkpoint,
                               std::vector<TensorToWrite> optimizer, std::int64_t keep) {
  prepare_saving(directory, checkpoint, keep);
  std::vector<TensorToWrite> tensors = std::move(optimizer);
  for (TensorToWrite& tensor : tensors) tensor.name.insert(0, kOptimizerPrefix);
  for (const auto& [name, tensor] : checkpoint.module) {
    tensors.push_back(
        {std::string(kModulePrefix) + name, tensor.shape(), tensor.dtype(), [tensor = tensor] { return tensor; }});
  }
  save_safetensors_checked(checkpoint_path(directory, checkpoint.step), std::move(tensors), metadata_of(checkpoint));
  remove_surplus(directory, checkpoint.step, keep);
}

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

NumberKinds number_kinds(const Tensor& tensor) {
  const Tensor dense = tensor.to(Device::cpu()).contiguous();
  switch (tensor.dtype()) {
    case DType::float32:
      return kinds_in<std::uint32_t>(dense, 0x7F800000, 0x007FFFFF);
    case DType::float64:
      return kinds_in<std::uint64_t>(dense, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF);
    case DType::bfloat16:
      return kinds_in<std::uint16_t>(dense, 0x7F80, 0x007F);
    case DType::float16:
      return kinds_in<std::uint16_t>(dense, 0x7C00, 0x03FF);
    default:
      return {};
  }
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
  internal::prepare_saving(directory, checkpoint, keep);
  StateDict tensors;
  internal::add_prefixed(tensors, internal::kModulePrefix, checkpoint.module);
  internal::add_prefixed(tensors, internal::kOptimizerPrefix, checkpoint.optimizer);
  internal::save_safetensors_checked(internal::checkpoint_path(directory, checkpoint.step), tensors,
                                     internal::metadata_of(checkpoint));
  internal::remove_surplus(directory, checkpoint.step, keep);
}

std::optional<Checkpoint> load_checkpoint(const std::filesystem::path& directory) {
  const std::vector<std::int64_t> steps = internal::checkpoint_steps(directory);
  std::vector<std::string> unreadable;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      Checkpoint checkpoint = internal::read_checkpoint(directory, *step);
      checkpoint.unreadable = std::move(unreadable);
      return checkpoint;
    } catch (const MemoryError&) {
      throw;  // the file may be whole
    } catch (const Error& error) {
      unreadable.emplace_back(error.what());
    }
  }
  // Starting again from the beginning would hide the loss.
  std::string reasons;
  for (const std::string& reason : unreadable) reasons += (reasons.empty() ? ": " : "; ") + reason;
  internal::check(unreadable.empty(), "load_checkpoint: none of the ", unreadable.size(), " checkpoints in ",
                  directory.string(), " can be used", reasons);
  return {};
}

}  // namespace headway::inline v0
