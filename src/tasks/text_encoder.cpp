// TextEncoder: tokens, hidden states, pooled vectors.
#include "headway/text_encoder.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "core/thread_pool.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "tasks/packed_batches.h"
#include "tasks/sentence_modules.h"
#include "tasks/task_model.h"
#include "tasks/text_pooling.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// Texts that one thread pools at a time.
constexpr std::int64_t kPooledTexts = 16;

std::string lower_case_text(std::string_view text) {
  std::string lower;
  while (!text.empty()) {
    std::array<char32_t, 2> characters = {};
    const int count = lower_case(next_character(text), characters);
    for (int i = 0; i < count; ++i) append_utf8(lower, characters[static_cast<std::size_t>(i)]);
  }
  return lower;
}

}  // namespace
}  // namespace internal

struct TextEncoder::Parts {
  Parts(internal::TaskModel with_model, TextEncoderOptions with_options)
      : model(std::move(with_model)), options(std::move(with_options)) {
    internal::check(!options.pooling.empty(), model.who, ": pooling is empty, expected at least one");
    internal::check(options.max_length >= 0, model.who, ": max_length is ", options.max_length,
                    ", expected at least 1, or 0 for the model's");
    model.max_length = internal::smaller_limit(model.max_length, options.max_length);
    const TransformerModelOptions& shape = model.model.options();
    hidden_width = shape.kind == ModelKind::decoder ? shape.decoder.width : shape.encoder.width;
    width = hidden_width * static_cast<std::int64_t>(options.pooling.size());
    for (const TextDense& dense : options.dense) {
      internal::check(dense.weight.defined() && dense.weight.rank() == 2 && dense.weight.size(1) == width, model.who,
                      ": a dense layer's weight is ",
                      dense.weight.defined() ? dense.weight.describe() : std::string("undefined"),
                      ", expected a matrix for vectors of ", width);
      width = dense.weight.size(0);
    }
  }

  // What is put in front of texts.
  std::string prompt_of(const EmbedOptions& wanted) const;
  // Tokens of the prompt at the beginning of each text that are not pooled.
  std::int64_t skipped_tokens(const std::string& prompt) const;
  void pool(const internal::PackedBatch& batch, const ModelResult& result, std::int64_t skipped,
            const Tensor& pooled) const;
  // The dense layers, and the length of 1.
  Tensor finished(Tensor vectors, bool normalize) const;

  internal::TaskModel model;
  TextEncoderOptions options;
  std::int64_t hidden_width = 0;
  std::int64_t width = 0;
};

std::string TextEncoder::Parts::prompt_of(const EmbedOptions& wanted) const {
  if (wanted.prompt) return *wanted.prompt;
  const std::string name = wanted.prompt_name.value_or(options.default_prompt);
  if (name.empty()) return {};
  const auto found = options.prompts.find(name);
  std::string known;
  for (const auto& [other, text] : options.prompts) known += (known.empty() ? "" : ", ") + other;
  internal::check(found != options.prompts.end(), "there is no prompt \"", name, "\", ",
                  known.empty() ? "and the model has no prompts" : "expected one of " + known);
  return found->second;
}

std::int64_t TextEncoder::Parts::skipped_tokens(const std::string& prompt) const {
  if (options.include_prompt || prompt.empty()) return 0;
  const TokenizedText tokens =
      model.tokenizer.tokenize(options.lower_case ? internal::lower_case_text(prompt) : prompt);
  const bool ends_special = !tokens.sequence.empty() && tokens.sequence.back() < 0;
  return static_cast<std::int64_t>(tokens.ids.size()) - (ends_special ? 1 : 0);
}

