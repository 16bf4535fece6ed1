// attention_html, attention_json and attention_svg: what is in the files, and that no token breaks out of them.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "base/base64.h"
#include "base/markup.h"
#include "headway/attention_view.h"
#include "support/attention_record.h"
#include "support/message_of.h"

namespace {

using headway::AttentionPart;
using headway::AttentionRecord;
using headway::Tensor;
using headway_test::contains;
using headway_test::message_of;
using nlohmann::json;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// What stands between two marks.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t begin = text.find(before);
  if (begin == std::string::npos) return {};
  const std::size_t start = begin + before.size();
  return text.substr(start, text.find(after, start) - start);
}

std::string unbase64(const std::string& text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6U | static_cast<std::uint32_t>(digits.find(c));
    count += 6;
    if (count >= 8) bytes.push_back(static_cast<char>(bits >> (count -= 8) & 0xFFU));
  }
  return bytes;
}

std::string inflate_bytes(const std::string& packed, std::size_t size) {
  std::string bytes(size, '\0');
  uLongf length = size;
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &length, reinterpret_cast<const Bytef*>(packed.data()),
                       packed.size()),
            Z_OK);
  EXPECT_EQ(length, size);
  return bytes;
}

TEST(Packing, Base64) {
  const std::pair<std::string, const char*> cases[] = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {{'\xff', '\0', '\xfe'}, "/wD+"}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(headway::internal::base64(bytes), text);
}

TEST(AttentionHtml, HoldsTheWeights) {
  const AttentionRecord record = headway_test::animal_record();
  const std::string page = attention_html(record);
  EXPECT_EQ(attention_html(record), page);
  const json head = json::parse(between(page, "id=\"record\">", "</script>"));
  EXPECT_EQ(head["source"], "The animal didn't cross the street because it was too tired.");
  EXPECT_EQ(head["target"], "Das Tier überquerte die Straße nicht, weil es zu müde war.");
  ASSERT_EQ(head["parts"].size(), 3U);
  EXPECT_EQ(head["parts"][0]["keys"][2], "▁animal");
  EXPECT_EQ(head["parts"][2]["heads"], 8);

  const Tensor& layer = record.parts[0].layers[3];
  const std::size_t rows = 8 * 16, keys = 16;
  const std::string bytes =
      inflate_bytes(unbase64(between(page, "id=\"weights-0-3\">", "</script>")), rows * (4 + keys));
  for (std::size_t row = 0; row < rows; ++row) {
    float largest = 0;
    std::memcpy(&largest, bytes.data() + 4 * row, 4);
    for (std::size_t k = 0; k < keys; ++k) {
      const float level = static_cast<unsigned char>(bytes[4 * rows + row * keys + k]);
      EXPECT_NEAR(level / 255 * largest, layer.data<float>()[row * keys + k], largest / 509);
    }
  }
  for (const char* name : {"0-mean", "0-rollout", "1-mean", "1-rollout", "2-mean", "2-rollout", "2-0", "2-3"}) {
    EXPECT_PRED2(contains, page, std::string("id=\"weights-") + name + "\"");
  }
}

