#include "tasks/task_model.h"

#include <algorithm>

#include "base/check.h"
#include "base/cut_text.h"
#include "base/utf8.h"

namespace headway::inline v0 {
namespace internal {
namespace {

const StackOptions& reading_stack(const TransformerModelOptions& options) {
  return options.kind == ModelKind::decoder ? options.decoder : options.encoder;
}

// The token that stands for a text that has none.
std::int64_t token_of_nothing(const TransformerModelOptions& options) {
  if (!options.eos_ids.empty()) return options.eos_ids.front();
  return options.bos_id.value_or(options.pad_id.value_or(0));
}

}  // namespace

TaskModel::TaskModel(const char* who_is, const std::filesystem::path& directory, const TaskOptions& options,
                     std::optional<HeadKind> head)
    : TaskModel(who_is,
                TransformerModel::load(directory, {.dtype = options.dtype, .device = options.device, .new_head = head}),
                TextTokenizer::load(directory)) {}

TaskModel::TaskModel(const char* who_is, TransformerModel with_model, TextTokenizer with_tokenizer)
    : who(who_is), model(std::move(with_model)), tokenizer(std::move(with_tokenizer)) {
  const std::vector<Tensor> parameters = model.parameters();
  if (!parameters.empty()) device = parameters.front().device();
  has_8_bits = std::any_of(parameters.begin(), parameters.end(),
                           [](const Tensor& parameter) { return parameter.dtype() == DType::int8; });
  max_length =
      smaller_limit(reading_stack(model.options()).max_positions, tokenizer.max_length().value_or(std::int64_t{0}));
}

void TaskModel::check_head(HeadKind head, const char* expected) const {
  check(model.options().head.kind == head, "the ", model.family(),
        " model has another head or none, expected an architecture that ends in ", expected);
}

void TaskModel::check_ids(const TokenizedText& text) const {
  const std::int64_t size = model.options().vocab_size;
  for (const std::int64_t id : text.ids) {
    check(id >= 0 && id < size, "the tokenizer gives id ", id, " (\"", tokenizer.token(id),
          "\"), and the model's vocabulary has ", size, " tokens: the tokenizer is of another model");
  }
}

TokenizedText TaskModel::tokenize(std::string_view text, const std::string* second, TextNotes& notes) const {
  const auto tokens_of = [&](const TokenizeOptions& options) {
    return second == nullptr
               ? tokenizer.tokenize(beginning_of(text, max_length), options)
               : tokenizer.tokenize(beginning_of(text, max_length), beginning_of(*second, max_length), options);
  };
  TokenizedText tokens = tokens_of({});
  const auto count = static_cast<std::int64_t>(tokens.ids.size());
  if (max_length > 0 && count > max_length) {
    tokens = tokens_of({.max_length = max_length});
    notes.tokens_left_out = count - static_cast<std::int64_t>(tokens.ids.size());
  }
  notes.invalid_utf8 = tokens.invalid_utf8;
  notes.empty = std::all_of(tokens.sequence.begin(), tokens.sequence.end(), [](std::int64_t of) { return of < 0; });
  if (tokens.ids.empty()) {
    tokens.ids = {token_of_nothing(model.options())};
    tokens.type_ids = {0};
    tokens.offsets = {{}};
    tokens.sequence = {-1};
    tokens.words = {-1};
  }
  check_ids(tokens);
  return tokens;
}

std::string_view beginning_of(std::string_view text, std::int64_t max_length) {
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  return max_length > 0 ? text.substr(0, cut_place(text, kLongest)) : text;
}

std::vector<std::string> label_names(const TransformerModelOptions& options) {
  std::vector<std::string> names = options.labels;
  while (static_cast<std::int64_t>(names.size()) < options.head.labels) {
    names.push_back("LABEL_" + std::to_string(names.size()));
  }
  return names;
}

}  // namespace internal

std::string TextNotes::describe() const {
  std::string text;
  const auto add = [&text](const std::string& note) { text += (text.empty() ? "" : "; ") + note; };
  if (empty) add("the text is empty");
  if (invalid_utf8) add("the text is not UTF-8; what is not was replaced by U+FFFD");
  if (tokens_left_out > 0) {
    add(std::to_string(tokens_left_out) + (tokens_left_out == 1 ? " token" : " tokens") +
        " at the end were left out: the text is longer than the model reads");
  }
  return text;
}

}  // namespace headway::inline v0
