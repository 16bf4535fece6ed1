// TextToText: texts to ids, generation from the encoder's memory, and back.
#include "headway/text_to_text.h"

#include <utility>

#include "base/check.h"
#include "tasks/generation_job.h"
#include "tasks/task_model.h"

namespace headway::inline v0 {

using internal::check;

namespace {

constexpr const char* kRun = "run";
constexpr std::int64_t kDefaultTargetTokens = 256;  // where neither the options nor the config say

}  // namespace

TextToText::TextToText(const std::filesystem::path& directory, const TaskOptions& options)
    : TextToText(TransformerModel::load(directory, {.dtype = options.dtype, .device = options.device}),
                 TextTokenizer::is_in(directory) ? std::optional(TextTokenizer::load(directory)) : std::nullopt) {}

TextToText::TextToText(TransformerModel model, std::optional<TextTokenizer> tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  check(model_.options().kind == ModelKind::encoder_decoder, "the model of family ", model_.family(),
        " is not an encoder-decoder; decoders alone are run by TextGenerator");
  check(model_.options().encoder.front.kind == FrontKind::tokens, "the model of family ", model_.family(),
        " reads features of pictures or sound, which TextToText has none of");
  decoder_ = std::make_shared<const internal::StepDecoder>(model_);
  defaults_ = std::make_shared<const internal::GenerationDefaults>(
      internal::generation_defaults(model_.options(), model_.config(), model_.generation_config()));
}

TextToTextResult TextToText::run(std::string_view text, const TextToTextOptions& options) const {
  return run(std::vector<std::string>{std::string(text)}, options).front();
}

std::vector<TextToTextResult> TextToText::run(const std::vector<std::string>& texts,
                                              const TextToTextOptions& options) const {
  check(tokenizer_.has_value(), "the model has no tokenizer, expected token ids");
  const std::int64_t most =
      internal::smaller_limit(decoder_->weights().most_source, tokenizer_->max_length().value_or(0));
  std::vector<std::vector<std::int64_t>> sources;
  std::vector<bool> truncated;
  for (const std::string& text : texts) {
    const std::string whole = options.prefix + text;
    const std::string_view read = options.truncate ? internal::beginning_of(whole, most) : std::string_view(whole);
    sources.push_back(tokenizer_->encode(read));
    const bool is_long = most > 0 && static_cast<std::int64_t>(sources.back().size()) > most;
    truncated.push_back((is_long || read.size() < whole.size()) && options.truncate);
    if (is_long && options.truncate) sources.back() = tokenizer_->tokenize(read, {.max_length = most}).ids;
  }
  std::vector<TextToTextResult> results = run(sources, options);
  for (std::size_t i = 0; i < results.size(); ++i) results[i].truncated = truncated[i];
  return results;
}

std::vector<TextToTextResult> TextToText::run(const std::vector<std::vector<std::int64_t>>& sources,
                                              const TextToTextOptions& options) const {
  const auto decoder = decoder_->is_current() ? decoder_ : std::make_shared<const internal::StepDecoder>(model_);
  const internal::DecoderWeights& weights = decoder->weights();
  internal::GenerationDefaults defaults = *defaults_;
  if (options.first_token) defaults.forced_first = options.first_token;
  const std::optional<std::int64_t> start = defaults.decoder_start ? defaults.decoder_start : defaults.bos;
  check(start.has_value(), "config.json: there is no decoder_start_token_id");
  internal::check_ids("config.json", "decoder_start_token_id", 0, {*start}, weights.vocab_size());
  internal::GenerationInput job = {.function = kRun,
                                   .decoder = *decoder,
                                   .defaults = defaults,
                                   .tokenizer = tokenizer_,
                                   .options = options.generate};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto length = static_cast<std::int64_t>(sources[i].size());
    check(length > 0, kRun, ": text ", i, " has no tokens");
    check(weights.most_source == 0 || length <= weights.most_source, kRun, ": text ", i, " has ", length,
          " tokens, and the model has ", weights.most_source, " positions");
    internal::check_ids(kRun, "text", i, sources[i], weights.vocab_size());
    job.requests.push_back(
        {.sequence = {.prompt = {*start}, .source = &sources[i], .number = static_cast<std::int64_t>(i)},
         .most_new_tokens =
             internal::most_new_tokens(options.generate, defaults, 1, weights.most_positions, kDefaultTargetTokens)});
  }
  std::vector<TextToTextResult> results;
  for (std::vector<GeneratedText>& texts : internal::GenerationJob(job).run())
    results.push_back({.best = std::move(texts)});
  return results;
}

}  // namespace headway::inline v0
