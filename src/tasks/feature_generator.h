// Text from features: what transcribing sounds and describing pictures have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/internal_api.h"
#include "generate/step_decoder.h"
#include "headway/text_generator.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"
#include "tasks/generation_defaults.h"

namespace headway::inline v0::internal {

// One picture or one sound.
struct FeatureRequest {
  Tensor features = {};  // floating: [channels, height, width] of the model's size, or [bins, frames], also short ones
  // The decoder's first tokens, as Whisper's <|startoftranscript|><|en|><|transcribe|>; they are not in the result.
  // Empty: decoder_start_token_id of the model, or its bos token.
  std::vector<std::int64_t> prompt = {};
};

// An encoder-decoder that reads features (StackOptions::front), prepared for generation on the device of its
// parameters. Members may be called from several threads at once. Copying shares the model.
//
//   FeatureGenerator generator(TransformerModel::load(directory), TextTokenizer::load(directory));
//   GeneratedText text = generator.generate("transcribe", {{.features = log_mel(samples)}}, {.beams = 5})[0][0];
class FeatureGenerator {
 public:
  // Throws where the model is no encoder-decoder of features. Without a tokenizer, results have tokens and no text.
  HEADWAY_INTERNAL_API explicit FeatureGenerator(TransformerModel model, std::optional<TextTokenizer> tokenizer = {});

  // num_return texts for each request, the best first. `function` begins the messages. Greedy search, beams, drawn
  // tokens, stop texts and callbacks are as in TextGenerator; with options.weights, GeneratedText::attention has, for
  // each step, the cross-attention of every layer to the positions of the request's own features.
  // GenerateOptions::prefix is not used.
  HEADWAY_INTERNAL_API std::vector<std::vector<GeneratedText>> generate(const char* function,
                                                                        const std::vector<FeatureRequest>& requests,
                                                                        const GenerateOptions& options = {}) const;

  const TransformerModel& model() const { return model_; }
  const std::optional<TextTokenizer>& tokenizer() const { return tokenizer_; }
  // The positions that the encoder has for features, without those that no model has.
  std::int64_t positions_of(const Tensor& features) const {
    return front_positions(model_.options().encoder.front, features.shape());
  }

 private:
  TransformerModel model_;
  std::optional<TextTokenizer> tokenizer_;
  std::shared_ptr<const StepDecoder> decoder_;
  std::shared_ptr<const GenerationDefaults> defaults_;
};

}  // namespace headway::inline v0::internal
