// Records whose tokens are patches of pictures, stretches of sound, frames or items.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "headway/attention_view.h"
#include "support/attention_record.h"
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
AttentionRecord picture_record() {
  AttentionRecord record = {"a picture", "two words", "", {}};
  record.parts.push_back({"cross", {"▁two", "▁words"}, {}, {Tensor::full({2, 2, 7}, 1.0 / 7.0)}});
  record.parts[0].keys = {"class", "1 1", "1 2", "1 3", "2 1", "2 2", "2 3"};
  record.parts[0].key_medium = {.kind = MediumKind::picture, .png = png_header(), .first = 1, .rows = 2, .columns = 3};
  return record;
}

TEST(AttentionMedia, JsonHasTheMedium) {
  const json part = json::parse(attention_json(picture_record()))["parts"][0];
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
    AttentionRecord record = picture_record();
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

}  // namespace
