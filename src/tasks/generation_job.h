// One call of generate(): options, callbacks and results around generate_tokens().
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generate/generated.h"
#include "headway/text_generator.h"
#include "tasks/generation_defaults.h"
#include "tasks/text_stream.h"

namespace headway::inline v0::internal {

struct GenerationInput {
  const char* function = "";  // begins messages
  const StepDecoder& decoder;
  const GenerationDefaults& defaults;
  const std::optional<TextTokenizer>& tokenizer;
  const GenerateOptions& options;
  bool continues = false;  // texts go on after their prompts, which decide how they are spelt
  std::vector<SequenceRequest> requests = {};
};

class GenerationJob {
 public:
  explicit GenerationJob(const GenerationInput& input);

  // Texts of each request, in their order.
  std::vector<std::vector<GeneratedText>> run();

 private:
  using TextKey = std::pair<std::size_t, std::int64_t>;  // a request, and the number of one of its texts

  void check_callbacks() const;
  bool is_end(std::int64_t token) const;
  TextStream& stream_of(const TextKey& key);
  // One more token of a text; true where it ends here.
  bool add_token(const TextKey& key, std::int64_t token, double log_probability);
  void add_attention(const GenerationOptions::RowTexts& rows, const StepAttention& step);
  GeneratedText finish(const TextKey& key, Generated generated);

  const GenerationInput& input_;
  GenerationOptions options_;
  std::map<TextKey, TextStream> streams_;
  std::map<TextKey, std::vector<GeneratedAttention>> attentions_;
};

// Throws unless every id is one of the vocabulary's.
void check_ids(const char* function, const char* name, std::size_t number, const std::vector<std::int64_t>& ids,
               std::int64_t vocab_size);

// The attention of one row of a step.
GeneratedAttention attention_of_row(const StepAttention& step, std::int64_t row, std::int64_t position,
                                    std::int64_t source_length, Weights weights);

}  // namespace headway::inline v0::internal
