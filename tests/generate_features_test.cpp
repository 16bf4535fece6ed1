// Text from pictures and sounds: what is generated is what the modules say step by step, alone and in batches.
#include <gtest/gtest.h>

#include <algorithm>

#include "headway/autograd.h"
#include "headway/device.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "headway/text_to_text.h"
#include "support/message_of.h"
#include "support/small_families.h"
#include "tasks/feature_generator.h"

namespace {

using headway::GeneratedText;
using headway::GenerateOptions;
using headway::ModelCache;
using headway::Tensor;
using headway::TransformerModel;
using headway::Weights;
using headway::internal::FeatureGenerator;
using headway::internal::FeatureRequest;
using headway_test::contains;
using headway_test::message_of;
using headway_test::small_feature_families;
using headway_test::SmallFamily;

TransformerModel made(const std::string& name) {
  std::string config;
  for (const SmallFamily& family : small_feature_families()) {
    if (family.name == name) config = family.config();
  }
  TransformerModel model = TransformerModel::from_config(config);
  const headway::NoGradGuard guard;
  std::uint64_t seed = 70;
  for (const auto& [parameter, tensor] : model.named_parameters()) {
    Tensor(tensor.detach()).copy_from(Tensor::uniform(tensor.shape(), -0.6, 0.6, ++seed));
  }
  model.eval();
  return model;
}

// Sounds of different lengths, or pictures.
std::vector<FeatureRequest> requests_for(const TransformerModel& model) {
  if (model.family() != "whisper") {
    return {{.features = Tensor::randn({2, 4, 6}, 1)},
            {.features = Tensor::randn({2, 4, 6}, 2), .prompt = {2, 7, 9}},
            {.features = Tensor::randn({2, 4, 6}, 3), .prompt = {4, 5}}};
  }
  return {{.features = Tensor::randn({3, 7}, 1)},
          {.features = Tensor::randn({3, 12}, 2), .prompt = {2, 7, 9}},
          {.features = Tensor::randn({3, 7}, 3), .prompt = {2, 5}},
          {.features = Tensor::randn({3, 1}, 4)}};
}

// Greedy search by the modules.
std::vector<std::int64_t> greedy(const TransformerModel& model, const FeatureRequest& request, std::size_t count) {
  const headway::NoGradGuard guard;
  std::vector<std::int64_t> prompt = request.prompt.empty() ? std::vector<std::int64_t>{2} : request.prompt, chosen;
  const Tensor memory = model.encode({.features = request.features.unsqueeze(0)}).hidden;
  ModelCache cache;
  while (chosen.size() < count) {
    const Tensor tokens = Tensor::from(prompt, {1, static_cast<std::int64_t>(prompt.size())});
    const Tensor logits = model.decode({.tokens = tokens, .last_only = true}, cache, memory).logits;
    chosen.push_back(static_cast<std::int64_t>(headway::argmax(logits).item()));
    prompt = {chosen.back()};
  }
  return chosen;
}

const GenerateOptions kTen = {.max_new_tokens = 10, .ignore_end = true};

TEST(FeatureGenerator, GreedyIsWhatTheModulesSay) {
  for (const char* name : {"whisper", "vision-encoder-decoder"}) {
    SCOPED_TRACE(name);
    const TransformerModel model = made(name);
    const FeatureGenerator generator(model);
    const std::vector<FeatureRequest> requests = requests_for(model);
    const auto together = generator.generate("test", requests, kTen);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(together[i].front().tokens, greedy(model, requests[i], 10)) << i;
      const GeneratedText alone = generator.generate("test", {requests[i]}, kTen).front().front();
      EXPECT_EQ(alone.tokens, together[i].front().tokens);
      EXPECT_EQ(alone.score, together[i].front().score);
      EXPECT_EQ(alone.prompt_tokens, std::max<std::int64_t>(1, std::ssize(requests[i].prompt)));
    }
  }
}

TEST(FeatureGenerator, BeamsAndDrawnTexts) {
  for (const char* name : {"whisper", "vision-encoder-decoder"}) {
    SCOPED_TRACE(name);
    const TransformerModel model = made(name);
    const FeatureGenerator generator(model);
    const std::vector<FeatureRequest> requests = requests_for(model);
    const auto best = generator.generate("test", requests, {.max_new_tokens = 10, .beams = 4, .num_return = 2});
    const auto drawn = generator.generate("test", requests, {.max_new_tokens = 10, .temperature = 1.0, .seed = 5});
    const auto greedy_texts = generator.generate("test", requests, {.max_new_tokens = 10});
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ASSERT_EQ(best[i].size(), 2u);
      EXPECT_GE(best[i][0].score, best[i][1].score);
      const auto alone = generator.generate("test", {requests[i]}, {.max_new_tokens = 10, .beams = 4});
      EXPECT_EQ(alone.front().front().tokens, best[i][0].tokens);
      EXPECT_FALSE(drawn[i].front().tokens.empty());
      EXPECT_FALSE(greedy_texts[i].front().tokens.empty());
    }
  }
}

