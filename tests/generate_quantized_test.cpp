// Steps of decoding with weights in 8 bits beside the modules: decoders, encoder-decoders, prompts, beams.
#include <gtest/gtest.h>

#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "headway/text_generator.h"
#include "headway/text_to_text.h"
#include "headway/translator.h"
#include "support/files.h"
#include "support/small_families.h"

namespace {

using headway::DType;
using headway::Tensor;
using headway::TextGenerator;
using headway::TextToText;
using headway::TransformerModel;
using headway_test::TemporaryDirectory;
using Ids = std::vector<std::int64_t>;

// A model whose weights are large enough for tokens to differ.
TransformerModel quantized_model(const headway_test::SmallFamily& family) {
  const TemporaryDirectory directory;
  headway::set_random_seed(8);
  const TransformerModel model = TransformerModel::from_config(family.config());
  {
    const headway::NoGradGuard guard;
    for (const auto& [name, tensor] : model.named_parameters()) {
      if (tensor.rank() == 2) Tensor(tensor).copy_from(Tensor::randn(tensor.shape(), headway::next_random_seed()));
    }
  }
  model.save(directory.path());
  return TransformerModel::load(directory.path(), {.dtype = DType::int8});
}

Tensor row_of(const Ids& ids) { return Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())}); }

// The log-probabilities that the modules give to what was written. Rows of activations are rounded to 8 bits, so that
// differences of one rounding in a norm grow to those of such a step.
void expect_followed(const TransformerModel& model, const headway::GeneratedText& found, const Ids& prompt,
                     const Ids& source) {
  const headway::NoGradGuard guard;
  Ids all = prompt;
  all.insert(all.end(), found.tokens.begin(), found.tokens.end());
  headway::ModelInput input = {.tokens = row_of(source.empty() ? all : source)};
  if (!source.empty()) input.target = row_of(all);
  const Tensor logits = log_softmax(model.forward(input).logits.select(0, 0));
  for (std::size_t i = 0; i < found.tokens.size(); ++i) {
    const auto row = static_cast<std::int64_t>(prompt.size() + i) - 1;
    EXPECT_NEAR(found.log_probabilities[i], logits.at({row, found.tokens[i]}), 0.05) << i;
    EXPECT_GE(logits.at({row, found.tokens[i]}), max(logits.select(0, row)).item() - 0.05) << i;
  }
}

TEST(QuantizedSteps, DecodersFollowTheirModules) {
  for (const headway_test::SmallFamily& family : headway_test::small_families()) {
    if (family.is_encoder() || family.is_encoder_decoder()) continue;
    SCOPED_TRACE(family.name);
    const TransformerModel model = quantized_model(family);
    const std::vector<Ids> prompts = {{5, 6, 7, 8, 9}, {10}, {3, 4}};
    const auto found = TextGenerator(model).generate(prompts, {.max_new_tokens = 8, .ignore_end = true});
    for (std::size_t i = 0; i < prompts.size(); ++i) expect_followed(model, found[i].front(), prompts[i], {});
  }
}

TEST(QuantizedSteps, EncoderDecodersFollowTheirModules) {
  for (const headway_test::SmallFamily& family : headway_test::small_families()) {
    if (!family.is_encoder_decoder()) continue;
    SCOPED_TRACE(family.name);
    const TransformerModel model = quantized_model(family);
    const std::vector<Ids> sources = {{5, 6, 7, 8, 9}, {10}, {3, 4, 11}};
    const auto found = TextToText(model).run(sources, {.generate = {.max_new_tokens = 8, .ignore_end = true}});
    for (std::size_t i = 0; i < sources.size(); ++i) {
      expect_followed(model, found[i].best.front(), {model.options().decoder_start_id.value_or(0)}, sources[i]);
    }
  }
}

TEST(QuantizedSteps, ATranslationModelIsSearchedWith) {
  const TemporaryDirectory directory;
  headway::set_random_seed(21);
  headway::TranslationModel(headway_test::small_options()).save(directory.path());
  const auto model = headway::TranslationModel::load(directory.path(), DType::int8);
  model.eval();
  const std::vector<Ids> sources = {{3, 4, 5, 0}, {7, 0}};
  for (const std::int64_t beam : {1, 3}) {
    const auto found = headway::search(model, sources, {.beam = beam, .max_length = 6});
    for (std::size_t i = 0; i < sources.size(); ++i) {
      // The score of the best one is the modules' mean log-probability of its tokens.
      const headway::Hypothesis& best = found[i].front();
      Ids target = {19};
      target.insert(target.end(), best.tokens.begin(), best.tokens.end());
      const headway::NoGradGuard guard;
      const Tensor logits =
          log_softmax(model.forward({.source = row_of(sources[i]), .target = row_of(target)}).logits.select(0, 0));
      double sum = 0;
      for (std::size_t t = 0; t < best.tokens.size(); ++t) {
        sum += logits.at({static_cast<std::int64_t>(t), best.tokens[t]});
      }
      EXPECT_NEAR(best.score, sum / static_cast<double>(best.tokens.size()), 0.05);
    }
  }
}

}  // namespace
