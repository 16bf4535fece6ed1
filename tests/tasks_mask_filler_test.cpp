#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headway/autograd.h"
#include "headway/mask_filler.h"
#include "support/message_of.h"
#include "support/tiny_text_model.h"

namespace {

using namespace headway_test;
using headway::MaskFiller;
using headway::Tensor;

MaskFiller tiny_filler() { return MaskFiller(tiny_model({.architecture = "BertForMaskedLM"}), tiny_tokenizer()); }

TEST(MaskFiller, WordsAreThoseOfTheLogits) {
  const MaskFiller filler = tiny_filler();
  EXPECT_EQ(filler.mask_token(), "[MASK]");
  const headway::NoGradGuard no_grad;
  const std::string text = "The [MASK] sat on the [MASK].";
  const std::vector<std::int64_t> ids = filler.tokenizer().encode(text);
  const Tensor logits =
      filler.model().forward({.tokens = Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())})}).logits[0];
  const auto filled = filler.fill({"cat [MASK]", text}, {.most = 3});
  ASSERT_EQ(filled.size(), 2u);
  EXPECT_EQ(filled[0].masks.size(), 1u);
  ASSERT_EQ(filled[1].masks.size(), 2u);
  const std::int64_t places[2] = {2, 6};
  for (std::size_t mask : {0, 1}) {
    const std::vector<double> row = logits[places[mask]].to_vector();
    double sum = 0.0;
    for (const double value : row) sum += std::exp(value);
    const auto& words = filled[1].masks[mask];
    ASSERT_EQ(words.size(), 3u);
    EXPECT_EQ(static_cast<std::size_t>(words[0].id), std::max_element(row.begin(), row.end()) - row.begin());
    for (const headway::MaskWord& word : words) {
      EXPECT_NEAR(word.score, std::exp(row[static_cast<std::size_t>(word.id)]) / sum, 1e-5);
    }
  }
  const headway::MaskWord& first = filled[1].masks[0][0];
  const headway::MaskWord& second = filled[1].masks[1][0];
  EXPECT_EQ(first.text, "The " + first.word + " sat on the [MASK].");
  EXPECT_EQ(second.text, "The [MASK] sat on the " + second.word + ".");
}

TEST(MaskFiller, TargetsAlone) {
  const MaskFiller filler = tiny_filler();
  const auto words = filler.fill({"the [MASK] sat"}, {.most = 10, .targets = {"cat", "Paris", "cat"}})[0].masks[0];
  ASSERT_EQ(words.size(), 2u);
  for (const headway::MaskWord& word : words) EXPECT_TRUE(word.word == "cat" || word.word == "paris") << word.word;
  EXPECT_PRED2(contains, message_of([&] { filler.fill({"[MASK]"}, {.targets = {"ada was"}}); }), "is 2 tokens");
}

TEST(MaskFiller, TextsWithoutAMaskAreErrors) {
  const MaskFiller filler = tiny_filler();
  EXPECT_PRED2(contains, message_of([&] { filler.fill({"[MASK]", "the cat"}); }), "text 2 has no [MASK]");
  EXPECT_PRED2(contains, message_of([&] { filler.fill({""}); }), "text 1 has no [MASK]");
  EXPECT_PRED2(contains, message_of([&] { filler.fill({"[MASK]"}, {.most = 0}); }), "most is 0");
  EXPECT_PRED2(contains, message_of([] { MaskFiller(tiny_model(), tiny_tokenizer()); }), "ForMaskedLM");
  EXPECT_TRUE(filler.fill({}).empty());
  EXPECT_TRUE(filler.fill({"[MASK] \xff"})[0].notes.invalid_utf8);
}

}  // namespace
