// Tasks on a GPU, or on the stand-in for one: the same results as on the CPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headway/attention_view.h"
#include "headway/device.h"
#include "headway/mask_filler.h"
#include "headway/question_answerer.h"
#include "headway/sequence_recommender.h"
#include "headway/text_classifier.h"
#include "headway/text_encoder.h"
#include "headway/token_tagger.h"
#include "support/files.h"
#include "support/tiny_text_model.h"

namespace {

using namespace headway_test;
using headway::Device;

const std::vector<std::string> kTexts = {"the cat sat on the mat.", "", "Adalovelace was in London"};

// What a task gives from a saved model of an architecture, on a device.
template <typename Result, typename Use>
std::pair<Result, Result> on_both(const std::string& architecture, const std::string& more, const Use& use) {
  const TemporaryDirectory directory;
  save_tiny(tiny_model({.architecture = architecture, .more = more}), directory / "model");
  const Result here = use(directory / "model", headway::TaskOptions{});
  return {here, use(directory / "model", headway::TaskOptions{.device = Device::cuda()})};
}

void expect_close(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-3);
}

using Numbers = std::vector<double>;

TEST(TasksOnADevice, AgreeWithTheCpu) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const auto embedded = on_both<Numbers>("BertModel", "", [](const auto& directory, const auto& options) {
    return headway::TextEncoder(directory, options).embed(kTexts).to_vector();
  });
  expect_close(embedded.first, embedded.second);
  const std::string labels = R"(,"id2label":{"0":"O","1":"B-X","2":"I-X"})";
  const auto classified =
      on_both<Numbers>("BertForSequenceClassification", labels, [](const auto& directory, const auto& options) {
        return headway::TextClassifier(directory, options).logits(kTexts).to_vector();
      });
  expect_close(classified.first, classified.second);
  const auto tagged =
      on_both<Numbers>("BertForTokenClassification", labels, [](const auto& directory, const auto& options) {
        Numbers scores;
        for (const headway::TaggedText& text : headway::TokenTagger(directory, options).tag(kTexts, {.ignored = {}})) {
          for (const headway::TaggedSpan& span : text.spans) scores.push_back(span.score);
        }
        return scores;
      });
  expect_close(tagged.first, tagged.second);
  const auto answered =
      on_both<Numbers>("BertForQuestionAnswering", "", [](const auto& directory, const auto& options) {
        const headway::Answers answers = headway::QuestionAnswerer(directory, options).answer("who", kTexts[0]);
        return Numbers{answers.front().score, answers.no_answer};
      });
  expect_close(answered.first, answered.second);
  const auto filled = on_both<Numbers>("BertForMaskedLM", "", [](const auto& directory, const auto& options) {
    const headway::FilledText text = headway::MaskFiller(directory, options).fill({"the [MASK] sat"}).front();
    return Numbers{text.masks[0][0].score, text.masks[0][1].score};
  });
  expect_close(filled.first, filled.second);
}

TEST(TasksOnADevice, Recommendations) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const TemporaryDirectory directory;
  headway::set_random_seed(5);
  headway::TransformerModel::from_config(
      R"({"model_type": "gpt2", "vocab_size": 20, "n_positions": 8, "n_embd": 8, "n_layer": 2, "n_head": 2,
          "initializer_range": 0.5})")
      .save(directory / "model");
  const auto numbers = [&](Device device) {
    const headway::SequenceRecommender recommender(directory / "model", {.device = device});
    Numbers all;
    for (const headway::Recommendations& found : recommender.recommend_all({{3, 4, 5}, {7}}, {.count = 19})) {
      for (const headway::RecommendedItem& item : found.items) {
        all.push_back(item.score);
        all.insert(all.end(), item.shares.begin(), item.shares.end());
      }
    }
    return all;
  };
  expect_close(numbers(Device::cpu()), numbers(Device::cuda()));
}

TEST(TasksOnADevice, AttentionComesBack) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const headway::TransformerModel model = tiny_model();
  const headway::AttentionRecord here = attend(model, tiny_tokenizer(), "the cat sat");
  model.to(Device::cuda());
  const headway::AttentionRecord there = attend(model, tiny_tokenizer(), "the cat sat");
  expect_close(there.parts[0].layers[1].to_vector(), here.parts[0].layers[1].to_vector());
}

}  // namespace