void TextEncoder::Parts::pool(const internal::PackedBatch& batch, const ModelResult& result, std::int64_t skipped,
                              const Tensor& pooled) const {
  const Tensor hidden = internal::on_cpu(result.hidden);  // [1, total, width]
  const auto count = static_cast<std::int64_t>(batch.texts.size());
  const std::int64_t tasks = (count + internal::kPooledTexts - 1) / internal::kPooledTexts;
  internal::parallel_for(tasks, [&](std::int64_t task, int) {
    const std::int64_t end = std::min(count, (task + 1) * internal::kPooledTexts);
    for (auto i = static_cast<std::size_t>(task * internal::kPooledTexts); i < static_cast<std::size_t>(end); ++i) {
      float* const vector = pooled.data<float>() + static_cast<std::int64_t>(batch.texts[i]) * pooled.size(1);
      const internal::PooledTokens tokens = {.hidden = hidden.data<float>() + batch.starts[i] * hidden_width,
                                             .count = batch.starts[i + 1] - batch.starts[i],
                                             .width = hidden_width,
                                             .skipped = skipped};
      internal::pool_tokens(tokens, options.pooling, vector);
    }
  });
}

Tensor TextEncoder::Parts::finished(Tensor vectors, bool normalize) const {
  const NoGradGuard no_grad;
  for (const TextDense& dense : options.dense) {
    vectors = activate(linear(vectors, dense.weight, dense.bias), dense.activation);
  }
  if (!normalize) return vectors;
  const auto size = static_cast<std::size_t>(width);
  for (std::int64_t i = 0; i < vectors.size(0); ++i) {
    internal::normalize_vector({vectors.data<float>() + i * width, size});
  }
  return vectors;
}

TextEncoder::TextEncoder(const std::filesystem::path& directory, const TaskOptions& options) {
  internal::SentenceModules modules = {directory, {}};
  if (internal::has_sentence_modules(directory)) modules = internal::read_sentence_modules(directory);
  parts_ = std::make_shared<const Parts>(
      internal::TaskModel("TextEncoder", modules.transformer, options, HeadKind::none), std::move(modules.options));
}

TextEncoder::TextEncoder(TransformerModel model, TextTokenizer tokenizer, TextEncoderOptions options)
    : parts_(std::make_shared<const Parts>(internal::TaskModel("TextEncoder", std::move(model), std::move(tokenizer)),
                                           std::move(options))) {}

Tensor TextEncoder::embed(const std::vector<std::string>& texts, const EmbedOptions& options) const {
  const Parts& parts = *parts_;
  const std::string prompt = parts.prompt_of(options);
  std::vector<std::string> changed;  // texts with the prompt, in lower case, where that is wanted
  if (!prompt.empty() || parts.options.lower_case) {
    changed.reserve(texts.size());
    for (const std::string& text : texts) {
      changed.push_back(parts.options.lower_case ? internal::lower_case_text(prompt + text) : prompt + text);
    }
  }
  std::vector<TextNotes> notes;
  const std::vector<TokenizedText> tokens =
      internal::tokenize_all(parts.model, changed.empty() ? texts : changed, nullptr, notes);
  const std::int64_t skipped = parts.skipped_tokens(prompt);
  const auto poolings = static_cast<std::int64_t>(parts.options.pooling.size());
  const Tensor pooled = Tensor::empty({static_cast<std::int64_t>(texts.size()), poolings * parts.hidden_width});
  internal::for_each_batch(parts.model, tokens, options.batch_tokens,
                           [&](const internal::PackedBatch& batch, const ModelResult& result) {
                             parts.pool(batch, result, skipped, pooled);
                           });
  if (options.notes != nullptr) {
    for (std::size_t i = 0; i < texts.size(); ++i) notes[i].invalid_utf8 = !internal::is_utf8(texts[i]);
    *options.notes = std::move(notes);
  }
  return parts.finished(pooled, options.normalize.value_or(parts.options.normalize));
}

std::int64_t TextEncoder::width() const { return parts_->width; }
std::int64_t TextEncoder::max_length() const { return parts_->model.max_length; }
const TransformerModel& TextEncoder::model() const { return parts_->model.model; }
const TextTokenizer& TextEncoder::tokenizer() const { return parts_->model.tokenizer; }
const TextEncoderOptions& TextEncoder::options() const { return parts_->options; }

void TextEncoder::save(const std::filesystem::path& directory) const {
  model().save(directory);
  tokenizer().save(directory);
  internal::write_sentence_modules(directory, options(), parts_->hidden_width);
}

}  // namespace headway::inline v0
