// BLEU and chrF against numbers that sacreBLEU 2.6.0 gave for the same texts.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "headway/translation_scores.h"
#include "support/message_of.h"

namespace headway {
namespace {

using headway_test::contains;
using headway_test::message_of;
using Texts = std::vector<std::string>;

constexpr double kTolerance = 1e-9;

const Texts kHypotheses = {"The cat sat on the mat.",
                           "Das Haus ist 3,5 m hoch - oder 1.000 km.",
                           "\"Yes,\" he said; it's 5-6 o'clock & raining!",
                           "Straße: größer als früher…",
                           "我们 今天 去 学校。",
                           "emoji 🤯 fun",
                           "",
                           "a b c"};
const Texts kReferences = {"The cat sat on a mat.",
                           "Das Haus ist 3,6 m hoch -- oder 1.000 km.",
                           "\"Yes\", he said, it's 5-7 o'clock &amp; raining.",
                           "Die Straße war größer als früher.",
                           "我们 今天 去 学校 了。",
                           "Emoji 🤯 is fun",
                           "nothing",
                           "a b c"};

TEST(TextScores, Bleu) {
  const BleuScore result = bleu(kHypotheses, kReferences);
  EXPECT_NEAR(result.score, 26.90685242346799, kTolerance);
  const double precisions[] = {79.16666666666667, 51.21951219512195, 26.470588235294116, 7.407407407407407};
  ASSERT_EQ(result.precisions.size(), 4u);
  for (std::size_t n = 0; n < 4; ++n) EXPECT_NEAR(result.precisions[n], precisions[n], kTolerance);
  EXPECT_NEAR(result.brevity_penalty, 0.9010751057212905, kTolerance);
  EXPECT_EQ(result.hypothesis_length, 48);
  EXPECT_EQ(result.reference_length, 53);
  EXPECT_EQ(result.signature, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0");
}

TEST(TextScores, Chrf) {
  const ChrfScore result = chrf(kHypotheses, kReferences);
  EXPECT_NEAR(result.score, 61.537855911825304, kTolerance);
  EXPECT_EQ(result.signature, "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0");
}

TEST(TextScores, Corners) {
  struct Case {
    const char* hypothesis;
    const char* reference;
    double bleu;
    double brevity_penalty;
    double chrf;
  };
  const Case cases[] = {
      {"a b c d", "a b c d", 100.0, 1.0, 100.0},
      {"a b c", "a b c", 0.0, 1.0, 100.0},
      {"x y z w v", "a b c d e", 0.0, 1.0, 0.0},
      {"a b c d e f", "a x b y c z", 10.682175159905853, 1.0, 8.333333333333332},
      {"", "a", 0.0, 0.0, 0.0},
      {"a", "", 0.0, 1.0, 0.0},
      {"the the the the the", "the cat the dog the bird", 11.51015341649912, 0.8187307530779819, 18.05822865515068},
      {"a b", "a b c d e f g", 0.0, 0.0820849986238988, 26.76056338028169},
      {"a b c d e x", "a b c d e y z w v u", 39.01126486653949, 0.513417119032592, 32.818103141278876},
  };
  for (const Case& c : cases) {
    const BleuScore score = bleu({c.hypothesis}, {c.reference});
    EXPECT_NEAR(score.score, c.bleu, kTolerance) << c.hypothesis;
    EXPECT_NEAR(score.brevity_penalty, c.brevity_penalty, kTolerance) << c.hypothesis;
    EXPECT_NEAR(chrf({c.hypothesis}, {c.reference}).score, c.chrf, kTolerance) << c.hypothesis;
  }
  EXPECT_EQ(bleu({}, {}).score, 0.0);
  EXPECT_EQ(chrf({}, {}).score, 0.0);
  EXPECT_PRED2(contains, message_of([] { bleu({"a"}, {}); }), "1 hypotheses and 0 references");
  EXPECT_PRED2(contains, message_of([] { chrf({}, {"a"}); }), "0 hypotheses and 1 references");
}

TEST(TextScores, Tokens13a) {
  const std::pair<const char*, const char*> cases[] = {
      {"Hello, world!", "Hello , world !"},
      {"3.14 and 1,000.", "3.14 and 1,000 ."},
      {"a.b,c", "a . b , c"},
      {"..,,", ". . , ,"},
      {"1-2 3--4 a-b", "1 - 2 3 - -4 a-b"},
      {"&quot;x&quot; &amp;lt; &lt;b&gt;", "\" x \" < < b >"},
      {"<skipped>x", "x"},
      {"end-\nof line\nnext", "endof line next"},
      {"it's {a}[b]`c`~", "it's { a } [ b ] ` c ` ~"},
      {"é.ü,", "é . ü ,"},
      {"x\u00a0y\u3000z", "x y z"},
      {"(1.)(.5)", "( 1 . ) ( . 5 )"},
      {"U.S.A. 5.", "U . S . A . 5 ."},
      {"$5,000.50-6", "$ 5,000.50 - 6"},
      {"", ""},
      {"not \xFF valid", "not \xEF\xBF\xBD valid"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(tokenize_13a(text), expected);
}

}  // namespace
}  // namespace headway
