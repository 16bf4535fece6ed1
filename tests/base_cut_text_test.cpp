// Where long texts are cut: between sentences, words, characters.
#include <gtest/gtest.h>

#include "base/cut_text.h"
#include "base/utf8.h"

namespace {

using headway::internal::cut_place;
using headway::internal::is_utf8;

std::vector<std::string> parts_of(std::string_view text, std::size_t most) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    parts.emplace_back(text.substr(0, cut_place(text, most)));
    text.remove_prefix(parts.back().size());
  }
  return parts;
}
using Parts = std::vector<std::string>;

TEST(CutText, ShortTextsStayWhole) {
  EXPECT_EQ(cut_place("", 8), 0u);
  EXPECT_EQ(cut_place("12345678", 8), 8u);
}

TEST(CutText, BetweenSentencesThenWordsThenCharacters) {
  EXPECT_EQ(parts_of("It is late. We go home now.", 18), (Parts{"It is late.", " We go home now."}));
  EXPECT_EQ(parts_of("It is. We go home", 16),
            (Parts{"It is. We go", " home"}));  // the sentence ends in the first half
  EXPECT_EQ(parts_of("one two  three", 9), (Parts{"one two", "  three"}));
  EXPECT_EQ(parts_of("one two three", 7), (Parts{"one two", " three"}));
  EXPECT_EQ(parts_of("aaaaaaaaaaaa", 8), (Parts{"aaaaaaaa", "aaaa"}));
  EXPECT_EQ(parts_of("😀😀😀", 9), (Parts{"😀😀", "😀"}));
  EXPECT_EQ(parts_of(std::string(20, ' '), 8), (Parts{std::string(8, ' '), std::string(8, ' '), std::string(4, ' ')}));
}

// Every part but the last ends a character, none is empty, and all together are the text.
TEST(CutText, PartsAreTheText) {
  const std::string text = "Ein schöner Tag… Was für ein Tag! 日本語の文章。とても長い。 x";
  for (std::size_t most = 8; most < text.size() + 2; ++most) {
    std::string all;
    for (const std::string& part : parts_of(text, most)) {
      EXPECT_FALSE(part.empty());
      EXPECT_LE(part.size(), most);
      EXPECT_TRUE(is_utf8(part)) << part;
      all += part;
    }
    EXPECT_EQ(all, text);
  }
  // What is not UTF-8 comes to an end, too.
  const std::string broken(100, '\x80');
  EXPECT_EQ(parts_of(broken, 8).size(), 13u);
}

}  // namespace
