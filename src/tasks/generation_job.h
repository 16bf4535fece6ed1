// One call of generate(): options, callbacks and results around generate_tokens().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generate/generated.h"
#include "headway/text_generator.h"
#include "tasks/generation_defaults.h"
#include "tasks/text_stream.h"

namespace headway::inline v0::internal {

struct GenerationJob {
  const char* function = "";  // begins messages
  const StepDecoder& decoder;
  const GenerationDefaults& defaults;
  const std::optional<TextTokenizer>& tokenizer;
  const GenerateOptions& options;
  std::vector<SequenceRequest> requests = {};
  bool continues = false;  // texts go on after their prompts, which decide how they are spelt

  // Texts of each request, in their order.
  std::vector<std::vector<GeneratedText>> run();

 private:
  void check_callbacks(const GenerationOptions& resolved) const;
  GeneratedText finished(const SequenceRequest& request, Generated&& generated, TextStream* stream) const;
};

// Throws unless every id is one of the vocabulary's.
void check_ids(const char* function, const char* name, std::size_t number, const std::vector<std::int64_t>& ids,
               std::int64_t vocab_size);

// The attention of one row of a step.
GeneratedAttention attention_of_row(const StepAttention& step, std::int64_t row, std::int64_t position,
                                    std::int64_t source_length, Weights weights);

}  // namespace headway::inline v0::internal
