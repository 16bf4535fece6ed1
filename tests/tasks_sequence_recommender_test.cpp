#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "headway/attention_view.h"
#include "headway/autograd.h"
#include "headway/random.h"
#include "headway/sequence_recommender.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/thread_count.h"

namespace {

using namespace headway_test;
using headway::Recommendations;
using headway::SequenceRecommender;
using headway::Tensor;
using headway::TransformerModel;
using Items = std::vector<std::int64_t>;

constexpr std::int64_t kItems = 30, kPositions = 6;

TransformerModel tiny_items_model(const std::string& architecture = "GPT2LMHeadModel") {
  headway::set_random_seed(5);
  const TransformerModel model = TransformerModel::from_config(
      R"({"model_type": "gpt2", "architectures": [")" + architecture +
      R"("], "vocab_size": 31, "n_positions": 6, "n_embd": 12, "n_layer": 2, "n_head": 2, "initializer_range": 0.5})");
  model.eval();
  return model;
}

// Items 1 .. 30 of which training met item i 31 - i times; 29 and 30 never.
Items counts() {
  Items all(kItems + 1, 0);
  for (std::int64_t item = 1; item <= 28; ++item) all[static_cast<std::size_t>(item)] = 31 - item;
  return all;
}

std::vector<double> logits_after(const TransformerModel& model, const Items& history) {
  const headway::NoGradGuard no_grad;
  return model.forward({.tokens = Tensor::from(history, {1, std::ssize(history)})}).logits[0][-1].to_vector();
}

Items items_of(const Recommendations& found) {
  Items items;
  for (const headway::RecommendedItem& item : found.items) items.push_back(item.item);
  return items;
}

TEST(SequenceRecommender, ItemsAreThoseOfTheLogits) {
  const SequenceRecommender recommender(tiny_items_model());
  EXPECT_EQ(recommender.items(), kItems);
  EXPECT_EQ(recommender.max_length(), kPositions);
  const Items history = {3, 8, 3, 20};
  std::vector<double> logits = logits_after(recommender.model(), history);
  double sum = 0.0;
  for (std::size_t item = 1; item < logits.size(); ++item) sum += std::exp(logits[item]);
  const Recommendations found = recommender.recommend(history, {.count = 5});
  ASSERT_EQ(found.items.size(), 5u);
  EXPECT_EQ(found.read, history);
  EXPECT_TRUE(found.notes.none());
  for (const std::int64_t item : {0, 3, 8, 20}) logits[static_cast<std::size_t>(item)] = -1e9;  // padding, and seen
  for (const headway::RecommendedItem& item : found.items) {
    const auto best = std::max_element(logits.begin(), logits.end());
    EXPECT_EQ(item.item, best - logits.begin());
    EXPECT_NEAR(item.score, *best, 1e-4);
    EXPECT_NEAR(item.probability, std::exp(*best) / sum, 1e-5);
    *best = -1e9;
  }
  EXPECT_EQ(recommender.recommend(history, {.count = 1000}).items.size(), 27u);
  EXPECT_EQ(recommender.recommend(history, {.count = 1000, .exclude_seen = false}).items.size(), 30u);
  EXPECT_EQ(recommender.recommend(history, {.candidates = {20, 7, 9, 7}}).items.size(), 2u);
}

