#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "headway/autograd.h"
#include "headway/random.h"
#include "headway/tokenizer.h"
#include "headway/translator.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/translator_model.h"
#include "text/languages.h"
#include "text/sentences.h"

namespace {

using namespace headway::internal;
using namespace headway_test;
using Strings = std::vector<std::string>;

Strings strings(const std::vector<std::string_view>& parts) { return {parts.begin(), parts.end()}; }

headway::TranslateOptions into(const std::string& language, std::int64_t max_length, std::int64_t beam = 1,
                               std::int64_t num_best = 1) {
  headway::TranslateOptions options;
  options.search = {.beam = beam, .num_best = num_best, .max_length = max_length};
  options.to = language;
  return options;
}

// ---- languages ----

TEST(Languages, HaveManyNames) {
  const Strings codes = {"deu", "eng"};
  for (const char* name : {"de", "deu", "DE", "ger", "German", "deutsch", "de-AT"}) {
    EXPECT_EQ(find_language(name, codes), "deu") << name;
  }
  EXPECT_EQ(find_language("english", codes), "eng");
  EXPECT_EQ(find_language("fr", codes), std::nullopt);
  EXPECT_EQ(find_language("", codes), std::nullopt);
  EXPECT_EQ(find_language("zh", {"cmn_Hans", "eng"}), "cmn_Hans");
  EXPECT_EQ(find_language("xyz", {"xyz"}), "xyz");  // a code that no table has
}

TEST(Languages, HaveOneEnglishName) {
  using headway::internal::language_name;
  for (const char* code : {"deu", "de", "ger", "German"}) EXPECT_EQ(language_name(code), "German") << code;
  EXPECT_EQ(language_name("cmn"), "Chinese");
  EXPECT_EQ(language_name("fin"), "Finnish");
  EXPECT_EQ(language_name("xyz"), "xyz");
  EXPECT_EQ(language_name("pt-BR"), "pt-BR");  // Portuguese alone would lose the country
}

TEST(Languages, ACodeInFrontOfATextChooses) {
  using headway::internal::split_language_code;
  const Strings codes = {"deu", "eng"};
  const auto split = [&](std::string_view text) {
    const auto [code, body] = split_language_code(text, codes);
    return std::string(code) + "|" + std::string(body);
  };
  EXPECT_EQ(split(">>deu<< Hello"), "deu| Hello");
  EXPECT_EQ(split(">>eng<<"), "eng|");
  EXPECT_EQ(split(">>fra<< Hello"), "|>>fra<< Hello");
  EXPECT_EQ(split(">>deu Hello"), "|>>deu Hello");
  EXPECT_EQ(split("Hello >>deu<<"), "|Hello >>deu<<");
  EXPECT_EQ(split(""), "|");
}

TEST(Languages, OfATextThatNamesNone) {
  using headway::internal::choose_target_language;
  EXPECT_EQ(choose_target_language("The cat is here.", {}), "");
  EXPECT_EQ(choose_target_language("The cat is here.", {"eng"}), "eng");
  EXPECT_EQ(choose_target_language("The cat is here.", {"deu", "eng"}), "deu");
  EXPECT_EQ(choose_target_language("Tom", {"deu", "eng"}), std::nullopt);
  EXPECT_EQ(choose_target_language("The cat is here.", {"deu", "eng", "fra"}), std::nullopt);
}

TEST(Languages, AreGuessedByTheirCommonWords) {
  EXPECT_EQ(guess_language("The animal did not cross the street.", "deu", "eng"), "eng");
  EXPECT_EQ(guess_language("Das Tier hat die Straße nicht überquert.", "deu", "eng"), "deu");
  EXPECT_EQ(guess_language("Müde", "deu", "eng"), "deu");
  EXPECT_EQ(guess_language("I'm tired.", "eng", "deu"), "eng");
  EXPECT_EQ(guess_language("Tom", "deu", "eng"), std::nullopt);
  EXPECT_EQ(guess_language("was", "deu", "eng"), std::nullopt);  // a word of both
  EXPECT_EQ(guess_language("The cat", "xyz", "eng"), std::nullopt);
}

// ---- sentences ----

TEST(Sentences, LinesKeepTheirOrderAndEmptyOnes) {
  EXPECT_EQ(strings(split_lines("a\r\n\nb\n")), (Strings{"a", "", "b", ""}));
  EXPECT_EQ(strings(split_lines("")), Strings{""});
}

TEST(Sentences, EndWhereAReaderWouldSay) {
  EXPECT_EQ(strings(split_sentences("One. Two!  Three? Four")), (Strings{"One.", "Two!", "Three?", "Four"}));
  EXPECT_EQ(strings(split_sentences("He said: \"Go.\" Then he went...")),
            (Strings{"He said: \"Go.\"", "Then he went..."}));
  EXPECT_EQ(strings(split_sentences("Dr. Smith met J. Doe on 3. Mai. Gut.")),
            (Strings{"Dr. Smith met J. Doe on 3. Mai.", "Gut."}));
  EXPECT_EQ(strings(split_sentences("e.g. this, i.e. 3.14 of it.")), (Strings{"e.g. this, i.e. 3.14 of it."}));
  EXPECT_EQ(strings(split_sentences("It is I. You know.")), (Strings{"It is I.", "You know."}));
  EXPECT_EQ(strings(split_sentences("你好。再见！")), (Strings{"你好。", "再见！"}));
  EXPECT_EQ(strings(split_sentences("  ")), Strings{});
  EXPECT_EQ(strings(split_sentences("Bad\xff. Yes.")), (Strings{"Bad\xff.", "Yes."}));
}

TEST(Sentences, AreCutBetweenWordsToFit) {
  const auto at_most_ten = [](std::string_view part) { return part.size() <= 10; };
  EXPECT_EQ(strings(split_to_fit("one two three four five", at_most_ten)), (Strings{"one two", "three four", "five"}));
  EXPECT_EQ(strings(split_to_fit("one two, three", at_most_ten)), (Strings{"one two,", "three"}));
  EXPECT_EQ(strings(split_to_fit("abcdefghijklmnopqrstuvwxyz", at_most_ten)),
            (Strings{"abcdefghij", "klmnopqrst", "uvwxyz"}));
  EXPECT_EQ(strings(split_to_fit("ääääääää", at_most_ten)), (Strings{"äääää", "äää"}));
  EXPECT_EQ(strings(split_to_fit("", at_most_ten)), Strings{});
  std::string long_text;
  for (int i = 0; i < 3000; ++i) long_text += "word ";
  const auto always = [](std::string_view) { return true; };
  EXPECT_EQ(split_to_fit(long_text, always).size(), 4U);  // 15,000 characters
  const auto never = [](std::string_view) { return false; };
  EXPECT_EQ(strings(split_to_fit("abc", never)), (Strings{"a", "b", "c"}));  // comes to an end
}

// ---- translating, by a model that knows nothing ----

class TranslatorTest : public testing::Test {
 protected:
  static headway::SentencePieces pieces() {
    const headway_test::TemporaryDirectory directory;
    Strings lines;
    for (int i = 0; i < 200; ++i) {
      lines.push_back("word" + std::to_string(i % 17) + " and another one " + std::string(1 + i % 5, 'x') + " here.");
      lines.push_back(std::string("every letter of abcdefghijklmnopqrstuvwxyz comes ") + std::to_string(i * 37));
    }
    return headway::SentencePieces::train(lines, directory / "pieces.spm", {.vocab_size = 310});
  }

