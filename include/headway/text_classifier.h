// Texts, or pairs of texts, to labels with scores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/tensor.h"
#include "headway/text_task.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

// How logits become scores.
enum class LabelScores {
  softmax,  // one label of several: scores sum to 1
  sigmoid,  // each label by itself
  logits,   // as they are: regression
};

struct LabelScore {
  std::int64_t id = 0;
  std::string label;
  double score = 0.0;
};

struct Classification {
  std::vector<LabelScore> labels;  // the best first
  TextNotes notes;

  const std::string& label() const { return labels.front().label; }
  double score() const { return labels.front().score; }
};

struct ClassifyOptions {
  std::int64_t most = 0;                   // labels of each text; 0: all
  std::optional<LabelScores> scores = {};  // default: by problem_type of the config, as transformers has it
  std::int64_t batch_tokens = 0;           // tokens computed together; 0: as many as suit the device
};

// A model with a classification head. Members may be called from several threads at once.
class HEADWAY_API TextClassifier {
 public:
  explicit TextClassifier(const std::filesystem::path& directory, const TaskOptions& options = {});
  // The model must be in evaluation mode.
  TextClassifier(TransformerModel model, TextTokenizer tokenizer);

  // The labels of each text, in the order of the texts, computed in packed batches.
  std::vector<Classification> classify(const std::vector<std::string>& texts,
                                       const ClassifyOptions& options = {}) const;
  // The labels of each pair (first[i], second[i]), as of a premise and a hypothesis.
  std::vector<Classification> classify_pairs(const std::vector<std::string>& first,
                                             const std::vector<std::string>& second,
                                             const ClassifyOptions& options = {}) const;
  // The logits of each text: float32 [texts, labels] on the CPU.
  Tensor logits(const std::vector<std::string>& texts, std::int64_t batch_tokens = 0) const;

  const std::vector<std::string>& labels() const;
  // What scores are where the options do not say.
  LabelScores scores() const;
  std::int64_t max_length() const;
  const TransformerModel& model() const;
  const TextTokenizer& tokenizer() const;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace v0
}  // namespace headway