TEST(SequenceRecommender, SharesFollowFromAttentionAndSimilarity) {
  const SequenceRecommender recommender(tiny_items_model());
  const Items history = {3, 8, 17, 20, 4};
  const Recommendations found = recommender.recommend(history);
  ASSERT_EQ(found.attention.size(), 2u);
  std::vector<double> mean(history.size(), 0.0);
  for (const Tensor& layer : found.attention) {
    ASSERT_EQ(layer.shape(), headway::Shape({2, 5}));
    for (std::size_t i = 0; i < 10; ++i) mean[i % 5] += layer.to_vector()[i] / 4.0;
  }
  EXPECT_NEAR(std::accumulate(mean.begin(), mean.end(), 0.0), 1.0, 1e-5);
  const Tensor table = recommender.model().state_dict().at("embedding.weight");
  const auto cosine = [&](std::int64_t a, std::int64_t b) {
    const std::vector<double> x = table[a].to_vector(), y = table[b].to_vector();
    const auto product = [](const auto& p, const auto& q) {
      return std::inner_product(p.begin(), p.end(), q.begin(), 0.0);
    };
    return product(x, y) / std::sqrt(product(x, x) * product(y, y));
  };
  for (const headway::RecommendedItem& item : found.items) {
    std::vector<double> expected;
    for (std::size_t i = 0; i < 5; ++i) expected.push_back(mean[i] * std::max(0.0, cosine(history[i], item.item)));
    const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
    ASSERT_EQ(item.shares.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(item.shares[i], sum > 0 ? expected[i] / sum : mean[i], 1e-5);
  }
  EXPECT_TRUE(recommender.recommend(history, {.sources = false}).items[0].shares.empty());
}

TEST(SequenceRecommender, ABatchIsItsHistories) {
  const SequenceRecommender recommender(tiny_items_model(), counts());
  const std::vector<Items> histories = {{1}, {5, 6, 7}, {}, {2, 9, 4, 11, 12, 13, 14, 15}, {3, 3}, {29}};
  for (const std::int64_t batch : {0, 1, 7}) {
    const ThreadCount threads(batch == 7 ? 3 : 1);
    const auto all = recommender.recommend_all(histories, {.batch_items = batch});
    ASSERT_EQ(all.size(), histories.size());
    for (std::size_t i = 0; i < histories.size(); ++i) {
      const Recommendations one = recommender.recommend(histories[i]);
      EXPECT_EQ(items_of(all[i]), items_of(one)) << i;
      EXPECT_EQ(all[i].notes, one.notes);
      EXPECT_NEAR(all[i].items[0].probability, one.items[0].probability, 1e-5);
      if (one.read.empty()) continue;
      EXPECT_NEAR(all[i].items[0].shares[0], one.items[0].shares[0], 1e-4);
    }
  }
  EXPECT_TRUE(recommender.recommend_all({}).empty());
  const Tensor scores = recommender.scores({{1}, {5, 6, 7}});
  ASSERT_EQ(scores.shape(), headway::Shape({2, kItems + 1}));
  const std::vector<double> expected = logits_after(recommender.model(), {5, 6, 7});
  for (std::size_t item = 0; item < expected.size(); ++item) {
    EXPECT_NEAR(scores[1].to_vector()[item], expected[item], 1e-4);
  }
}

TEST(SequenceRecommender, RemarkableHistories) {
  const SequenceRecommender recommender(tiny_items_model(), counts());
  // The newest items are read.
  const Recommendations longer = recommender.recommend({9, 9, 1, 2, 3, 4, 5, 6});
  EXPECT_EQ(longer.read, (Items{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(longer.notes.items_left_out, 2);
  EXPECT_EQ(longer.notes.describe(), "the oldest 2 items were left out: the history is longer than the model reads");
  const Items found = items_of(longer);
  EXPECT_EQ(std::count(found.begin(), found.end(), 9), 0);  // seen, although it was not read
  // Items that training never met.
  const Recommendations unknown = recommender.recommend({1, 29, 77, 29, 2});
  EXPECT_EQ(unknown.read, (Items{1, 2}));
  EXPECT_EQ(unknown.notes.describe(), "items 29, 77 were ignored: training never met them");
  EXPECT_EQ(items_of(unknown), items_of(recommender.recommend({1, 2})));
  for (const std::int64_t item : items_of(recommender.recommend({1}, {.count = 100}))) EXPECT_LT(item, 29);
  // Nothing to read.
  for (const Items& history : {Items{}, Items{30}}) {
    const Recommendations popular = recommender.recommend(history, {.count = 3});
    EXPECT_EQ(items_of(popular), (Items{1, 2, 3}));
    EXPECT_TRUE(popular.notes.popular && popular.read.empty() && popular.attention.empty());
    EXPECT_EQ(popular.items[0].score, 30.0);
  }
  EXPECT_EQ(recommender.recommend(Items{}).notes.describe(), "the history is empty; these are the most popular items");
}

TEST(SequenceRecommender, Errors) {
  const SequenceRecommender plain(tiny_items_model());
  EXPECT_PRED2(contains, message_of([&] { plain.recommend(Items{}); }), "history 1 is empty");
  EXPECT_PRED2(contains, message_of([&] { plain.recommend_all({{1}, {31}}); }), "history 2 has no item that the model");
  EXPECT_PRED2(contains, message_of([&] {
                 plain.recommend_all({{1}, {2, 0}});
               }),
               "history 2 has the item 0, expected 1");
  EXPECT_PRED2(contains, message_of([&] { plain.recommend({1}, {.count = 0}); }), "count is 0");
  EXPECT_PRED2(contains, message_of([&] { plain.recommend({1}, {.candidates = {31}}); }), "candidates has 31");
  EXPECT_PRED2(contains, message_of([&] { plain.recommend({1}, {.batch_items = -1}); }), "batch_items is -1");
  EXPECT_PRED2(contains, message_of([&] { plain.scores({{}}); }), "history 1 is empty");
  EXPECT_PRED2(contains, message_of([&] { SequenceRecommender(tiny_items_model("GPT2Model")); }), "language model's");
  EXPECT_PRED2(contains, message_of([&] { SequenceRecommender(tiny_items_model(), {1, 2}); }), "counts has 2 numbers");
}

TEST(SequenceRecommender, ADirectoryKeepsTheCounts) {
  const TemporaryDirectory directory;
  const SequenceRecommender recommender(tiny_items_model(), counts());
  recommender.save(directory / "model");
  const SequenceRecommender loaded(directory / "model");
  EXPECT_EQ(loaded.counts(), counts());
  EXPECT_EQ(items_of(loaded.recommend({3, 4})), items_of(recommender.recommend({3, 4})));
  const auto message_with = [&](const std::string& json) {
    std::ofstream(directory / "model" / "items.json") << json;
    return message_of([&] { SequenceRecommender(directory / "model"); });
  };
  EXPECT_PRED2(contains, message_with("{}"), "items.json: counts is missing");
  EXPECT_PRED2(contains, message_with(R"({"counts": [1, -2]})"), "counts has -2 at 1");
  EXPECT_PRED2(contains, message_with(R"({"counts": [1, 2]})"), "counts has 2 numbers");
  EXPECT_PRED2(contains, message_with("{"), "items.json");
  std::filesystem::remove(directory / "model" / "items.json");
  EXPECT_TRUE(SequenceRecommender(directory / "model").counts().empty());
}

TEST(SequenceRecommender, Attend) {
  const SequenceRecommender recommender(tiny_items_model(), counts());
  const headway::AttentionRecord record = headway::attend(recommender, {3, 8, 20}, {.count = 4});
  EXPECT_EQ(record.source, "3, 8, 20");
  ASSERT_EQ(record.parts.size(), 2u);
  EXPECT_EQ(record.parts[0].queries, (std::vector<std::string>{"item 3", "item 8", "item 20"}));
  EXPECT_EQ(record.parts[0].layers.size(), 2u);
  EXPECT_EQ(record.parts[1].layers.at(0).shape(), headway::Shape({1, 4, 3}));
  EXPECT_EQ(record.parts[1].key_medium.kind, headway::MediumKind::list);
  const auto found = recommender.recommend({3, 8, 20}, {.count = 4});
  EXPECT_NEAR(record.parts[0].layers[1].at({1, 2, 0}), found.attention[1].at({1, 0}), 1e-5);
  EXPECT_NEAR(record.parts[1].layers[0].at({0, 3, 2}), found.items[3].shares[2], 1e-5);
  EXPECT_PRED2(contains, headway::attention_svg(record), "item 20");
  EXPECT_PRED2(contains, headway::attention_html(record), "item 20");
  EXPECT_PRED2(contains, message_of([&] { headway::attend(recommender, {}); }),
               "the history has no item that the model knows");
}

}  // namespace
