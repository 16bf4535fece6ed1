// What tasks on lists of examples share, whatever an example is.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "training/data_parts.h"
#include "training/training_task.h"

namespace headway::inline v0::internal {

inline constexpr DataPart kAllParts[] = {DataPart::training, DataPart::validation, DataPart::test};

template <typename Example>
class PartsTask : public TrainingTask {
 public:
  PartsTask(const FineTuneConfig& config, DataParts<Example> parts) : config_(config), parts_(std::move(parts)) {}

  std::vector<std::string> texts() const override {
    std::vector<std::string> all;
    for (const Example& example : parts_.training) all.push_back(text_of(example));
    return all;
  }
  bool has(DataPart part) const override { return !examples_of(part).empty(); }
  std::string digest() const override {
    std::string text;
    for (const DataPart part : kAllParts) {
      for (const Example& example : examples_of(part)) text += text_of(example) + '\0' + target_text_of(example) + '\0';
    }
    return hexadecimal_digest(text);
  }
  std::string describe() const override {
    return count_text(std::ssize(parts_.training), std::ssize(parts_.validation), std::ssize(parts_.test), "texts");
  }
  std::int64_t batches_per_epoch() const override { return sets_.training_plan().batches_per_epoch(); }

 protected:
  // What is tokenized, and what is predicted as text.
  virtual std::string text_of(const Example& example) const = 0;
  virtual std::string target_text_of(const Example& example) const = 0;

  const FineTuneConfig& config() const { return config_; }
  const DataParts<Example>& parts() const { return parts_; }
  const std::vector<Example>& examples_of(DataPart part) const {
    return part == DataPart::training ? parts_.training : part == DataPart::test ? parts_.test : parts_.validation;
  }
  ExampleParts& sets() { return sets_; }
  const ExampleParts& sets() const { return sets_; }

 private:
  FineTuneConfig config_;
  DataParts<Example> parts_;
  ExampleParts sets_ = {};
};

}  // namespace headway::inline v0::internal
