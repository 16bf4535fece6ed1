// TextGenerator: prompts to ids, generation, and back.
#include "headway/text_generator.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "headway/autograd.h"
#include "nn/evaluation_guard.h"
#include "tasks/generation_job.h"

namespace headway::inline v0 {

using internal::check;

namespace internal {

struct KeptPrompt {
  std::vector<std::int64_t> tokens;
  KeptTokens kept;
  std::shared_ptr<const StepDecoder> decoder;  // that made them
};

}  // namespace internal

namespace {

constexpr const char* kGenerate = "generate";
constexpr std::int64_t kDefaultTokens = 256;  // where neither the options nor the config say

TransformerModel loaded(const std::filesystem::path& directory, const TaskOptions& options) {
  return TransformerModel::load(directory, {.dtype = options.dtype, .device = options.device});
}

std::optional<TextTokenizer> tokenizer_in(const std::filesystem::path& directory) {
  if (!TextTokenizer::is_in(directory)) return {};
  return TextTokenizer::load(directory);
}

void check_decoder(const TransformerModel& model) {
  check(model.options().kind == ModelKind::decoder, "the model of family ", model.family(),
        " is not a decoder alone; encoder-decoders are run by TextToText");
}

}  // namespace

const std::vector<std::int64_t>& PromptCache::tokens() const { return kept_->tokens; }

TextGenerator::TextGenerator(const std::filesystem::path& directory, const TaskOptions& options)
    : TextGenerator(loaded(directory, options), tokenizer_in(directory)) {}

TextGenerator::TextGenerator(TransformerModel model, std::optional<TextTokenizer> tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  check_decoder(model_);
  decoder_ = std::make_shared<const internal::StepDecoder>(model_);
  defaults_ = std::make_shared<const internal::GenerationDefaults>(
      internal::generation_defaults(model_.options(), model_.config(), model_.generation_config()));
}

std::vector<std::int64_t> TextGenerator::encode(std::string_view prompt) const {
  check(tokenizer_.has_value(), "the model has no tokenizer, expected token ids");
  std::vector<std::int64_t> ids = tokenizer_->encode(prompt);
  const std::optional<std::int64_t> first = defaults_->bos ? defaults_->bos : tokenizer_->bos_id();
  if (ids.empty() && first) ids.push_back(*first);
  check(!ids.empty(), kGenerate, ": the prompt is empty, and the model has no token that begins a text");
  return ids;
}

GeneratedText TextGenerator::generate(std::string_view prompt, const GenerateOptions& options) const {
  return generate(std::vector<std::string>{std::string(prompt)}, options).front().front();
}

std::vector<std::vector<GeneratedText>> TextGenerator::generate(const std::vector<std::string>& prompts,
                                                                const GenerateOptions& options) const {
  std::vector<std::vector<std::int64_t>> ids;
  for (const std::string& prompt : prompts) {
    if (options.prefix) {
      check(tokenizer_.has_value(), "the model has no tokenizer, expected token ids");
      ids.push_back(tokenizer_->encode(prompt, /*special_tokens=*/false));
    } else {
      ids.push_back(encode(prompt));
    }
  }
  return generate(ids, options);
}

GeneratedText TextGenerator::generate(const std::vector<std::int64_t>& prompt, const GenerateOptions& options) const {
  return generate(std::vector<std::vector<std::int64_t>>{prompt}, options).front().front();
}

std::vector<std::vector<GeneratedText>> TextGenerator::generate(const std::vector<std::vector<std::int64_t>>& prompts,
                                                                const GenerateOptions& options) const {
  const auto decoder = decoder_->is_current() ? decoder_ : std::make_shared<const internal::StepDecoder>(model_);
  internal::GenerationInput job = {.function = kGenerate,
                                   .decoder = *decoder,
                                   .defaults = *defaults_,
                                   .tokenizer = tokenizer_,
                                   .options = options,
                                   .continues = true};
  const std::int64_t most_positions = decoder->weights().most_positions;
  internal::KeptTokens kept;
  if (options.prefix) {
    const internal::KeptPrompt& prefix = *options.prefix->kept_;
    check(prefix.decoder == decoder, kGenerate, ": the prefix was read by another model, or before this one changed");
    kept = prefix.kept;
  }
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    internal::SequenceRequest& request = job.requests.emplace_back();
    std::vector<std::int64_t>& tokens = request.sequence.prompt;
    if (options.prefix) {
      tokens = options.prefix->tokens();
      // The last token of all is read again, since what follows it is wanted.
      request.sequence.kept = &kept;
    }
    tokens.insert(tokens.end(), prompts[i].begin(), prompts[i].end());
    const auto length = static_cast<std::int64_t>(tokens.size());
    check(length > 0, kGenerate, ": prompt ", i, " has no tokens");
    check(most_positions == 0 || length <= most_positions, kGenerate, ": prompt ", i, " has ", length,
          " tokens, and the model has ", most_positions, " positions");
    internal::check_ids(kGenerate, "prompt", i, tokens, decoder->weights().vocab_size());
    request.sequence.number = static_cast<std::int64_t>(i);
    request.most_new_tokens = internal::most_new_tokens(options, *defaults_, length, most_positions, kDefaultTokens);
  }
  if (options.prefix && std::any_of(prompts.begin(), prompts.end(), [](const auto& ids) { return ids.empty(); })) {
    for (Tensor& layer : kept) layer = layer.slice(0, 0, layer.size(0) - 1);
  }
  return internal::GenerationJob(job).run();
}