TEST(AttentionHtml, NeedsNothingFromOutside) {
  const std::string page = attention_html(headway_test::animal_record());
  EXPECT_PRED2(contains, page, "default-src 'none'");
  for (const char* outside : {"<link", "@import", "src=\"", "fetch(", "XMLHttpRequest", "import("}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  EXPECT_EQ(count_of(page, "http"), count_of(page, "http-equiv") + count_of(page, "http://www.w3.org/2000/svg"));
}

// The one script and the one style sheet are allowed by what they hold, and nothing else is.
TEST(AttentionHtml, PolicyNamesItsScriptAndStyle) {
  // From a shell: printf %s 'alert(1)' | openssl dgst -sha256 -binary | base64
  EXPECT_EQ(headway::internal::policy_hash("alert(1)"), "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='");
  const std::string page = attention_html(headway_test::hostile_record());
  const std::string policy = between(page, "Content-Security-Policy\"\n  content=\"", "\"");
  EXPECT_EQ(count_of(policy, "unsafe"), 0U) << policy;
  EXPECT_EQ(count_of(page, "style=\""), 1U);  // in the SVG that the page saves, where no policy holds
  for (const char* kind : {"script", "style"}) {
    const std::string tag(kind), content = between(page, "<" + tag + ">", "</" + tag + ">");
    EXPECT_GT(content.size(), 1000U);
    EXPECT_PRED2(contains, policy, tag + "-src " + headway::internal::policy_hash(content));
  }
}

TEST(AttentionHtml, TokensCannotBreakOut) {
  const AttentionRecord record = headway_test::hostile_record();
  const std::string page = attention_html(record);
  const std::string plain = attention_html(
      headway_test::make_record({.source = {"▁a", "▁b"}, .target = {"▁c"}, .layers = 2, .heads = 4, .seed = 1}));
  for (const char* tag : {"<script", "</script>", "</title>", "<img", "<body"}) {
    EXPECT_EQ(count_of(page, tag), count_of(plain, tag)) << tag;
  }
  const json head = json::parse(between(page, "id=\"record\">", "</script>"));
  EXPECT_EQ(head["parts"][0]["keys"][0], "▁</script>");
  EXPECT_EQ(head["parts"][0]["keys"][16], "▁\xEF\xBF\xBD");  // was not UTF-8
}

TEST(AttentionHtml, OddRecords) {
  // One token, and rows of nothing.
  const AttentionRecord tiny{"a", "", "", {{"encoder", {"a"}, {"a"}, {Tensor::zeros({1, 1, 1})}}}};
  EXPECT_PRED2(contains, attention_html(tiny), "weights-0-rollout");
  // Without the encoder and the decoder there is no rollout of the cross-attention.
  AttentionRecord cross = headway_test::animal_record();
  cross.parts.erase(cross.parts.begin(), cross.parts.begin() + 2);
  EXPECT_EQ(attention_html(cross).find("weights-0-rollout"), std::string::npos);
  AttentionRecord empty = tiny;
  empty.parts[0] = {"encoder", {}, {}, {Tensor::zeros({1, 0, 0})}};
  EXPECT_PRED2(contains, message_of([&] { attention_html(empty); }), "has no queries or no keys");
  AttentionRecord twice = tiny;
  twice.parts.push_back(twice.parts[0]);
  EXPECT_PRED2(contains, message_of([&] { attention_html(twice); }), "two parts named \"encoder\"");
  // Other floating types.
  AttentionRecord half = headway_test::animal_record();
  for (Tensor& layer : half.parts[0].layers) layer = layer.to(headway::DType::bfloat16);
  EXPECT_FALSE(attention_html(half).empty());
  half.parts[0].layers[0] = Tensor::zeros({8, 16, 16}, headway::DType::int64);
  EXPECT_PRED2(contains, message_of([&] { attention_html(half); }), "is int64[8, 16, 16], expected weights");
}

TEST(AttentionJson, ReadsBackExactly) {
  const AttentionRecord record = headway_test::animal_record();
  const json numbers = json::parse(attention_json(record));
  EXPECT_EQ(numbers["language"], "deu");
  for (std::size_t p = 0; p < record.parts.size(); ++p) {
    const AttentionPart& part = record.parts[p];
    EXPECT_EQ(numbers["parts"][p]["name"], part.name);
    EXPECT_EQ(numbers["parts"][p]["queries"].get<std::vector<std::string>>(), part.queries);
    for (std::size_t layer = 0; layer < part.layers.size(); ++layer) {
      const float* weight = part.layers[layer].data<float>();
      for (const json& head : numbers["parts"][p]["layers"][layer]) {
        for (const json& row : head) {
          for (const json& value : row) ASSERT_EQ(value.get<float>(), *weight++);
        }
      }
    }
    EXPECT_EQ(numbers["parts"][p]["mean"].size(), part.queries.size());
    EXPECT_EQ(numbers["parts"][p]["rollout"].size(), part.queries.size());
  }
  EXPECT_EQ(json::parse(attention_json(headway_test::hostile_record()))["parts"][0]["keys"][12], "▁<!--");
}

TEST(AttentionSvg, HeadsAndTokens) {
  const AttentionRecord record = headway_test::animal_record();
  const std::string all = attention_svg(record, {.part = "encoder"});
  EXPECT_TRUE(all.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_EQ(count_of(all, ">animal</text>"), 2U * 8);
  EXPECT_EQ(count_of(all, ">head "), 8U);
  const std::string one = attention_svg(record, {.layer = 0, .head = 2});
  EXPECT_EQ(count_of(one, ">head 3<"), 1U);
  EXPECT_EQ(count_of(one, "class=\"special\""), 3U);
  EXPECT_PRED2(contains, one, "cross, layer 1");
  EXPECT_PRED2(contains, message_of([&] { attention_svg(record, {.layer = -2}); }), "layer is -2");
}

TEST(AttentionSvg, LargeMapsArePictures) {
  const std::string svg = attention_svg(headway_test::large_record(200), {.part = "cross"});
  EXPECT_EQ(count_of(svg, "data:image/png;base64,iVBORw0KGgo"), 8U);
  EXPECT_LT(svg.size(), 2000000U);
}

TEST(AttentionSvg, TokensCannotBreakOut) {
  const std::string svg = attention_svg(headway_test::hostile_record(), {.part = "encoder"});
  EXPECT_EQ(svg.find("<img"), std::string::npos);
  EXPECT_EQ(svg.find("</script"), std::string::npos);
  EXPECT_EQ(svg.find('\x1b'), std::string::npos);
  EXPECT_PRED2(contains, svg, "&lt;/script&gt;");
  EXPECT_PRED2(contains, svg, "&amp;amp;");
}

}  // namespace
