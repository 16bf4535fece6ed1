// Labels of the tokens of a text, as names of persons and places, joined into spans.
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

// How tokens become spans. From `simple` on, neighbours with one label form a span, and B- begins a new one; from
// `first` on, the tokens of a word agree on a label first.
enum class TagAggregation {
  none,     // each token by itself, with the prefix of its label
  simple,   // tokens
  first,    // a word has the label of its first token
  average,  // a word has the best label of the mean of its tokens' scores
  max,      // a word has the label of its token with the largest score
};

struct TaggedSpan {
  std::string label;  // without B- and I- where tokens are joined
  double score = 0.0;
  std::int64_t begin = 0, end = 0;  // bytes [begin, end) of the text
  std::string text;                 // those bytes
};

struct TaggedText {
  std::vector<TaggedSpan> spans;  // in the order of the text
  TextNotes notes;
};

struct TagOptions {
  TagAggregation aggregation = TagAggregation::simple;
  std::vector<std::string> ignored = {"O"};  // labels of no interest
  std::int64_t stride = 64;                  // tokens that neighbouring windows of a long text share
  std::int64_t batch_tokens = 0;             // tokens computed together; 0: as many as suit the device
};

// A model with a head for each token. Members may be called from several threads at once.
class HEADWAY_API TokenTagger {
 public:
  explicit TokenTagger(const std::filesystem::path& directory, const TaskOptions& options = {});
  // The model must be in evaluation mode.
  TokenTagger(TransformerModel model, TextTokenizer tokenizer);

  // The spans of each text, in the order of the texts. A text that is longer than the model's positions is read in
  // overlapping windows; a token's label comes from the window in which it has the most context.
  std::vector<TaggedText> tag(const std::vector<std::string>& texts, const TagOptions& options = {}) const;

  const std::vector<std::string>& labels() const;
  std::int64_t max_length() const;
  const TransformerModel& model() const;
  const TextTokenizer& tokenizer() const;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace v0
}  // namespace headway