PromptCache TextGenerator::read_prompt(std::string_view prompt) const { return read_prompt(encode(prompt)); }

PromptCache TextGenerator::read_prompt(const std::vector<std::int64_t>& prompt) const {
  constexpr const char* kName = "read_prompt";
  check(!prompt.empty(), kName, ": the prompt has no tokens");
  internal::check_ids(kName, "prompt", 0, prompt, decoder_->weights().vocab_size());
  const auto length = static_cast<std::int64_t>(prompt.size());
  const std::int64_t most = decoder_->weights().most_positions;
  check(most == 0 || length <= most, kName, ": the prompt has ", length, " tokens, and the model has ", most,
        " positions");
  const NoGradGuard guard;
  const internal::EvaluationGuard evaluation(model_);
  auto kept = std::make_shared<internal::KeptPrompt>();
  kept->tokens = prompt;
  kept->decoder = decoder_->is_current() ? decoder_ : std::make_shared<const internal::StepDecoder>(model_);
  internal::DecodingBatch batch(*kept->decoder, {{.prompt = prompt}}, {.most_tokens = length});
  batch.step_to_logits();
  kept->kept = batch.keep_tokens(0, length);
  return PromptCache(kept);
}

TextScore TextGenerator::score(std::string_view text, const ScoreOptions& options) const {
  return score(encode(text), options);
}

TextScore TextGenerator::score(const std::vector<std::int64_t>& tokens, const ScoreOptions& options) const {
  constexpr const char* kName = "score";
  constexpr std::int64_t kMostWindow = 4096;
  constexpr std::int64_t kRows = 128;  // whose logits are computed together
  const std::int64_t most = decoder_->weights().most_positions;
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::int64_t window = options.window > 0 ? options.window
                              : most > 0         ? std::min(most, kMostWindow)
                                                 : kMostWindow;
  check(window >= 2 && (most == 0 || window <= most), kName, ": window is ", window, ", expected 2 to ",
        most > 0 ? most : window);
  const std::int64_t stride = options.stride > 0 ? options.stride : std::max<std::int64_t>(1, window / 2);
  check(stride < window, kName, ": stride is ", stride, ", expected less than the window, ", window);
  check(count >= 2, kName, ": the text has ", count, " tokens, expected two or more");
  internal::check_ids(kName, "text", 0, tokens, decoder_->weights().vocab_size());
  const NoGradGuard guard;
  const internal::EvaluationGuard evaluation(model_);
  TextScore result = {.tokens = tokens};
  for (std::int64_t begin = 0, done = 1; done < count; begin += stride) {
    const std::int64_t end = std::min(begin + window, count);
    const Tensor ids = Tensor::from(tokens.data() + begin, {1, end - begin});
    const Tensor hidden = model_.forward({.tokens = ids, .last_only = true}).hidden.select(0, 0);
    // The row of token t - 1 predicts token t.
    for (std::int64_t t = done; t < end; t += kRows) {
      const std::int64_t last = std::min(t + kRows, end);
      const Tensor logits = model_.logits_of(hidden.slice(0, t - 1 - begin, last - 1 - begin));
      const Tensor targets = Tensor::from(tokens.data() + t, {last - t});
      for (const double loss : cross_entropy(logits, targets, {.reduction = Reduction::none}).to_vector()) {
        result.log_probabilities.push_back(-loss);
        result.log_probability -= loss;
      }
    }
    done = end;
  }
  result.perplexity = std::exp(-result.log_probability / static_cast<double>(count - 1));
  return result;
}

GeneratedAttention TextGenerator::attention(const std::vector<std::int64_t>& tokens, std::int64_t position,
                                            Weights weights) const {
  constexpr const char* kName = "attention";
  check(position >= 0 && position < static_cast<std::int64_t>(tokens.size()), kName, ": position is ", position,
        ", expected 0 to ", static_cast<std::int64_t>(tokens.size()) - 1);
  check(weights != Weights::none, kName, ": weights is none, expected per_head or mean");
  internal::check_ids(kName, "text", 0, tokens, decoder_->weights().vocab_size());
  const NoGradGuard guard;
  const internal::EvaluationGuard evaluation(model_);
  const auto decoder = decoder_->is_current() ? decoder_ : std::make_shared<const internal::StepDecoder>(model_);
  internal::DecodingBatch batch(*decoder, {{.prompt = {tokens.begin(), tokens.begin() + position + 1}}},
                                {.most_tokens = position + 1});
  internal::StepAttention step;
  batch.step_to_logits(step);
  return internal::attention_of_row(step, 0, position, 0, weights);
}

}  // namespace headway::inline v0
