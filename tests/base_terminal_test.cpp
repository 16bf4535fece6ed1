// Texts that a terminal shows and never obeys.
#include <gtest/gtest.h>

#include "base/terminal.h"

namespace headway {
namespace {

using internal::visible_text;
using internal::visible_token;

TEST(Terminal, ControlCharactersAreWrittenOut) {
  EXPECT_EQ(visible_token("plain \xC3\xA4 \xE2\x96\x81word \xF0\x9F\xA4\xAF"),
            "plain \xC3\xA4 \xE2\x96\x81word \xF0\x9F\xA4\xAF");
  EXPECT_EQ(visible_token("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(visible_token(std::string("\0\t\n\r\x7f", 5)), "\\x00\\x09\\x0a\\x0d\\x7f");
  EXPECT_EQ(visible_token("\xC2\x9B"
                          "2J\xC2\x85"),
            "\\u009b2J\\u0085");
  EXPECT_EQ(visible_token("a\xE2\x80\xAE"
                          "b\xE2\x81\xA6"
                          "c\xD8\x9C\xE2\x80\x8F\xE2\x80\xA8"),
            "a\\u202eb\\u2066c\\u061c\\u200f\\u2028");
  EXPECT_EQ(visible_token("\xFF\xE2\x82"), "\\xff\\xe2\\x82");
  EXPECT_EQ(visible_token("\xC2\xA0"), "\xC2\xA0");  // a space that does not break is no control
}

TEST(Terminal, TextsKeepTabsLinesAndDirections) {
  EXPECT_EQ(visible_text("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(visible_text("\xE2\x80\x8F\xD7\xA9"), "\xE2\x80\x8F\xD7\xA9");
  EXPECT_EQ(visible_text("\x1b]0;title\a \xC2\x9B"
                         "1m \r"),
            "\\x1b]0;title\\x07 \\u009b1m \\x0d");
}

}  // namespace
}  // namespace headway
