#include "tasks/feature_generator.h"

#include <utility>

#include "base/check.h"
#include "models/model_front.h"
#include "tasks/generation_job.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kDefaultTokens = 256;  // where neither the options nor the config say

// One request's features, as a batch of one is checked.
void check_request(const char* function, std::size_t number, const FrontOptions& front, const Tensor& features,
                   std::int64_t most_positions) {
  check(features.defined(), function, ": input ", number, " has no features");
  check(features.rank() == (front.kind == FrontKind::sound ? 2 : 3), function, ": features of input ", number, " are ",
        features, ", expected ", front.kind == FrontKind::sound ? "[bins, frames]" : "[channels, height, width]");
  check_features(function, front, features.unsqueeze(0));
  const std::int64_t positions = front_positions(front, features.shape());
  check(most_positions == 0 || positions <= most_positions, function, ": features of input ", number, " are ", features,
        ", which makes ", positions, " positions, and the model has ", most_positions);
}

}  // namespace

FeatureGenerator::FeatureGenerator(TransformerModel model, std::optional<TextTokenizer> tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  const TransformerModelOptions& options = model_.options();
  check(options.kind == ModelKind::encoder_decoder && options.encoder.front.kind != FrontKind::tokens,
        "the model of family ", model_.family(), " does not make text of pictures or sound");
  decoder_ = std::make_shared<const StepDecoder>(model_);
  defaults_ = std::make_shared<const GenerationDefaults>(
      generation_defaults(options, model_.config(), model_.generation_config()));
}

std::vector<std::vector<GeneratedText>> FeatureGenerator::generate(const char* function,
                                                                   const std::vector<FeatureRequest>& requests,
                                                                   const GenerateOptions& options) const {
  if (requests.empty()) return {};
  const auto decoder = decoder_->is_current() ? decoder_ : std::make_shared<const StepDecoder>(model_);
  const DecoderWeights& weights = decoder->weights();
  const std::optional<std::int64_t> start = defaults_->decoder_start ? defaults_->decoder_start : defaults_->bos;
  GenerationInput job = {
      .function = function, .decoder = *decoder, .defaults = *defaults_, .tokenizer = tokenizer_, .options = options};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const FeatureRequest& given = requests[i];
    check_request(function, i, decoder->front(), given.features, weights.most_source);
    std::vector<std::int64_t> prompt = given.prompt;
    if (prompt.empty()) {
      check(start.has_value(), "config.json: there is no decoder_start_token_id");
      prompt = {*start};
    }
    check_ids(function, "the prompt of input", i, prompt, weights.vocab_size());
    const auto length = static_cast<std::int64_t>(prompt.size());
    check(weights.most_positions == 0 || length <= weights.most_positions, function, ": the prompt of input ", i,
          " has ", length, " tokens, and the model has ", weights.most_positions, " positions");
    job.requests.push_back(
        {.sequence = {.prompt = std::move(prompt), .features = &given.features, .number = static_cast<std::int64_t>(i)},
         .most_new_tokens = most_new_tokens(options, *defaults_, length, weights.most_positions, kDefaultTokens)});
  }
  return GenerationJob(job).run();
}

}  // namespace headway::inline v0::internal