  static headway::Translator make(const Strings& languages) {
    headway::TranslationTokenizer tokenizer(pieces(), languages);
    headway::TranslationModel model = headway_test::random_model(tokenizer, 5);
    model.eval();
    return headway::Translator(model, tokenizer);
  }

  static const headway::Translator& translator() {
    static const headway::Translator both = make({"deu", "eng"});
    return both;
  }
};

TEST_F(TranslatorTest, KeepsTheOrder) {
  const Strings texts = {"word1 and another one x here.", "", "xx", "  \t", "word3 and another"};
  const auto all = translator().translate(texts, into("de", 8));
  ASSERT_EQ(all.size(), 5U);
  for (const std::size_t i : {0U, 2U, 4U}) {
    const auto alone = translator().translate({texts[i]}, into("German", 8));
    EXPECT_EQ(all[i].text, alone[0].text) << i;
    EXPECT_EQ(all[i].to, "deu");
  }
  EXPECT_EQ(all[1].text, "");
  EXPECT_TRUE(all[0].notes.none() || all[0].notes.cut_off);
  EXPECT_EQ(all[1].notes, (headway::TranslationNotes{.empty = true}));
  EXPECT_EQ(all[1].notes.describe(), "the text is empty");
  EXPECT_EQ(all[3].text, "");
  EXPECT_EQ(all[3].notes, (headway::TranslationNotes{.blank = true}));
  EXPECT_EQ(all[3].notes.describe(), "the text is blank");
  EXPECT_TRUE(translator().translate({}).empty());
}

TEST_F(TranslatorTest, GivesAsManyAsAskedFor) {
  const auto found = translator().translate({"word1 and another"}, into("en", 8, 3, 3));
  ASSERT_EQ(found[0].best.size(), 3U);
  ASSERT_EQ(found[0].scores.size(), 3U);
  EXPECT_EQ(found[0].best[0], found[0].text);
  EXPECT_GE(found[0].scores[0], found[0].scores[2]);
}

TEST_F(TranslatorTest, ChoosesTheLanguage) {
  const headway::TranslateOptions options = into("", 4);
  const auto found =
      translator().translate({"the cat is here", "das ist nicht hier", ">>eng<< the cat", "word"}, options);
  EXPECT_EQ(found[0].to, "deu");
  EXPECT_EQ(found[1].to, "eng");
  EXPECT_EQ(found[2].to, "eng");
  EXPECT_TRUE(found[3].to == "deu" || found[3].to == "eng");  // by the model's score
  EXPECT_EQ(translator().language_code("German"), "deu");
  EXPECT_EQ(message_of([&] { (void)translator().language_code("fr"); }),
            "language \"fr\" is not there, expected one of deu, eng");
  const headway::Translator one = make({});
  EXPECT_EQ(one.translate({"word"}, options)[0].to, "");
  EXPECT_PRED2(contains, message_of([&] { (void)one.language_code("de"); }), "one target language and no codes");
  const headway::Translator three = make({"deu", "eng", "fra"});
  EXPECT_EQ(message_of([&] { (void)three.translate({"word"}, options); }),
            "the model has the target languages deu, eng, fra, and none was chosen");
}

TEST_F(TranslatorTest, CutsLongTexts) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "Word1 and another one x here. ";
  const auto cut = translator().translate({text}, into("de", 4));
  EXPECT_EQ(cut[0].notes.segments, 30);
  EXPECT_PRED2(contains, cut[0].notes.describe(), "the text was translated in 30 parts");
  std::string endless;
  for (int i = 0; i < 200; ++i) endless += "word1 and ";
  const auto parts = translator().translate({endless}, into("de", 4));
  EXPECT_GT(parts[0].notes.segments, 1);
  EXPECT_PRED2(contains, parts[0].notes.describe(), "parts");
  const auto lines = translator().translate({"word1\n\nword2"}, into("de", 4));
  const std::string first = translator().translate({"word1"}, into("de", 4))[0].text;
  EXPECT_EQ(lines[0].text.substr(0, first.size() + 2), first + "\n\n");
  EXPECT_EQ(lines[0].notes.segments, 0);  // each line is short enough
}

