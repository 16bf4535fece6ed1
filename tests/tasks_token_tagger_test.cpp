#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headway/token_tagger.h"
#include "support/message_of.h"
#include "support/tiny_text_model.h"

namespace {

using namespace headway_test;
using headway::TagAggregation;
using headway::TokenTagger;

enum Label { kO, kBeginPerson, kInPerson, kBeginPlace, kInPlace };

// A tagger of which each word has one label, or two where the second is weaker.
TokenTagger table_tagger(const std::vector<std::pair<std::string, std::vector<float>>>& words,
                         std::int64_t positions = 32) {
  std::vector<std::vector<float>> table(tiny_words().size(), {2, 0, 0, 0, 0});
  for (const auto& [word, scores] : words) table[static_cast<std::size_t>(tiny_id(word))] = scores;
  return TokenTagger(table_model({.architecture = "BertForTokenClassification",
                                  .more = R"(,"id2label":{"0":"O","1":"B-PER","2":"I-PER","3":"B-LOC","4":"I-LOC"})",
                                  .positions = positions},
                                 table),
                     tiny_tokenizer());
}

std::string shown(const TokenTagger& tagger, const std::string& text, TagAggregation aggregation,
                  std::int64_t stride = 64) {
  std::string result;
  const auto tagged = tagger.tag({text}, {.aggregation = aggregation, .stride = stride});
  for (const headway::TaggedSpan& span : tagged[0].spans) {
    EXPECT_EQ(text.substr(static_cast<std::size_t>(span.begin), static_cast<std::size_t>(span.end - span.begin)),
              span.text);
    EXPECT_GT(span.score, 0.2);
    EXPECT_LE(span.score, 1.0);
    result += (result.empty() ? "" : " | ") + span.label + " " + span.text;
  }
  return result;
}

TEST(TokenTagger, JoinsTokensAsTransformersDoes) {
  const TokenTagger tagger = table_tagger({{"ada", {0, 2, 0, 0, 0}},
                                           {"##love", {0, 0, 2, 0, 0}},
                                           {"##lace", {0, 0, 0, 0, 1}},
                                           {"paris", {0, 0, 0, 2, 0}},
                                           {"london", {0, 0, 0, 0, 2}}});
  const std::string text = "Adalovelace was in Paris London. Paris";
  EXPECT_EQ(shown(tagger, text, TagAggregation::none),
            "B-PER Ada | I-PER love | I-LOC lace | B-LOC Paris | I-LOC London | B-LOC Paris");
  EXPECT_EQ(shown(tagger, text, TagAggregation::simple), "PER Adalove | LOC lace | LOC Paris London | LOC Paris");
  EXPECT_EQ(shown(tagger, text, TagAggregation::first), "PER Adalovelace | LOC Paris London | LOC Paris");
  EXPECT_EQ(shown(tagger, text, TagAggregation::max), "PER Adalovelace | LOC Paris London | LOC Paris");
  EXPECT_EQ(shown(tagger, text, TagAggregation::average), "PER Adalovelace | LOC Paris London | LOC Paris");
}

TEST(TokenTagger, BBeginsAnew) {
  const TokenTagger tagger = table_tagger({{"paris", {0, 0, 0, 2, 0}}});
  EXPECT_EQ(shown(tagger, "Paris Paris", TagAggregation::simple), "LOC Paris | LOC Paris");
}

TEST(TokenTagger, IgnoredLabels) {
  const TokenTagger tagger = table_tagger({{"paris", {0, 0, 0, 2, 0}}});
  EXPECT_EQ(tagger.tag({"Paris was"}, {.ignored = {"O", "LOC"}})[0].spans.size(), 0u);
  EXPECT_EQ(tagger.tag({"Paris was"}, {.ignored = {}})[0].spans.size(), 2u);
}

TEST(TokenTagger, OffsetsAreBytes) {
  const TokenTagger tagger = table_tagger({{"québec", {0, 0, 0, 2, 0}}, {"東", {0, 0, 0, 2, 0}}});
  EXPECT_EQ(shown(tagger, "東 was in QUÉBEC.", TagAggregation::simple), "LOC 東 | LOC QUÉBEC");
}

TEST(TokenTagger, LongTextsAreReadInWindows) {
  const TokenTagger wide = table_tagger({{"ada", {0, 2, 0, 0, 0}}, {"paris", {0, 0, 0, 2, 0}}}, 512);
  const TokenTagger narrow = table_tagger({{"ada", {0, 2, 0, 0, 0}}, {"paris", {0, 0, 0, 2, 0}}}, 8);
  std::string text;
  for (int i = 0; i < 40; ++i) text += i % 3 == 0 ? "ada was " : i % 5 == 0 ? "in paris " : "the cat ";
  const std::string expected = shown(wide, text, TagAggregation::simple);
  EXPECT_GT(expected.size(), 100u);
  for (const std::int64_t stride : {0, 1, 2, 3, 100}) {
    EXPECT_EQ(shown(narrow, text, TagAggregation::simple, stride), expected) << stride;
  }
}

TEST(TokenTagger, EmptyAndBrokenTexts) {
  const TokenTagger tagger = table_tagger({{"paris", {0, 0, 0, 2, 0}}});
  const auto tagged = tagger.tag({"", "\xff Paris", " "});
  EXPECT_TRUE(tagged[0].notes.empty && tagged[0].spans.empty());
  EXPECT_TRUE(tagged[1].notes.invalid_utf8);
  ASSERT_EQ(tagged[1].spans.size(), 1u);
  EXPECT_EQ(tagged[1].spans[0].text, "Paris");
  EXPECT_EQ(tagged[1].spans[0].begin, 4);  // after U+FFFD, which takes three bytes, and the space
  EXPECT_TRUE(tagger.tag({}).empty());
  EXPECT_PRED2(contains, message_of([&] { tagger.tag({"a"}, {.stride = -1}); }), "stride is -1");
  EXPECT_PRED2(contains, message_of([] { TokenTagger(tiny_model(), tiny_tokenizer()); }), "ForTokenClassification");
}

}  // namespace
