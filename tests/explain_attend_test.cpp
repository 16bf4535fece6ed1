// attend: what a translation looked at, from a small model with random weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "headway/attention_view.h"
#include "headway/random.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/translator_model.h"

namespace {

using headway::attend;
using headway::AttentionPart;
using headway::AttentionRecord;
using headway::Tensor;
using headway::Translator;
using headway_test::contains;
using headway_test::message_of;

// Sentences of a small vocabulary, enough to learn pieces from.
std::vector<std::string> sentences() {
  const std::vector<std::string> subjects = {"the animal", "a street", "the tired child", "das Tier", "eine Straße"};
  const std::vector<std::string> verbs = {"crossed", "was", "because", "überquerte", "war", "weil"};
  std::vector<std::string> all;
  for (const std::string& subject : subjects) {
    for (const std::string& verb : verbs) {
      for (const std::string& object : subjects) all.push_back(subject + " " + verb + " " + object + ".");
    }
  }
  return all;
}

Translator make_translator() {
  const headway_test::TemporaryDirectory directory;
  const auto pieces =
      headway::SentencePieces::train(sentences(), directory / "joint.spm", {.vocab_size = 38, .byte_fallback = false});
  headway::TranslationTokenizer tokenizer(pieces, {"deu", "eng"});
  const headway::TranslationModel model = headway_test::random_model(tokenizer, 7,
                                                                     {.d_model = 32,
                                                                      .encoder_layers = 2,
                                                                      .decoder_layers = 3,
                                                                      .encoder_heads = 4,
                                                                      .feed_forward = 48,
                                                                      .positions = 48,
                                                                      .dropout = 0.5});
  return Translator(model, tokenizer);
}

headway::TranslateOptions into(const std::string& language, std::int64_t max_length = 0) {
  headway::TranslateOptions options;
  options.to = language;
  options.search.max_length = max_length;
  return options;
}

void expect_rows_sum_to_one(const AttentionPart& part) {
  for (const Tensor& layer : part.layers) {
    for (std::int64_t h = 0; h < layer.size(0); ++h) {
      for (std::int64_t q = 0; q < layer.size(1); ++q) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < layer.size(2); ++k) sum += layer.at({h, q, k});
        EXPECT_NEAR(sum, 1.0, 1e-5) << part.name;
      }
    }
  }
}

TEST(Attend, GivesEveryPart) {
  const Translator translator = make_translator();
  const AttentionRecord record = attend(translator, "the animal crossed a street.", into("de"), "das Tier überquerte");
  EXPECT_EQ(record.source, "the animal crossed a street.");
  EXPECT_EQ(record.target, "das Tier überquerte");
  EXPECT_EQ(record.language, "deu");
  ASSERT_EQ(record.parts.size(), 3U);
  const AttentionPart &encoder = record.parts[0], &decoder = record.parts[1], &cross = record.parts[2];
  EXPECT_EQ(encoder.name, "encoder");
  EXPECT_EQ(encoder.keys.front(), ">>deu<<");
  EXPECT_EQ(encoder.keys.back(), "</s>");
  EXPECT_EQ(encoder.queries, encoder.keys);
  EXPECT_EQ(encoder.layers.size(), 2U);
  EXPECT_EQ(encoder.layers[0].size(0), 4);
  EXPECT_EQ(decoder.keys.front(), "<pad>");
  EXPECT_EQ(decoder.queries.back(), "</s>");
  EXPECT_TRUE(std::equal(decoder.keys.begin() + 1, decoder.keys.end(), decoder.queries.begin()));
  EXPECT_EQ(decoder.layers.size(), 3U);
  EXPECT_EQ(cross.queries, decoder.queries);
  EXPECT_EQ(cross.keys, encoder.keys);
  for (const AttentionPart& part : record.parts) expect_rows_sum_to_one(part);
  for (std::int64_t key = 1; key < decoder.layers[0].size(2); ++key) EXPECT_EQ(decoder.layers[0].at({0, 0, key}), 0.0);
  EXPECT_FALSE(attention_html(record).empty());
}

TEST(Attend, TakesTheModelsOwnTranslation) {
  const Translator translator = make_translator();
  const headway::TranslateOptions options = into("German", 6);
  const AttentionRecord record = attend(translator, "the animal was tired.", options);
  EXPECT_EQ(record.target, translator.translate({"the animal was tired."}, options).front().text);
  EXPECT_LE(record.parts[2].queries.size(), 6U);
  // Dropout is off, so a second look sees the same.
  const AttentionRecord again = attend(translator, "the animal was tired.", options);
  EXPECT_EQ(attention_json(again), attention_json(record));
  // A code in front of the text chooses too, and is no part of the sentence.
  const AttentionRecord coded = attend(translator, ">>eng<< das Tier", into("", 3));
  EXPECT_EQ(coded.language, "eng");
  EXPECT_EQ(coded.parts[0].keys[0], ">>eng<<");
  EXPECT_NE(coded.parts[0].keys[1], ">>eng<<");
  // Without a language, the one that translate() takes.
  EXPECT_EQ(attend(translator, "the animal", into("", 3)).language,
            translator.translate({"the animal"}, into("", 3)).front().to);
}

TEST(Attend, Errors) {
  const Translator translator = make_translator();
  EXPECT_EQ(message_of([&] { attend(translator, " \n", into("de")); }), "attend: text is blank, expected a sentence");
  std::string longer;
  for (int i = 0; i < 30; ++i) longer += "the animal ";
  EXPECT_PRED2(contains, message_of([&] { attend(translator, longer, into("de")); }), "attend: text has ");
  EXPECT_PRED2(contains, message_of([&] { attend(translator, "the animal", into("de"), longer); }),
               "expected at most the 48 positions of the model");
  EXPECT_NE(message_of([&] { attend(translator, "the animal", into("Klingon")); }), "no error");
}

}  // namespace
