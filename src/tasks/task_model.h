// A model with its tokenizer, as tasks use them: texts to tokens, checked and cut to the model's length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/internal_api.h"
#include "headway/text_task.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"

namespace headway::inline v0::internal {

struct TaskModel {
  // `who` begins messages: "TextClassifier". `head` replaces the head of the files where it is given.
  TaskModel(const char* who, const std::filesystem::path& directory, const TaskOptions& options,
            std::optional<HeadKind> head = {});
  TaskModel(const char* who, TransformerModel model, TextTokenizer tokenizer);

  // Throws unless the model has such a head; `expected` is the ending of its architecture: "ForQuestionAnswering".
  void check_head(HeadKind head, const char* expected) const;
  // Throws unless every id is one of the model's vocabulary.
  void check_ids(const TokenizedText& text) const;
  // The tokens of a text, or of a pair where `second` is given, cut to max_length; never none, since a text without a
  // token is read as the model's end.
  TokenizedText tokenize(std::string_view text, const std::string* second, TextNotes& notes) const;

  const char* who;
  TransformerModel model;
  TextTokenizer tokenizer;
  Device device;
  bool has_8_bits = false;      // in its weights
  std::int64_t max_length = 0;  // the most tokens of a text; 0: no limit
};

// The smaller of two limits of which 0 means none.
inline std::int64_t smaller_limit(std::int64_t a, std::int64_t b) { return a == 0 || b == 0 ? a + b : a < b ? a : b; }

// What is tokenized for a model that reads `max_length` tokens: the first MiB, which is far more. The rest would take a
// hundred bytes of memory for each byte. All of the text where max_length is 0, no limit.
std::string_view beginning_of(std::string_view text, std::int64_t max_length);

// "labels" of a model with `count` classes: those of the config, else LABEL_0, LABEL_1, ...
HEADWAY_INTERNAL_API std::vector<std::string> label_names(const TransformerModelOptions& options);

}  // namespace headway::inline v0::internal
