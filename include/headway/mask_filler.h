// Words for the masks in a text, by an encoder that was trained on masked words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/text_task.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

struct MaskWord {
  std::int64_t id = 0;
  std::string word;  // the token as text
  double score = 0.0;
  std::string text;  // the whole text with this word
};

struct FilledText {
  std::vector<std::vector<MaskWord>> masks;  // the best words of each mask, in the order of the text
  TextNotes notes;
};

struct FillOptions {
  std::int64_t most = 5;                  // words of each mask
  std::vector<std::string> targets = {};  // only these words; empty: the whole vocabulary
  std::int64_t batch_tokens = 0;          // tokens computed together; 0: as many as suit the device
};

// A model with a head for masked words. Members may be called from several threads at once.
class HEADWAY_API MaskFiller {
 public:
  explicit MaskFiller(const std::filesystem::path& directory, const TaskOptions& options = {});
  // The model must be in evaluation mode.
  MaskFiller(TransformerModel model, TextTokenizer tokenizer);

  // Each text holds at least one mask_token(); the others are errors.
  std::vector<FilledText> fill(const std::vector<std::string>& texts, const FillOptions& options = {}) const;

  // "[MASK]", "<mask>", ...
  const std::string& mask_token() const;
  std::int64_t max_length() const;
  const TransformerModel& model() const;
  const TextTokenizer& tokenizer() const;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace v0
}  // namespace headway
