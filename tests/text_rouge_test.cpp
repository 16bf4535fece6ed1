// ROUGE and Porter's stems against numbers and words that rouge-score 0.1.2 gave.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "headway/rouge.h"
#include "support/message_of.h"

namespace {

using headway::porter_stem;
using headway::rouge;

TEST(TextRouge, StemsAreThoseOfNltk) {
  const std::pair<const char*, const char*> stems[] = {
      {"caresses", "caress"},
      {"ponies", "poni"},
      {"dies", "die"},
      {"died", "die"},
      {"spied", "spi"},
      {"agreed", "agre"},
      {"feed", "feed"},
      {"plastered", "plaster"},
      {"bled", "bled"},
      {"motoring", "motor"},
      {"sing", "sing"},
      {"conflated", "conflat"},
      {"troubled", "troubl"},
      {"sized", "size"},
      {"hopping", "hop"},
      {"tanned", "tan"},
      {"falling", "fall"},
      {"hissing", "hiss"},
      {"failing", "fail"},
      {"filing", "file"},
      {"happy", "happi"},
      {"enjoy", "enjoy"},
      {"spy", "spi"},
      {"relational", "relat"},
      {"conditional", "condit"},
      {"rationally", "ration"},
      {"vietnamization", "vietnam"},
      {"operator", "oper"},
      {"decisiveness", "decis"},
      {"sensibiliti", "sensibl"},
      {"geologi", "geolog"},
      {"archaeology", "archaeolog"},
      {"formalize", "formal"},
      {"triplicate", "triplic"},
      {"electrical", "electr"},
      {"hopeful", "hope"},
      {"goodness", "good"},
      {"revival", "reviv"},
      {"adjustment", "adjust"},
      {"replacement", "replac"},
      {"adoption", "adopt"},
      {"homologous", "homolog"},
      {"probate", "probat"},
      {"rate", "rate"},
      {"cease", "ceas"},
      {"controll", "control"},
      {"roll", "roll"},
      {"skies", "sky"},
      {"dying", "die"},
      {"news", "news"},
      {"innings", "inning"},
      {"proceed", "proceed"},
      {"usefulli", "use"},
      {"yyyy", "yyyi"},
      {"by", "by"},
      {"is", "is"},
      {"neural", "neural"},
      {"networks", "network"},
      {"translations", "translat"},
  };
  for (const auto& [word, stem] : stems) EXPECT_EQ(porter_stem(word), stem) << word;
}

TEST(TextRouge, ScoresAreThoseOfRougeScore) {
  struct Case {
    const char* text;
    const char* reference;
    bool stemmer;
    double rouge1, rouge2, rouge_l;  // f1
  };
  const Case cases[] = {
      {"The cat sat on the mat.", "A cat was sitting on the mat", false, 0.6153846153846153, 0.3636363636363636,
       0.6153846153846153},
      {"The cat sat on the mat.", "A cat was sitting on the mat", true, 0.6153846153846153, 0.3636363636363636,
       0.6153846153846153},
      {"Neural machine translations, in 3 steps", "Machine translation in three (3) neural steps", false,
       0.7692307692307692, 0.0, 0.6153846153846153},
      {"Neural machine translations, in 3 steps", "Machine translation in three (3) neural steps", true,
       0.923076923076923, 0.3636363636363636, 0.7692307692307692},
      {"", "x", false, 0.0, 0.0, 0.0},
      {"", "x", true, 0.0, 0.0, 0.0},
      {"one", "one", false, 1.0, 0.0, 1.0},
      {"one", "one", true, 1.0, 0.0, 1.0},
      {"a b c d e", "e d c b a", false, 1.0, 0.0, 0.20000000000000004},
      {"a b c d e", "e d c b a", true, 1.0, 0.0, 0.20000000000000004},
      {"Künstliche İntelligenz", "k nstliche i ntelligenz", false, 1.0, 1.0, 1.0},
      {"Künstliche İntelligenz", "k nstliche i ntelligenz", true, 1.0, 1.0, 1.0},
  };
  for (const Case& one : cases) {
    const headway::RougeScores scores = rouge(one.text, one.reference, {.stemmer = one.stemmer});
    EXPECT_DOUBLE_EQ(scores.rouge1.f1, one.rouge1) << one.text;
    EXPECT_DOUBLE_EQ(scores.rouge2.f1, one.rouge2) << one.text;
    EXPECT_DOUBLE_EQ(scores.rouge_l.f1, one.rouge_l) << one.text;
  }
}

TEST(TextRouge, ACorpusHasTheMeans) {
  const headway::RougeScores scores = rouge(std::vector<std::string>{"a b", "c"}, {"a b", "d"});
  EXPECT_DOUBLE_EQ(scores.rouge1.f1, 0.5);
  EXPECT_DOUBLE_EQ(scores.rouge2.recall, 0.5);
  EXPECT_DOUBLE_EQ(scores.rouge_l.precision, 0.5);
  EXPECT_PRED2(headway_test::contains,
               headway_test::message_of([] { rouge(std::vector<std::string>{"a"}, std::vector<std::string>{}); }),
               "there are 1 texts and 0 references");
}

}  // namespace