// A line of any length is cut before it is tokenized, which takes hundreds of bytes of memory for each of its bytes.
TEST_F(TranslatorTest, EndlessLinesTakeLittleMemory) {
  const std::string gap(std::size_t{4} << 20, ' ');
  const auto found = translator().translate({"Word1 here." + gap + "Word2 here." + gap}, into("de", 4));
  const auto apart = translator().translate({"Word1 here.", "Word2 here."}, into("de", 4));
  EXPECT_EQ(found[0].text, apart[0].text + " " + apart[1].text);
  const auto memory = [] {
    rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss >> 10;  // in MiB
  };
  const long before = memory();
  const auto word = translator().translate({std::string(200'000, 'x')}, into("de", 1));
  EXPECT_GT(word[0].notes.segments, 500);
  EXPECT_LT(memory() - before, 40);
}

TEST_F(TranslatorTest, NotesWhatIsRemarkable) {
  const auto found = translator().translate({"word \xff here", "word 😀 here", "другой"}, into("de", 4));
  EXPECT_TRUE(found[0].notes.invalid_utf8);
  EXPECT_FALSE(found[1].notes.invalid_utf8);
  EXPECT_EQ(found[1].notes.unknown_characters, 1);
  EXPECT_EQ(found[2].notes.unknown_characters, 6);
  EXPECT_TRUE(found[2].notes.cut_off);
  EXPECT_PRED2(contains, found[0].notes.describe(), "not UTF-8");
  EXPECT_PRED2(contains, found[1].notes.describe(), "1 character is unknown to the model");
  EXPECT_PRED2(contains, found[2].notes.describe(), "6 characters are unknown to the model; the translation did not");
  EXPECT_EQ(headway::TranslationNotes{}.describe(), "");
}

TEST_F(TranslatorTest, StreamsTheTextSoFar) {
  Strings seen;
  headway::TranslateOptions options = into("de", 6);
  options.search.on_token = [&](std::int64_t, const std::string& text) { seen.push_back(text); };
  const auto found = translator().translate({"word1 and\nword2"}, options);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back(), found[0].text);
  EXPECT_EQ(message_of([&] {
              (void)translator().translate({"a", "b"}, options);
            }),
            "Translator: on_token is given for 2 texts, expected one");
}

TEST_F(TranslatorTest, SeesChangesOfTheModel) {
  const headway::Translator changed = make({"deu", "eng"});
  const headway::TranslateOptions options = into("de", 6);
  (void)changed.translate({"word1"}, options);
  const headway::NoGradGuard guard;
  changed.model().state_dict().at("head.output.bias").slice(0, 0, 1).fill(1e6);  // </s> at once
  EXPECT_EQ(changed.translate({"word1"}, options)[0].text, "");
}

TEST_F(TranslatorTest, ComesFromADirectory) {
  const headway_test::TemporaryDirectory directory;
  translator().model().save(directory.path());
  translator().tokenizer().save(directory.path());
  const headway::Translator loaded(directory.path());
  const headway::TranslateOptions options = into("en", 6, 2);
  EXPECT_EQ(loaded.translate({"word1 and"}, options)[0].text, translator().translate({"word1 and"}, options)[0].text);
  const headway::TranslationTokenizer other(pieces(), {"deu"});
  EXPECT_PRED2(contains, message_of([&] { headway::Translator(loaded.model(), other); }), "the model's vocab_size is");
}

}  // namespace