TEST(FeatureGenerator, AttentionOfEveryStep) {
  for (const char* name : {"whisper", "vision-encoder-decoder"}) {
    SCOPED_TRACE(name);
    const TransformerModel model = made(name);
    const FeatureGenerator generator(model);
    const std::vector<FeatureRequest> requests = requests_for(model);
    GenerateOptions options = kTen;
    options.weights = Weights::per_head;
    const auto results = generator.generate("test", requests, options);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const GeneratedText& text = results[i].front();
      EXPECT_EQ(text.tokens, greedy(model, requests[i], 10));
      ASSERT_EQ(text.attention.size(), 10u);
      // The same weights as forward() has in its last row.
      std::vector<std::int64_t> all = requests[i].prompt.empty() ? std::vector<std::int64_t>{2} : requests[i].prompt;
      all.insert(all.end(), text.tokens.begin(), text.tokens.end() - 1);
      const auto whole = model.forward({.features = requests[i].features.unsqueeze(0),
                                        .target = Tensor::from(all, {1, std::ssize(all)}),
                                        .weights = Weights::per_head});
      const std::size_t last = model.options().decoder.layers.size() - 1;
      const Tensor cross = text.attention.back().cross.at(last);  // [heads, positions]
      const Tensor expected = whole.cross_weights.at(last).select(0, 0).select(1, std::ssize(all) - 1);
      ASSERT_EQ(cross.size(1), generator.positions_of(requests[i].features));
      ASSERT_EQ(cross.shape(), expected.shape());
      for (std::int64_t head = 0; head < cross.size(0); ++head) {
        for (std::int64_t k = 0; k < cross.size(1); ++k) {
          EXPECT_NEAR(cross.at({head, k}), expected.at({head, k}), 1e-5);
        }
      }
    }
  }
}

TEST(FeatureGenerator, ChangedParametersAreSeen) {
  const TransformerModel model = made("whisper");
  const FeatureGenerator generator(model);
  const FeatureRequest request = requests_for(model).front();
  generator.generate("test", {request}, kTen);
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (name == "embedding.weight") Tensor(tensor.detach()).copy_from(Tensor::randn(tensor.shape(), 9));
  }
  EXPECT_EQ(generator.generate("test", {request}, kTen)[0][0].tokens, greedy(model, request, 10));
}

TEST(FeatureGenerator, BadRequests) {
  const TransformerModel model = made("whisper");
  const FeatureGenerator generator(model);
  const auto complaint = [&](const FeatureRequest& request) {
    return message_of([&] { generator.generate("transcribe", {requests_for(model).front(), request}); });
  };
  EXPECT_TRUE(generator.generate("transcribe", {}).empty());
  EXPECT_EQ(complaint({}), "transcribe: input 1 has no features");
  EXPECT_EQ(complaint({.features = Tensor::zeros({1, 3, 4})}),
            "transcribe: features of input 1 are float32[1, 3, 4], expected [bins, frames]");
  EXPECT_PRED2(contains, complaint({.features = Tensor::zeros({4, 4})}), "has 4 bins, and the model reads 3");
  EXPECT_EQ(complaint({.features = Tensor::zeros({3, 13})}),
            "transcribe: features of input 1 are float32[3, 13], which makes 7 positions, and the model has 6");
  EXPECT_EQ(complaint({.features = Tensor::zeros({3, 4}), .prompt = {2, 30}}),
            "transcribe: the prompt of input 1 has id 30, expected 0 to 29");
  EXPECT_PRED2(contains, complaint({.features = Tensor::zeros({3, 4}), .prompt = std::vector<std::int64_t>(25, 3)}),
               "has 25 tokens, and the model has 24 positions");
  EXPECT_EQ(message_of([] { const FeatureGenerator none(made("vit")); }),
            "the model of family vit does not make text of pictures or sound");
  EXPECT_EQ(message_of([&] { const headway::TextToText none(model); }),
            "the model of family whisper reads features of pictures or sound, which TextToText has none of");
}

TEST(FeatureGeneratorOnADevice, AgreesWithTheCpu) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const TransformerModel model = made("whisper");
  const std::vector<FeatureRequest> requests = requests_for(model);
  const auto expected = FeatureGenerator(model).generate("test", requests, kTen);
  model.to(headway::Device::cuda());
  const auto found = FeatureGenerator(model).generate("test", requests, kTen);
  for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(found[i][0].tokens, expected[i][0].tokens);
}

}  // namespace
