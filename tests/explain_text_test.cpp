// Drawings for terminals: words head by head, maps, widths, hostile tokens.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "explain/token_text.h"
#include "headway/attention_view.h"
#include "support/attention_record.h"
#include "support/message_of.h"

namespace {

namespace internal = headway::internal;
using headway::attention_text;
using headway::AttentionRecord;
using headway::TerminalDrawing;
using headway_test::contains;
using headway_test::message_of;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(TokenText, WordsAndSpecialTokens) {
  EXPECT_EQ(internal::token_text("▁animal").text, "animal");
  EXPECT_TRUE(internal::token_text("▁animal").starts_word);
  EXPECT_FALSE(internal::token_text("te").starts_word);
  EXPECT_EQ(internal::token_text("▁").text, "▁");
  for (const char* special : {"</s>", "<pad>", "<unk>", ">>deu<<"})
    EXPECT_TRUE(internal::token_text(special).special) << special;
  EXPECT_EQ(internal::token_text("<0xE2>").text, "E2");
  EXPECT_TRUE(internal::token_text("<0xE2>").special);
  for (const char* plain : {"<", "<>", "▁<b", "a>b", ">><<", "< b >"})
    EXPECT_FALSE(internal::token_text(plain).special) << plain;
  EXPECT_EQ(internal::token_text("\x1b[31m\xff").text, "\xEF\xBF\xBD[31m\xEF\xBF\xBD");
  EXPECT_EQ(internal::token_text("\xE2\x80\xAEturned").text, "\xEF\xBF\xBDturned");
}

TEST(TokenText, Widths) {
  EXPECT_EQ(internal::display_width("Straße"), 6);
  EXPECT_EQ(internal::display_width("漢字"), 4);
  EXPECT_EQ(internal::display_width("e\xCC\x81"), 1);  // a combining accent
  EXPECT_EQ(internal::display_width("👩‍👩‍👧"), 2);
  EXPECT_EQ(internal::characters("e\xCC\x81"
                                 "a")
                .size(),
            2U);
  EXPECT_EQ(internal::cut_to_width("überquerte", 5), "über…");
  EXPECT_EQ(internal::cut_to_width("漢字漢字", 4), "漢…");
  EXPECT_EQ(internal::cut_to_width("kurz", 4), "kurz");
}

TEST(TokenText, FindsWords) {
  const std::vector<std::string> tokens = {"▁It", "self", "▁over", "t", "ook", "▁it", "'", "s", "▁it", ".", "</s>"};
  const auto places = [&](const std::string& word) {
    std::vector<std::int64_t> begins;
    for (const auto& span : internal::find_word(tokens, word)) begins.push_back(span.begin);
    return begins;
  };
  EXPECT_EQ(places("it"), (std::vector<std::int64_t>{5, 8}));
  EXPECT_EQ(places("overtook"), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(internal::find_word(tokens, "overtook")[0].count, 3);
  EXPECT_EQ(places("Itself"), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(places("ITSELF"), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(places("took"), (std::vector<std::int64_t>{3}));  // a part of a word, where no word is so
  EXPECT_EQ(places("▁it"), (std::vector<std::int64_t>{5, 8}));
  EXPECT_EQ(places("it's"), (std::vector<std::int64_t>{5}));
  EXPECT_EQ(places("</s>"), (std::vector<std::int64_t>{10}));
  EXPECT_TRUE(places("animal").empty());
  EXPECT_TRUE(places("").empty());
}

TEST(AttentionText, WhatAWordLooksAt) {
  const AttentionRecord record = headway_test::animal_record();
  const TerminalDrawing drawing{.what = {.part = "encoder"}, .word = "it", .color = false, .width = 80};
  const std::vector<std::string> lines = lines_of(attention_text(record, drawing));
  ASSERT_EQ(lines.size(), 1U + 8 + 1);
  EXPECT_EQ(lines[0], "what it looks at: encoder, layer 4");
  EXPECT_TRUE(lines[5].starts_with("head 5    animal █████    0.62    street █▌       0.18")) << lines[5];
  EXPECT_TRUE(lines[9].starts_with("mean"));
  for (const std::string& line : lines) EXPECT_LE(internal::display_width(line), 80);
  const std::string one =
      attention_text(record, {.what = {.part = "encoder", .head = 4}, .word = "it", .color = false});
  EXPECT_EQ(lines_of(one).size(), 2U);
  EXPECT_PRED2(contains, attention_text(record, {.word = "überquerte"}), "\x1b[38;2;");
}

TEST(AttentionText, Maps) {
  const AttentionRecord record = headway_test::animal_record();
  const std::string map = attention_text(record, {.what = {.part = "encoder", .head = 4}, .color = false, .width = 60});
  EXPECT_PRED2(contains, map, "     it     ██          ▒▒");
  for (const std::int64_t width : {20, 40, 100, 300}) {
    for (const bool color : {false, true}) {
      const std::string all = attention_text(record, {.color = color, .width = width});
      for (const char* name : {"head 1", "head 8"}) EXPECT_PRED2(contains, all, name);
      if (color) continue;
      for (const std::string& line : lines_of(all)) {
        EXPECT_TRUE(line.starts_with("cross") || internal::display_width(line) <= width) << line;
      }
    }
  }
  EXPECT_PRED2(contains, attention_text(record, {.what = {.head = 0}, .color = false, .width = 20}),
               "each column the strongest of 2 tokens");
}

TEST(AttentionText, HostileTokensStayHarmless) {
  const AttentionRecord record = headway_test::hostile_record();
  const std::string text = attention_text(record, {.what = {.part = "encoder"}, .color = false});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\xE2\x80\xAE"), std::string::npos);
  const std::string word = attention_text(record, {.what = {.part = "encoder"}, .word = "</script>", .color = false});
  EXPECT_EQ(word.find('\x1b'), std::string::npos);
}

TEST(AttentionText, Errors) {
  const AttentionRecord record = headway_test::animal_record();
  const auto message = [&](const TerminalDrawing& drawing) {
    return message_of([&] { attention_text(record, drawing); });
  };
  EXPECT_EQ(message({.what = {.part = "both"}}),
            "attention_text: part is \"both\", expected one of encoder, decoder, cross");
  EXPECT_EQ(message({.what = {.layer = 4}}), "attention_text: layer is 4, expected 0 to 3, or -1 for the last");
  EXPECT_EQ(message({.what = {.head = 8}}), "attention_text: head is 8, expected 0 to 7, or -1 for all");
  EXPECT_EQ(message({.width = 3}), "attention_text: width is 3, expected at least 20");
  EXPECT_EQ(message({.word = "it"}),
            "attention_text: word is \"it\", which does not look in part cross; it does in encoder");
  EXPECT_PRED2(contains, message({.word = "Hund"}), "word is \"Hund\", expected one of: Das Tier überquerte");
  EXPECT_PRED2(contains, message_of([&] { attention_text({}); }), "record has no parts");
}

}  // namespace
