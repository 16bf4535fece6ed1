#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headway/autograd.h"
#include "headway/text_classifier.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/tiny_text_model.h"

namespace {

using namespace headway_test;
using headway::LabelScores;
using headway::Tensor;
using headway::TextClassifier;

const std::vector<std::string> kTexts = {"the cat sat", "", "paris", "adalovelace was in london."};

TinyTextOptions three_labels(const std::string& more = {}) {
  return {.architecture = "BertForSequenceClassification",
          .more = R"(,"id2label":{"0":"bad","1":"fine","2":"good"},"label2id":{"bad":0,"fine":1,"good":2})" + more};
}

std::vector<double> logits_alone(const TextClassifier& classifier, const headway::TokenizedText& text) {
  const headway::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(text.ids.size());
  return classifier.model()
      .forward({.tokens = Tensor::from(text.ids, {1, count}), .token_types = Tensor::from(text.type_ids, {1, count})})
      .logits.to_vector();
}

double softmax_of(const std::vector<double>& logits, std::size_t label) {
  double sum = 0.0;
  for (const double logit : logits) sum += std::exp(logit);
  return std::exp(logits[label]) / sum;
}

TEST(TextClassifier, ScoresAreTheSoftmaxOfEachTextAlone) {
  const TextClassifier classifier(tiny_model(three_labels()), tiny_tokenizer());
  EXPECT_EQ(classifier.labels(), (std::vector<std::string>{"bad", "fine", "good"}));
  EXPECT_EQ(classifier.scores(), LabelScores::softmax);
  const auto found = classifier.classify(kTexts);
  const Tensor logits = classifier.logits(kTexts);
  ASSERT_EQ(logits.shape(), (headway::Shape{4, 3}));
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    const std::vector<double> expected = logits_alone(classifier, classifier.tokenizer().tokenize(kTexts[i]));
    ASSERT_EQ(found[i].labels.size(), 3u);
    for (const headway::LabelScore& label : found[i].labels) {
      const auto id = static_cast<std::size_t>(label.id);
      EXPECT_EQ(label.label, classifier.labels()[id]);
      EXPECT_NEAR(label.score, softmax_of(expected, id), 1e-5);
      EXPECT_NEAR(logits.at({static_cast<std::int64_t>(i), label.id}), expected[id], 2e-5);
    }
    EXPECT_GE(found[i].labels[0].score, found[i].labels[1].score);
    EXPECT_EQ(found[i].label(), found[i].labels[0].label);
    EXPECT_EQ(found[i].notes.empty, kTexts[i].empty());
  }
  EXPECT_TRUE(classifier.classify({}).empty());
  EXPECT_EQ(classifier.classify({"cat"}, {.most = 2})[0].labels.size(), 2u);
  EXPECT_PRED2(contains, message_of([&] { classifier.classify({"cat"}, {.most = -1}); }), "most is -1");
}

TEST(TextClassifier, TheProblemTypeChoosesTheScores) {
  const auto scores = [](const std::string& more) {
    const TemporaryDirectory directory;
    save_tiny(tiny_model(three_labels(more)), directory / "model");
    return TextClassifier(directory / "model").scores();
  };
  EXPECT_EQ(scores(""), LabelScores::softmax);
  EXPECT_EQ(scores(R"(,"problem_type":"multi_label_classification")"), LabelScores::sigmoid);
  EXPECT_EQ(scores(R"(,"problem_type":"regression")"), LabelScores::logits);
  EXPECT_EQ(scores(R"(,"problem_type":"single_label_classification")"), LabelScores::softmax);

  const TextClassifier multi(tiny_model(three_labels(R"(,"problem_type":"multi_label_classification")")),
                             tiny_tokenizer());
  const std::vector<double> logits = logits_alone(multi, multi.tokenizer().tokenize("cat"));
  const auto found = multi.classify({"cat"});
  for (const headway::LabelScore& label : found[0].labels) {
    EXPECT_NEAR(label.score, 1.0 / (1.0 + std::exp(-logits[static_cast<std::size_t>(label.id)])), 1e-5);
  }
  const TextClassifier one(
      tiny_model({.architecture = "BertForSequenceClassification", .more = R"(,"id2label":{"0":"relevant"})"}),
      tiny_tokenizer());
  EXPECT_EQ(one.scores(), LabelScores::sigmoid);
  EXPECT_NEAR(one.classify({"cat"}, {.scores = LabelScores::logits})[0].score(), one.logits({"cat"}).item(), 1e-6);
}

TEST(TextClassifier, PairsHaveTwoTypes) {
  const TextClassifier classifier(tiny_model(three_labels()), tiny_tokenizer());
  const auto found = classifier.classify_pairs({"the cat", "paris"}, {"sat on", ""});
  const std::vector<double> expected = logits_alone(classifier, classifier.tokenizer().tokenize("the cat", "sat on"));
  const auto id = static_cast<std::size_t>(found[0].labels[0].id);
  EXPECT_NEAR(found[0].score(), softmax_of(expected, id), 1e-5);
  EXPECT_NE(found[0].score(), classifier.classify({"the cat sat on"})[0].score());
  EXPECT_PRED2(contains, message_of([&] { classifier.classify_pairs({"a"}, {}); }), "1 first texts and 0 second ones");
}

TEST(TextClassifier, LongAndBrokenTextsAreNoted) {
  const TextClassifier classifier(tiny_model(three_labels()), tiny_tokenizer(8));
  EXPECT_EQ(classifier.max_length(), 8);
  const auto found = classifier.classify({"a b c a b c a b c", "cat \xE6\x9D"});
  EXPECT_EQ(found[0].notes.tokens_left_out, 3);
  EXPECT_TRUE(found[1].notes.invalid_utf8);
}

TEST(TextClassifier, AnotherHeadIsRefused) {
  EXPECT_PRED2(contains, message_of([] { TextClassifier(tiny_model(), tiny_tokenizer()); }),
               "ForSequenceClassification");
}

}  // namespace
