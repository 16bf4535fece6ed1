#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headway/autograd.h"
#include "headway/question_answerer.h"
#include "support/message_of.h"
#include "support/tiny_text_model.h"

namespace {

using namespace headway_test;
using headway::QuestionAnswerer;
using headway::Tensor;

// Answers begin at "ada" and end at "##love" or "london"; "[CLS]" stands for none.
QuestionAnswerer table_answerer(std::int64_t positions = 64, float none = -1) {
  std::vector<std::vector<float>> table(tiny_words().size(), {0, 0});
  const auto set = [&](const char* word, float begin, float end) {
    table[static_cast<std::size_t>(tiny_id(word))] = {begin, end};
  };
  set("ada", 2, 0);
  set("##love", 0, 2);
  set("london", 1, 1);
  set("[CLS]", none, none);
  return QuestionAnswerer(table_model({.architecture = "BertForQuestionAnswering", .positions = positions}, table),
                          tiny_tokenizer());
}

TEST(QuestionAnswerer, FindsTheSpan) {
  const QuestionAnswerer answerer = table_answerer();
  const std::string context = "The cat sat on the mat. Adalovelace was in London.";
  const headway::Answers answers = answerer.answer("Who was in London?", context, {.num_best = 3});
  ASSERT_EQ(answers.best.size(), 3u);
  EXPECT_EQ(answers.front().text, "Adalovelace");  // whole words, though the end is inside
  EXPECT_EQ(context.substr(static_cast<std::size_t>(answers.front().begin), 11), "Adalovelace");
  EXPECT_EQ(answers.front().end - answers.front().begin, 11);
  EXPECT_GT(answers.best[0].score, answers.best[1].score);
  EXPECT_EQ(answerer.answer("who", context, {.whole_words = false}).front().text, "Adalove");
}

TEST(QuestionAnswerer, ScoresAreProductsOfProbabilities) {
  const QuestionAnswerer answerer(tiny_model({.architecture = "BertForQuestionAnswering"}), tiny_tokenizer());
  const headway::NoGradGuard no_grad;
  const std::string question = "who sat", context = "the cat sat on the mat";
  const headway::TokenizedText text = answerer.tokenizer().tokenize(question, context);
  const auto count = static_cast<std::int64_t>(text.ids.size());
  const Tensor logits = answerer.model()
                            .forward({.tokens = Tensor::from(text.ids, {1, count}),
                                      .token_types = Tensor::from(text.type_ids, {1, count})})
                            .logits;  // [1, count, 2]
  double sums[2] = {0, 0};
  const auto allowed = [&](std::int64_t t) { return t == 0 || text.sequence[static_cast<std::size_t>(t)] == 1; };
  for (std::int64_t t = 0; t < count; ++t) {
    for (int side : {0, 1}) {
      if (allowed(t)) sums[side] += std::exp(logits.at({0, t, side}));
    }
  }
  double best = 0.0;
  for (std::int64_t first = 1; first < count; ++first) {
    for (std::int64_t last = first; last < std::min(count, first + 4); ++last) {
      if (!allowed(first) || !allowed(last)) continue;
      best = std::max(best, std::exp(logits.at({0, first, 0})) / sums[0] * std::exp(logits.at({0, last, 1})) / sums[1]);
    }
  }
  const headway::Answers answers = answerer.answer(question, context, {.max_answer_length = 4});
  EXPECT_NEAR(answers.front().score, best, 1e-5);
  const double none = std::exp(logits.at({0, 0, 0})) / sums[0] * std::exp(logits.at({0, 0, 1})) / sums[1];
  EXPECT_NEAR(answers.no_answer, none, 1e-5);
}

TEST(QuestionAnswerer, LongContextsAreReadInWindows) {
  const QuestionAnswerer answerer = table_answerer(512);
  std::string context;
  for (int i = 0; i < 50; ++i) context += "the cat sat on the mat. ";
  const auto place = static_cast<std::int64_t>(context.size());
  context += "Adalovelace was in paris. ";
  for (int i = 0; i < 50; ++i) context += "a b c. ";
  for (const std::int64_t stride : {0, 5, 128}) {
    const headway::Answers answers =
        answerer.answer("who was in paris", context, {.num_best = 2, .max_length = 32, .stride = stride});
    EXPECT_EQ(answers.front().text, "Adalovelace") << stride;
    EXPECT_EQ(answers.front().begin, place);
    EXPECT_FALSE(answers.best[1].begin == place && answers.best[1].end == answers.front().end);  // listed once
  }
}

TEST(QuestionAnswerer, SaysThatThereIsNone) {
  const QuestionAnswerer answerer = table_answerer(64, 3);
  const std::string context = "the cat sat on the mat";
  EXPECT_NE(answerer.answer("who", context).front().text, "");
  const headway::Answers answers = answerer.answer("who", context, {.allow_no_answer = true});
  EXPECT_EQ(answers.front().text, "");
  EXPECT_EQ(answers.front().score, answers.no_answer);
  EXPECT_GT(answers.no_answer, 0.5);
}

TEST(QuestionAnswerer, SeveralAtOnce) {
  const QuestionAnswerer answerer = table_answerer();
  const auto all =
      answerer.answer({{"who", "the cat was adalovelace"}, {"", "paris"}, {"who", ""}, {"\xff", "a \xff b"}});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].front().text, "adalovelace");
  EXPECT_TRUE(all[1].notes.empty);
  EXPECT_EQ(all[1].front().text, "paris");
  EXPECT_TRUE(all[2].best.empty());
  EXPECT_TRUE(all[2].notes.empty);
  EXPECT_TRUE(all[3].notes.invalid_utf8);
}

TEST(QuestionAnswerer, LongQuestionsAreCut) {
  const QuestionAnswerer answerer = table_answerer(32);
  std::string question;
  for (int i = 0; i < 40; ++i) question += "who was ";
  const headway::Answers answers = answerer.answer(question, "the cat was adalovelace in london");
  EXPECT_EQ(answers.front().text, "adalovelace");
  EXPECT_EQ(answers.notes.tokens_left_out, 80 - 16);
}

TEST(QuestionAnswerer, RefusesNonsense) {
  const QuestionAnswerer answerer = table_answerer();
  EXPECT_PRED2(contains, message_of([&] { answerer.answer("a", "b", {.num_best = 0}); }), "num_best is 0");
  EXPECT_PRED2(contains, message_of([&] { answerer.answer("a", "b", {.max_answer_length = 0}); }),
               "max_answer_length is 0");
  EXPECT_PRED2(contains, message_of([] { QuestionAnswerer(tiny_model(), tiny_tokenizer()); }), "ForQuestionAnswering");
}

}  // namespace
