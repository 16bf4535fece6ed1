// What tasks share.
#include "training/training_task.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "base/sha256.h"
#include "training/tasks.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kUsualLength = 512;        // the most tokens of a text where the config does not say
constexpr std::int64_t kEvaluationTokens = 8192;  // of a batch in an evaluation

}  // namespace

std::unique_ptr<TrainingTask> TrainingTask::make(const FineTuneConfig& config) {
  switch (config.task) {
    case FineTuneTask::classify:
      return make_classify_task(config);
    case FineTuneTask::tag:
      return make_tag_task(config);
    case FineTuneTask::answer:
      return make_answer_task(config);
    case FineTuneTask::language_model:
      return make_language_model_task(config);
    case FineTuneTask::text_to_text:
      return make_text_to_text_task(config);
    case FineTuneTask::masked_words:
      return make_masked_words_task(config);
  }
  fail("task has no name");
}

std::string TrainingTask::finish(const TransformerModel& /*model*/, StateDict& /*weights*/) const { return {}; }

std::int64_t longest_text(const FineTuneConfig& config, const StackOptions& stack) {
  const std::int64_t positions = stack.max_positions;
  if (config.max_length == 0) return positions > 0 ? std::min(positions, kUsualLength) : kUsualLength;
  check(positions == 0 || config.max_length <= positions, "max_length is ", config.max_length, ", and the model has ",
        positions, " positions");
  return config.max_length;
}

std::int64_t padding_of(const TransformerModelOptions& options) { return options.pad_id.value_or(0); }

Device device_of(const TransformerModel& model) { return model.parameters().front().device(); }

std::string count_text(std::int64_t training, std::int64_t validation, std::int64_t test, const std::string& noun) {
  std::string text = std::to_string(training) + " " + noun + " for training";
  if (validation > 0) text += ", " + std::to_string(validation) + " for validation";
  if (test > 0) text += ", " + std::to_string(test) + " for test";
  return text;
}

std::string hexadecimal_digest(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (const char byte : sha256(text)) {
    digits += kDigits[static_cast<unsigned char>(byte) >> 4];
    digits += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return digits;
}

ModelInput TokenRows::input() const {
  ModelInput all;
  all.tokens = tokens;
  all.lengths = lengths;
  all.token_types = types;
  return all;
}

TokenRows make_rows(const ExampleSet& examples, std::span<const std::int32_t> members, std::int64_t pad_id,
                    Device device) {
  const std::int64_t rows = std::ssize(members);
  std::int64_t length = 0;
  for (const std::int32_t member : members) length = std::max(length, std::ssize(examples.source(member)));
  TokenRows batch;
  batch.tokens = Tensor::full({rows, length}, static_cast<double>(pad_id), DType::int64);
  auto* const tokens = batch.tokens.data<std::int64_t>();  // [rows, length]
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto source = examples.source(members[static_cast<std::size_t>(row)]);
    std::copy(source.begin(), source.end(), tokens + row * length);
    batch.lengths.push_back(std::ssize(source));
    batch.count += std::ssize(source);
  }
  batch.tokens = batch.tokens.to(device);
  return batch;
}

void ExampleParts::plan(const FineTuneConfig& config) {
  const BatchSize size{.tokens = config.batch_tokens, .texts = config.batch_tokens > 0 ? 0 : config.batch};
  plan_.emplace(of(DataPart::training), size, config.seed);
}

BatchPlan ExampleParts::evaluation_plan(DataPart part) const { return BatchPlan(of(part), kEvaluationTokens, 0); }

}  // namespace headway::inline v0::internal
