// Which examples are for training, for validation and for test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "headway/fine_tuning.h"

namespace headway::inline v0::internal {

template <typename Example>
struct DataParts {
  std::vector<Example> training;
  std::vector<Example> validation;
  std::vector<Example> test;
};

// The training part's last share, or every folds-th group, is held out of it; `group` is the number that folds count,
// as of an example's article.
template <typename Example>
void hold_out(DataParts<Example>& parts, const FineTuneConfig& config,
              const std::function<std::int64_t(const Example&, std::int64_t)>& group) {
  if (config.folds > 0) {
    std::vector<Example> kept;
    std::int64_t index = 0;
    for (Example& example : parts.training) {
      const bool held = group(example, index++) % config.folds == config.fold;
      (held ? parts.test : kept).push_back(std::move(example));
    }
    parts.training = std::move(kept);
  }
  if (config.validation_share > 0.0 && parts.validation.empty()) {
    const auto kept =
        static_cast<std::ptrdiff_t>(static_cast<double>(parts.training.size()) * (1.0 - config.validation_share));
    parts.validation.assign(std::make_move_iterator(parts.training.begin() + kept),
                            std::make_move_iterator(parts.training.end()));
    parts.training.resize(static_cast<std::size_t>(kept));
  }
}

// Reads the parts of a config with `read(file, names of lists)`.
template <typename Example>
DataParts<Example> read_parts(
    const FineTuneConfig& config,
    const std::function<std::vector<Example>(const std::filesystem::path&, const std::string&)>& read,
    const std::function<std::int64_t(const Example&, std::int64_t)>& group = [](const Example&, std::int64_t index) {
      return index;
    }) {
  DataParts<Example> parts;
  parts.training = read(config.data, config.parts);
  if (!config.validation.empty() || !config.validation_parts.empty()) {
    parts.validation = read(config.validation.empty() ? config.data : config.validation, config.validation_parts);
  }
  if (!config.test.empty() || !config.test_parts.empty()) {
    parts.test = read(config.test.empty() ? config.data : config.test, config.test_parts);
  }
  hold_out(parts, config, group);
  check(!parts.training.empty(), config.data.string(), ": has no examples to train on");
  if (config.validate_texts > 0 && std::ssize(parts.validation) > config.validate_texts) {
    parts.validation.resize(static_cast<std::size_t>(config.validate_texts));
  }
  return parts;
}

}  // namespace headway::inline v0::internal
