// Records whose tokens are patches of pictures, stretches of sound, frames or items.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "headway/attention_view.h"
#include "support/attention_record.h"
#include "support/media_record.h"
#include "support/message_of.h"

namespace {

using headway::AttentionMedium;
using headway::AttentionRecord;
using headway::MediumKind;
using headway::Tensor;
using headway_test::contains;
using headway_test::message_of;
using nlohmann::json;

// The header of a PNG of 6 by 4 pixels.
std::string png_header() { return std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x06\0\0\0\x04", 24); }

// Two words over a class token and 2 x 3 patches.
AttentionRecord small_record() {
  AttentionRecord record = {"a picture", "two words", "", {}};
  record.parts.push_back({"cross", {"▁two", "▁words"}, {}, {Tensor::full({2, 2, 7}, 1.0 / 7.0)}});
  record.parts[0].keys = {"class", "1 1", "1 2", "1 3", "2 1", "2 2", "2 3"};
  record.parts[0].key_medium = {.kind = MediumKind::picture, .png = png_header(), .first = 1, .rows = 2, .columns = 3};
  return record;
}

TEST(AttentionMedia, JsonHasTheMedium) {
  const json part = json::parse(attention_json(small_record()))["parts"][0];
  EXPECT_FALSE(part.contains("query_medium"));
  const json& medium = part["key_medium"];
  EXPECT_EQ(medium["kind"], "picture");
  EXPECT_EQ(medium["first"], 1);
  EXPECT_EQ(medium["rows"], 2);
  EXPECT_EQ(medium["columns"], 3);
  EXPECT_EQ(medium["width"], 6);
  EXPECT_EQ(medium["height"], 4);
  EXPECT_TRUE(medium["png"].get<std::string>().starts_with("iVBORw0KGgo"));
}

TEST(AttentionMedia, WrongMediaAreRefused) {
  const auto message = [](auto change) {
    AttentionRecord record = small_record();
    change(record.parts[0].key_medium);
    return message_of([&] { attention_json(record); });
  };
  const auto unchanged = [](AttentionMedium&) {};
  EXPECT_EQ(message(unchanged), "no error");
  EXPECT_PRED2(contains, message([](AttentionMedium& medium) { medium.columns = 4; }), "to be its 7 tokens");
  EXPECT_PRED2(contains, message([](AttentionMedium& medium) { medium.rows = std::int64_t{1} << 62; }), "columns 3");
  EXPECT_PRED2(contains, message([](AttentionMedium& medium) { medium.first = -1; }), "first is -1");
  EXPECT_PRED2(contains, message([](AttentionMedium& medium) { medium.frames = 2; }), "a picture of 2 frames");
  EXPECT_PRED2(contains, message([](AttentionMedium& medium) { medium.png = "GIF89a"; }), "PNG's signature");
  EXPECT_PRED2(contains, message([](AttentionMedium& medium) { medium.kind = MediumKind::sound; }), "2 rows");
  EXPECT_PRED2(contains, message([](AttentionMedium& medium) { medium.kind = MediumKind::list; }), "list with a png");
  for (const double seconds :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_PRED2(contains, message([&](AttentionMedium& medium) { medium.seconds = seconds; }), "seconds are");
  }
  EXPECT_EQ(message([](AttentionMedium& medium) { medium = {.kind = MediumKind::list}; }), "no error");
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

const char* const kPng = "href=\"data:image/png;base64,iVBORw0KGgo";

TEST(AttentionMedia, PictureOfEachWord) {
  const std::string svg = attention_svg(headway_test::picture_record());
  EXPECT_PRED2(contains, svg, "cross-attention · layer 2 of 2 · mean of 3 heads");
  EXPECT_EQ(count_of(svg, "href=\"#medium\""), 4U);  // by itself, and under each word but </s>
  EXPECT_EQ(count_of(svg, kPng), 1U + 3U);
  for (const char* word : {">sun<", ">above<", ">sea<"}) EXPECT_EQ(count_of(svg, word), 1U) << word;
  EXPECT_LT(svg.size(), 250000U);
  EXPECT_PRED2(contains, attention_svg(headway_test::picture_record(), {.head = 1}), "layer 2 of 2 · head 2");
  // Patches that look: their mean, then every head.
  const std::string encoder = attention_svg(headway_test::picture_record(), {.part = "encoder"});
  EXPECT_PRED2(contains, encoder, ">mean of all patches<");
  EXPECT_PRED2(contains, encoder, ">head 3<");
}

TEST(AttentionMedia, PictureThatLooksAtWords) {
  AttentionRecord record = headway_test::picture_record();
  headway::AttentionPart& cross = record.parts[2];
  std::swap(cross.queries, cross.keys);
  std::swap(cross.query_medium, cross.key_medium);
  for (Tensor& layer : cross.layers) layer = layer.transpose(1, 2).contiguous();
  EXPECT_EQ(attention_svg(record), attention_svg(headway_test::picture_record()));
}

TEST(AttentionMedia, SoundWithCurvesAndAlignment) {
  const std::string svg = attention_svg(headway_test::sound_record());
  EXPECT_EQ(count_of(svg, ">one<"), 2U);  // above its peak and beside the alignment
  EXPECT_EQ(count_of(svg, kPng), 2U);     // the spectrogram and the alignment
  EXPECT_PRED2(contains, svg, ">0.0 s<");
  EXPECT_PRED2(contains, svg, ">2.5<");
  AttentionRecord silent = headway_test::sound_record();
  silent.parts[2].key_medium.png.clear();
  EXPECT_EQ(count_of(attention_svg(silent), kPng), 1U);
}

TEST(AttentionMedia, FramesInARow) {
  const std::string svg = attention_svg(headway_test::video_record());
  EXPECT_EQ(count_of(svg, "href=\"#medium\""), 6U * 4);  // the class token's mean, and three heads
  EXPECT_PRED2(contains, svg, "viewBox=\"48 0 24 24\"");
}

TEST(AttentionMedia, ListAsBars) {
  const std::string svg = attention_svg(headway_test::list_record());
  EXPECT_PRED2(contains, svg, ">after item 444<");
  EXPECT_EQ(count_of(svg, "<circle"), 8U * 3);
  // Words over items: a table.
  AttentionRecord record = headway_test::list_record();
  record.parts[0].query_medium = {};
  const std::string table = attention_svg(record);
  EXPECT_PRED2(contains, table, "area: the weight");
  EXPECT_GE(count_of(table, "<circle"), 8U * 9 / 2 - 4);
}

TEST(AttentionMedia, Terminal) {
  const auto text = [](const AttentionRecord& record, const std::string& part, const std::string& word) {
    return attention_text(record, {.what = {.part = part}, .word = word, .color = false, .width = 60});
  };
  const std::string patches = text(headway_test::picture_record(), "cross", "");
  EXPECT_PRED2(contains, patches, "cross, layer 2, mean of 3 heads\n\nsun            above          sea");
  EXPECT_EQ(count_of(patches, "\n"), 3U + 6U);
  EXPECT_PRED2(contains, text(headway_test::picture_record(), "cross", "sun"), "row 2 column 5");
  EXPECT_PRED2(contains, text(headway_test::picture_record(), "encoder", ""), "mean of all");
  const std::string sound = text(headway_test::sound_record(), "", "");
  EXPECT_PRED2(contains, sound, "\none ");
  EXPECT_PRED2(contains, sound, "    0.0 s ");
  EXPECT_PRED2(contains, sound, "3.0 s\n");
  EXPECT_PRED2(contains, text(headway_test::video_record(), "", ""), "class ");
  EXPECT_PRED2(contains, text(headway_test::video_record(), "", ""), "6 frames");
  EXPECT_PRED2(contains, text(headway_test::video_record(), "", "class"), "frame 3 row 2");
  EXPECT_PRED2(contains, text(headway_test::list_record(), "", "item 444"), "item 5020");
}

TEST(AttentionMedia, HostileNamesStayText) {
  AttentionRecord record = headway_test::picture_record();
  record.target = "</title><script>";
  record.parts[2].queries[0] = "▁<img onerror=\"x\">";
  record.parts[2].name = "<cross>";
  const std::string svg = attention_svg(record, {.part = "<cross>"});
  EXPECT_EQ(svg.find("<img"), std::string::npos);
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_EQ(svg.find("<cross>"), std::string::npos);
}

TEST(AttentionMedia, LabelsOfCells) {
  EXPECT_EQ(headway::medium_labels({.kind = MediumKind::picture, .first = 1, .rows = 2, .columns = 1}),
            (std::vector<std::string>{"class", "row 1 column 1", "row 2 column 1"}));
  EXPECT_EQ(headway::medium_labels({.kind = MediumKind::video, .frames = 2, .rows = 1, .columns = 1}),
            (std::vector<std::string>{"frame 1 row 1 column 1", "frame 2 row 1 column 1"}));
  EXPECT_EQ(headway::medium_labels({.kind = MediumKind::sound, .rows = 1, .columns = 3, .seconds = 0.02}),
            (std::vector<std::string>{"0.00 s", "0.02 s", "0.04 s"}));
  EXPECT_EQ(headway::medium_labels({.kind = MediumKind::sound, .rows = 1, .columns = 1}).front(), "position 1");
  EXPECT_PRED2(contains, message_of([] { headway::medium_labels({}); }), "medium is a text");
}

TEST(AttentionMedia, RecordOfAForward) {
  headway::ModelResult result;
  const auto layer = [](std::int64_t queries, std::int64_t keys) {
    return Tensor::full({2, 3, queries, keys}, 1.0 / static_cast<double>(keys));
  };
  result.encoder_weights = {layer(6, 6), layer(6, 6)};
  result.decoder_weights = {layer(2, 2)};
  result.cross_weights = {layer(2, 6)};
  headway::MediaTokens tokens = {.medium = {.kind = MediumKind::sound, .rows = 1, .columns = 4, .seconds = 0.1},
                                 .padding = 2,
                                 .read = {"<s>", "one"},
                                 .written = {"one", "</s>"},
                                 .sample = 1};
  const AttentionRecord record = attention_record(result, tokens);
  ASSERT_EQ(record.parts.size(), 3U);
  EXPECT_EQ(record.parts[0].layers[1].shape(), (headway::Shape{3, 4, 4}));
  EXPECT_EQ(record.parts[2].layers[0].shape(), (headway::Shape{3, 2, 4}));
  EXPECT_EQ(record.parts[2].key_medium.kind, MediumKind::sound);
  EXPECT_EQ(record.parts[2].query_medium.kind, MediumKind::text);
  EXPECT_EQ(record.parts[1].keys, tokens.read);
  EXPECT_EQ(record.parts[0].queries[3], "0.30 s");
  EXPECT_FALSE(attention_json(record).empty());

  const auto message = [&](auto change) {
    headway::MediaTokens changed = tokens;
    change(changed);
    return message_of([&] { attention_record(result, changed); });
  };
  EXPECT_PRED2(contains, message([](auto& changed) { changed.padding = 1; }), "4 of keys and 1 of padding");
  EXPECT_PRED2(contains, message([](auto& changed) { changed.sample = 2; }), "sample is 2, expected 0 to 1");
  EXPECT_PRED2(contains, message([](auto& changed) { changed.written.pop_back(); }), "1 names of queries");
  EXPECT_PRED2(contains, message_of([&] { attention_record({}, tokens); }), "Weights::per_head");
}

}  // namespace
