// attend: what models of every family look at, with random weights.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headway/attention_view.h"
#include "headway/transformer_model.h"
#include "support/message_of.h"
#include "support/small_families.h"
#include "support/tiny_text_model.h"

namespace {

using namespace headway_test;
using headway::attend;
using headway::AttentionPart;
using headway::AttentionRecord;
using headway::Tensor;
using headway::TransformerModel;
using Strings = std::vector<std::string>;

TransformerModel model_of(const SmallFamily& family) {
  TransformerModel model = TransformerModel::from_config(family.config());
  model.eval();
  return model;
}

void expect_weights(const AttentionPart& part, const std::string& family) {
  ASSERT_FALSE(part.layers.empty()) << family;
  for (const Tensor& layer : part.layers) {
    ASSERT_EQ(layer.size(1), static_cast<std::int64_t>(part.queries.size())) << family;
    ASSERT_EQ(layer.size(2), static_cast<std::int64_t>(part.keys.size())) << family;
    for (std::int64_t h = 0; h < layer.size(0); ++h) {
      for (std::int64_t q = 0; q < layer.size(1); ++q) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < layer.size(2); ++k) {
          sum += layer.at({h, q, k});
          EXPECT_TRUE(part.name != "decoder" || k <= q || layer.at({h, q, k}) == 0.0) << family;
        }
        EXPECT_NEAR(sum, 1.0, 1e-5) << family << " " << part.name;
      }
    }
  }
}

Strings part_names(const AttentionRecord& record) {
  Strings names;
  for (const AttentionPart& part : record.parts) names.push_back(part.name);
  return names;
}

TEST(AttendFamilies, EveryFamilyShowsItsParts) {
  for (const SmallFamily& family : small_families()) {
    const TransformerModel model = model_of(family);
    const AttentionRecord record =
        attend(model, tiny_tokenizer(), "The cat sat.", {.max_new_tokens = family.is_encoder() ? -1 : 4});
    const headway::ModelKind kind = model.options().kind;
    EXPECT_EQ(part_names(record), kind == headway::ModelKind::encoder   ? Strings{"encoder"}
                                  : kind == headway::ModelKind::decoder ? Strings{"decoder"}
                                                                        : Strings({"encoder", "decoder", "cross"}))
        << family.name;
    for (const AttentionPart& part : record.parts) {
      expect_weights(part, family.name);
      if (part.name == "cross") continue;
      EXPECT_EQ(attention_rollout(part).size(0), part.layers[0].size(1)) << family.name;
    }
    const Strings& first = record.parts[0].keys;
    EXPECT_EQ(Strings(first.begin(), first.begin() + 6), Strings({"[CLS]", "▁The", "▁cat", "▁sat", ".", "[SEP]"}))
        << family.name;
    EXPECT_FALSE(attention_html(record).empty());
    EXPECT_FALSE(attention_json(record).empty());
    EXPECT_FALSE(attention_svg(record).empty());
    EXPECT_FALSE(attention_text(record).empty());
  }
}

TEST(AttendFamilies, PairsAreOneText) {
  const AttentionRecord record = attend(tiny_model(), tiny_tokenizer(), "the cat", {.pair = "Adalovelace"});
  EXPECT_EQ(record.parts[0].queries, Strings({"[CLS]", "▁the", "▁cat", "[SEP]", "▁Ada", "love", "lace", "[SEP]"}));
  EXPECT_EQ(record.target, "Adalovelace");
}

TEST(AttendFamilies, WhatFollowsIsGivenOrWritten) {
  for (const SmallFamily& family : small_families()) {
    if (family.is_encoder()) continue;
    const TransformerModel model = model_of(family);
    const AttentionRecord given = attend(model, tiny_tokenizer(), "the cat", {.target = "sat on"});
    EXPECT_EQ(given.target, "sat on");
    const AttentionRecord written = attend(model, tiny_tokenizer(), "the cat", {.max_new_tokens = 3});
    const AttentionPart& decoder = written.parts[family.is_encoder_decoder() ? 1 : 0];
    const std::size_t most = family.is_encoder_decoder() ? 3 : 7;  // [CLS] the cat [SEP] and three more
    EXPECT_LE(decoder.queries.size(), most) << family.name;
    EXPECT_GT(decoder.queries.size(), most - 3) << family.name;
  }
}

TEST(AttendFamilies, TheDrawnPartMayBeLeftOut) {
  const AttentionRecord record = attend(tiny_model(), tiny_tokenizer(), "the cat");
  EXPECT_EQ(attention_svg(record), attention_svg(record, {.part = "encoder"}));
  EXPECT_PRED2(contains, message_of([&] { attention_svg(record, {.part = "cross"}); }), "expected one of encoder");
}

TEST(AttendFamilies, Errors) {
  const TransformerModel model = tiny_model({.positions = 8});
  const headway::TextTokenizer tokenizer = tiny_tokenizer();
  EXPECT_EQ(message_of([&] { attend(model, tokenizer, " \n"); }), "attend: text is blank, expected a sentence");
  EXPECT_PRED2(contains, message_of([&] { attend(model, tokenizer, "a a a a a a a a"); }),
               "text has 10 tokens, expected at most the 8 positions");
  EXPECT_PRED2(contains, message_of([&] { attend(model, tokenizer, "a", {.target = "b"}); }), "is an encoder");
  for (const SmallFamily& family : small_families()) {
    if (family.is_encoder()) continue;
    EXPECT_PRED2(contains, message_of([&] { attend(model_of(family), tokenizer, "a", {.pair = "b"}); }),
                 "is not an encoder");
  }
  const AttentionRecord broken = attend(model, tokenizer, "the \xff cat");
  EXPECT_EQ(broken.source, "the \xEF\xBF\xBD cat");
}

}  // namespace
