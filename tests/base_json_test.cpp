// JSON: what is read, what is refused and what is written.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "base/json.h"
#include "base/json_text.h"
#include "base/markup.h"
#include "base/utf8.h"
#include "support/files.h"
#include "support/message_of.h"

namespace {

using namespace headway::internal;
using namespace headway_test;

std::string complaint(const std::string& text, const JsonLimits& limits = {}) {
  return message_of([&] { parse_json(text, "x.json", limits); });
}

TEST(Json, EveryKind) {
  const Json json =
      parse_json(R"( {"n": null, "b": true, "i": -3, "d": 2.5, "s": "a\u00e9\n", "a": [1, []], "o": {}} )", "");
  ASSERT_TRUE(json.is_object());
  EXPECT_TRUE(json.at("n").is_null());
  EXPECT_TRUE(json.at("b").boolean());
  EXPECT_EQ(json.at("i").int64(), -3);
  EXPECT_TRUE(json.at("i").is_number());
  EXPECT_FALSE(json.at("i").is_uint64());
  EXPECT_EQ(json.at("d").number(), 2.5);
  EXPECT_FALSE(json.at("d").is_integer());
  EXPECT_EQ(json.at("s").string(), "aé\n");
  EXPECT_EQ(json.at("a").items().size(), 2u);
  EXPECT_TRUE(json.at("o").fields().empty());
  EXPECT_EQ(json.find("none"), nullptr);
  EXPECT_EQ(json.at("a").find("n"), nullptr);
  std::string names;
  for (const JsonField& field : json.fields()) names += field.name;
  EXPECT_EQ(names, "nbidsao");
  EXPECT_EQ(json.at("a").kind_name(), std::string("array"));
}

TEST(Json, IntegersOf64Bits) {
  const Json json = parse_json("[9223372036854775807, 9223372036854775808, 18446744073709551615, 1e3]", "");
  EXPECT_EQ(json.items()[0].int64(), std::numeric_limits<std::int64_t>::max());
  EXPECT_FALSE(json.items()[1].is_int64());
  EXPECT_TRUE(json.items()[1].is_integer());
  EXPECT_EQ(json.items()[2].uint64(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_FALSE(json.items()[3].is_integer());
  EXPECT_EQ(json.items()[3].number(), 1000.0);
}

TEST(Json, AnotherKindIsAnError) {
  const Json json = parse_json(R"({"a": "x"})", "");
  EXPECT_EQ(message_of([&] { json.at("a").int64(); }), "JSON: string, expected an integer of 64 bits");
  EXPECT_EQ(message_of([&] { json.at("a").items(); }), "JSON: string, expected an array");
  EXPECT_EQ(message_of([&] { json.at("b"); }), "JSON: has no \"b\"");
  EXPECT_EQ(message_of([&] { json.boolean(); }), "JSON: object, expected a boolean");
}

TEST(Json, ErrorsNameThePlace) {
  EXPECT_PRED2(contains, complaint(""), "x.json: is not JSON at byte 1");
  EXPECT_PRED2(contains, complaint("{\n  \"a\": 1,\n}"), "line 3");
  for (const char* text : {"{", "[1,]", "[1 2]", "nul", "{\"a\" 1}", "{1: 2}", "\"a", "01", "\"\xFF\"", "\"\xC0\xAF\"",
                           "[] []", "\"\\ud800\"", "'a'", "// x\n1", "NaN", "1e400000", "\"\n\""}) {
    EXPECT_PRED2(contains, complaint(text), "x.json: is not JSON at byte ") << text;
  }
  EXPECT_PRED2(contains, complaint(std::string("{}\0{", 4)), "is not JSON at byte 3: there is a zero byte");
  EXPECT_LT(complaint("[" + std::string(100'000, 'x')).size(), 400u);
}

TEST(Json, ANameTwiceIsRefused) {
  EXPECT_EQ(complaint(R"({"a": 1, "b": {"a": 2, "a": 3}})"), "x.json: has \"a\" twice");
  EXPECT_EQ(complaint(R"([{"a": 1}, {"a": 2}])"), "no error");
}

TEST(Json, DepthHasALimit) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_EQ(complaint(nested(64)), "no error");
  EXPECT_PRED2(contains, complaint(nested(65)), "nested deeper than 64");
  EXPECT_PRED2(contains, complaint(nested(3), {.depth = 2}), "nested deeper than 2");
  EXPECT_PRED2(contains, complaint(std::string(100'000, '[')), "nested deeper than 64");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_PRED2(contains, complaint(objects), "nested deeper than 64");
  EXPECT_EQ(complaint(" \n" + std::string(100'000, '[')),
            "x.json: is not JSON at byte 67: arrays and objects are nested deeper than 64");
}

// Events have the same limits as trees, whatever they do themselves.
TEST(Json, EventsHaveLimits) {
  struct Counting : JsonEvents {
    void null() override {}
    void boolean(bool) override {}
    void negative(std::int64_t) override {}
    void integer(std::uint64_t) override {}
    void number(double, std::string_view) override {}
    void string(std::string&&) override {}
    void key(std::string&&) override {}
    void start_object() override { ++opened; }
    void end_object() override {}
    void start_array() override { ++opened; }
    void end_array() override {}
    void invalid(std::size_t byte, std::string_view reason) override {
      throw headway::Error(std::to_string(byte) + ": " + std::string(reason));
    }
    int opened = 0;
  };
  Counting events;
  EXPECT_EQ(message_of([&] { scan_json(std::string(1'000'000, '['), events); }),
            "65: arrays and objects are nested deeper than 64");
  EXPECT_EQ(events.opened, 64);
  EXPECT_EQ(message_of([&] { scan_json("[[1]]", events, {.depth = 1}); }),
            "2: arrays and objects are nested deeper than 1");
  EXPECT_EQ(message_of([&] { scan_json("[1, 2]", events, {.bytes = 3}); }), "4: it has 6 bytes, expected at most 3");
  EXPECT_EQ(message_of([&] { scan_json("[[1], [2], {}]", events, {.depth = 2}); }), "no error");
}

// Damaged texts are read or refused, and what is read comes back from its own text.
TEST(Json, DamagedTexts) {
  const std::string whole =
      R"({"a": [1, -2, 3.5e-7, true, null, {"é\u00e9\ud83e\udd2f": "\n\"\\"}], "b": {}, "c": 18446744073709551615})";
  std::mt19937 random(1);
  const auto below = [&random](std::size_t end) { return random() % end; };
  int good = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
      const std::size_t place = below(text.size());
      switch (below(4)) {
        case 0:
          text.erase(place, 1 + below(4));
          break;
        case 1:
          text.insert(place, 1, "[]{},:\"\\0-.e \xFF"[below(15)]);
          break;
        case 2:
          text[place] = static_cast<char>(below(256));
          break;
        default:
          text.insert(place, text.substr(below(text.size()), below(20)));
      }
      if (text.empty()) text = "x";
    }
    try {
      const std::string once = parse_json(text, "x.json").text();
      EXPECT_EQ(parse_json(once, "x.json").text(), once);
      ++good;
    } catch (const headway::Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("x.json: ")) << error.what();
    }
  }
  EXPECT_GT(good, 500);
  EXPECT_LT(good, 19'500);
}

TEST(Json, SizeHasALimit) {
  EXPECT_EQ(complaint("[1]", {.bytes = 3}), "no error");
  EXPECT_EQ(complaint("[1] ", {.bytes = 3}), "x.json: has 4 bytes, expected at most 3");
}

TEST(Json, CommentsOnlyOnRequest) {
  EXPECT_EQ(parse_json("// a\n[1, /* two */ 2]", "", {.comments = true}).items().size(), 2u);
}

TEST(Json, FilesAreNamed) {
  const TemporaryDirectory directory;
  const std::string name = (directory / "c.json").string();
  EXPECT_EQ(message_of([&] { read_json(name); }), name + ": no such file");
  write_bytes(name, "{\"a\": 1");
  EXPECT_PRED2(contains, message_of([&] { read_json(name); }), name + ": is not JSON at byte 8");
  write_bytes(name, "{\"a\": 1}");
  EXPECT_EQ(read_json(name).at("a").int64(), 1);
  EXPECT_EQ(message_of([&] { read_json(name, {.bytes = 7}); }), name + ": has 8 bytes, expected at most 7");
  EXPECT_PRED2(contains, message_of([&] { read_json(directory.path()); }), "is a directory, expected a file");
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_PRED2(contains, message_of([&] { read_json(directory / "pipe"); }), "pipe: is not a regular file");
}

// A vocabulary: a reader that looks at every earlier key for each new one takes billions of steps.
TEST(Json, LargeObjectsTakeLinearTime) {
  constexpr int kCount = 60'000;
  std::string text = "{";
  for (int i = 0; i < kCount; ++i)
    text += (i ? ", \"token " : "\"token ") + std::to_string(i) + "\": " + std::to_string(i);
  text += "}";
  const auto start = std::chrono::steady_clock::now();
  Json json = parse_json(text, "vocab.json");
  ASSERT_EQ(json.fields().size(), static_cast<std::size_t>(kCount));
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(json.at("token " + std::to_string(i)).int64(), i);
  for (int i = 0; i < kCount; ++i) json.set("token " + std::to_string(i), i + 1);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(json.fields().size(), static_cast<std::size_t>(kCount));
  EXPECT_EQ(json.fields()[17].value.int64(), 18);
  EXPECT_EQ(json.find("token -1"), nullptr);
  EXPECT_LT(seconds, 20.0);  // some hundredths here, ten seconds under an emulator, minutes where it is quadratic
}

TEST(Json, Text) {
  const Json json = {
      {"a", std::vector<Json>{1, 2.0, "x"}}, {"b", Json::object()}, {"c", Json::array()}, {"d", nullptr}, {"e", false},
      {"f", std::uint64_t{1} << 63}};
  EXPECT_EQ(json.text(), R"({"a":[1,2.0,"x"],"b":{},"c":[],"d":null,"e":false,"f":9223372036854775808})");
  EXPECT_EQ(json.text(2),
            "{\n  \"a\": [\n    1,\n    2.0,\n    \"x\"\n  ],\n  \"b\": {},\n  \"c\": [],\n  \"d\": null,\n"
            "  \"e\": false,\n  \"f\": 9223372036854775808\n}");
  for (const double value : {0.1, 1e-5, 0.0001, 1e15, 1e22, 5e-324, 1.7976931348623157e308, 100000.0, -0.0}) {
    const Json back = parse_json(Json(value).text(), "");
    EXPECT_FALSE(back.is_integer()) << Json(value).text();
    EXPECT_EQ(back.number(), value);
  }
  EXPECT_EQ(Json(0.0001).text(), "0.0001");
  EXPECT_EQ(Json(1e-5).text(), "1e-05");
  EXPECT_EQ(Json(NAN).text(), "null");
}

TEST(JsonText, Strings) {
  EXPECT_EQ(json_string("a\"b\\c\n\x01 é 🤯 </s>\x7F"), "\"a\\\"b\\\\c\\u000a\\u0001 é 🤯 </s>\x7F\"");
  EXPECT_EQ(json_string("\xFF"
                        "a\xE2\x82"),
            "\"\xEF\xBF\xBD"
            "a\xEF\xBF\xBD\"");
  EXPECT_EQ(json_script_string("</script>\xE2\x80\xA8\xE2\x80\xA9"), "\"\\u003c/script>\\u2028\\u2029\"");
  std::string all;
  for (char32_t c = 1; c < 0x300; ++c) headway::internal::append_utf8(all, c);
  EXPECT_EQ(parse_json(json_string(all), "").string(), all);
  EXPECT_EQ(parse_json(json_script_string(all), "").string(), all);
}

TEST(JsonText, Numbers) {
  EXPECT_EQ(json_number(0.25), "0.25");
  EXPECT_EQ(json_number(3), "3");
  EXPECT_EQ(json_number(INFINITY), "null");
  EXPECT_EQ(json_number(NAN), "null");
}

TEST(Markup, Escapes) { EXPECT_EQ(escape_markup("<a b='&' c=\"d\">"), "&lt;a b=&#39;&amp;&#39; c=&quot;d&quot;&gt;"); }

}  // namespace
