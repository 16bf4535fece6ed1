// Files of examples: .csv by RFC 4180, .tsv, .json, .jsonl, spans, questions.
#include <gtest/gtest.h>

#include "support/files.h"
#include "support/message_of.h"
#include "text/delimited_text.h"
#include "text/example_files.h"
#include "training/span_scores.h"

namespace {

using namespace headway::internal;
using headway_test::contains;
using headway_test::message_of;
using headway_test::TemporaryDirectory;
using headway_test::write_bytes;
using Records = std::vector<TextRecord>;

TEST(TrainingReaders, CsvHasQuotesLineEndsAndBothKindsOfRecordEnds) {
  EXPECT_EQ(parse_csv("a,b\r\nc,\"d\"\n", "x"), (Records{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(parse_csv("\"one\ntwo\",\"say \"\"hi\"\"\"\r\n", "x"), (Records{{"one\ntwo", "say \"hi\""}}));
  EXPECT_EQ(parse_csv("\"a,b\",\r\n,\n", "x"), (Records{{"a,b", ""}, {"", ""}}));
  EXPECT_EQ(parse_csv("\xEF\xBB\xBF"
                      "a\n\n\r\nb",
                      "x"),
            (Records{{"a"}, {"b"}}));
  EXPECT_EQ(parse_csv("5\" wide,x\n", "x"), (Records{{"5\" wide", "x"}}));
  EXPECT_EQ(parse_csv("\"\"\n", "x"), (Records{{""}}));
  EXPECT_EQ(parse_csv("", "x"), Records{});
}

TEST(TrainingReaders, CsvErrorsNameTheLine) {
  EXPECT_PRED2(contains, message_of([] { parse_csv("a\n\"b\nc", "data.csv"); }),
               "data.csv: line 2: a field begins with a quote that is never closed");
  EXPECT_PRED2(contains, message_of([] { parse_csv("\"a\nb\"\n\"c\"d\n", "data.csv"); }),
               "data.csv: line 3: a character follows a closing quote");
  EXPECT_PRED2(contains, message_of([] { parse_csv("\xFF", "data.csv"); }), "data.csv: is not UTF-8");
}

TEST(TrainingReaders, TsvTakesQuotesAsTheyAre) {
  EXPECT_EQ(parse_tsv("\"a\tb\"\r\n\nc\t\n", "x"), (Records{{"\"a", "b\""}, {"c", ""}}));
  // U+0085 is no end of a line.
  EXPECT_EQ(parse_tsv("a\xC2\x85"
                      "b\t1\n",
                      "x"),
            (Records{{"a\xC2\x85"
                      "b",
                      "1"}}));
}

TEST(TrainingReaders, LabelledTextsOfEveryFormat) {
  const TemporaryDirectory directory;
  const std::vector<LabelledText> expected = {{"one, two", "x"}, {"three", "y"}};
  write_bytes(directory / "a.csv", "text,category\r\n\"one, two\",x\r\nthree,y\r\n");
  write_bytes(directory / "b.csv", "\"one, two\",x\nthree,y\n");
  write_bytes(directory / "c.tsv", "id\tlabel\ttext\n1\tx\tone, two\n2\ty\tthree\n");
  write_bytes(directory / "d.jsonl",
              "{\"text\": \"one, two\", \"label\": \"x\"}\n\n{\"text\": \"three\", \"label\": \"y\"}\n");
  write_bytes(directory / "e.json", R"([["one, two", "x"], ["three", "y"]])");
  write_bytes(directory / "f.json", R"({"train": [["one, two", "x"]], "oos_train": [["three", "y"]], "test": []})");
  for (const char* name : {"a.csv", "b.csv", "c.tsv", "d.jsonl", "e.json", "f.json"}) {
    EXPECT_EQ(read_labelled_texts(directory / name), expected) << name;
  }
  EXPECT_EQ(read_labelled_texts(directory / "f.json", {.parts = "train,oos_train"}), expected);
  EXPECT_EQ(read_labelled_texts(directory / "f.json", {.parts = "oos_train"}).size(), 1u);
  EXPECT_EQ(read_labelled_texts(directory / "c.tsv", {.text = "label", .label = "id"})[1], (LabelledText{"y", "2"}));
  EXPECT_EQ(read_labelled_texts(directory / "b.csv", {.text = "2", .label = "1"})[1], (LabelledText{"y", "three"}));
}

TEST(TrainingReaders, LabelledTextsAreRefusedWithTheReason) {
  const TemporaryDirectory directory;
  write_bytes(directory / "a.csv", "text,label\none\n");
  write_bytes(directory / "b.json", R"({"train": [["a", "b", "c"]]})");
  write_bytes(directory / "c.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\"}\n");
  EXPECT_PRED2(contains, message_of([&] { read_labelled_texts(directory / "a.csv"); }), "record 2 has 1 fields");
  EXPECT_PRED2(contains, message_of([&] { read_labelled_texts(directory / "a.csv", {.text = "words"}); }),
               "no field \"words\"");
  EXPECT_PRED2(contains, message_of([&] { read_labelled_texts(directory / "b.json"); }), "item 1: an item has 3 parts");
  EXPECT_PRED2(contains, message_of([&] { read_labelled_texts(directory / "b.json", {.parts = "val"}); }),
               "has no array \"val\"");
  EXPECT_PRED2(contains, message_of([&] { read_labelled_texts(directory / "c.jsonl"); }), "no field \"label\"");
  EXPECT_PRED2(contains, message_of([&] { read_labelled_texts(directory / "d.xml"); }), "expected a .csv, .tsv");
}

TEST(TrainingReaders, SpansCountCharacters) {
  const TemporaryDirectory directory;
  write_bytes(directory / "a.jsonl",
              "{\"text\": \"é two\", \"spans\": [{\"begin\": 2, \"end\": 5, \"label\": \"n\"}]}\n");
  write_bytes(directory / "b.json", R"([{"userInput": {"text": "two é"}, "labels": [
      {"slot": "x", "valueSpan": {"startIndex": 4, "endIndex": 5}}, {"slot": "n", "valueSpan": {"endIndex": 3}}]},
      {"userInput": {"text": "none"}}])");
  EXPECT_EQ(read_span_texts(directory / "a.jsonl")[0].spans, (std::vector<TextSpan>{{3, 6, "n"}}));
  const std::vector<SpanText> texts = read_span_texts(directory / "b.json");
  EXPECT_EQ(texts[0].spans, (std::vector<TextSpan>{{0, 3, "n"}, {4, 6, "x"}}));
  EXPECT_TRUE(texts[1].spans.empty());
  write_bytes(directory / "c.jsonl", "{\"text\": \"ab\", \"spans\": [{\"begin\": 1, \"end\": 5, \"label\": \"n\"}]}\n");
  EXPECT_PRED2(contains, message_of([&] { read_span_texts(directory / "c.jsonl"); }), "position 5 is outside");
}

TEST(TrainingReaders, QuestionsHaveContextsAndAnswers) {
  const TemporaryDirectory directory;
  const std::string begin = R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "Zoë ate.",
      "qas": [{"id": "1", "question": "Who?", "answers": [{"text": ")";
  write_bytes(directory / "a.json",
              begin + R"(ate", "answer_start": 4}]}]}]}, {"paragraphs": [{"context": "x", "qas": []}]}]})");
  const QuestionFile file = read_questions(directory / "a.json");
  ASSERT_EQ(file.questions.size(), 1u);
  EXPECT_EQ(file.contexts.size(), 2u);
  EXPECT_EQ(file.questions[0].answers[0].begin, 5);
  EXPECT_EQ(file.questions[0].article, 0);
  write_bytes(directory / "b.json", begin + R"(ate", "answer_start": 3}]}]}]}]})");
  EXPECT_PRED2(contains, message_of([&] { read_questions(directory / "b.json"); }), "does not have the answer \"ate\"");
  write_bytes(directory / "c.json", "{}");
  EXPECT_PRED2(contains, message_of([&] { read_questions(directory / "c.json"); }), "not in the format of SQuAD");
}

headway::TokenizedText tokens_at(const std::vector<headway::TokenOffsets>& offsets) {
  headway::TokenizedText text;
  for (const headway::TokenOffsets& place : offsets) {
    text.ids.push_back(1);
    text.offsets.push_back(place);
    text.sequence.push_back(place.end > 0 ? 0 : -1);
  }
  return text;
}

TEST(TrainingReaders, SpansToTagsAndBack) {
  const std::vector<std::string> labels = {"day", "time"};
  EXPECT_EQ(tag_names(labels), (std::vector<std::string>{"O", "B-day", "I-day", "B-time", "I-time"}));
  const headway::TokenizedText text = tokens_at({{0, 0}, {0, 2}, {3, 5}, {5, 7}, {8, 9}, {9, 10}, {0, 0}});
  const std::vector<TextSpan> spans = {{3, 7, "time"}, {8, 9, "day"}, {9, 10, "day"}};
  const std::vector<std::int64_t> tags = tags_of_spans(text, spans, labels);
  EXPECT_EQ(tags, (std::vector<std::int64_t>{kNoLabel, 0, 3, 4, 1, 1, kNoLabel}));
  EXPECT_EQ(spans_of_tags(text, tags, labels), spans);
  // Where spans overlap, the first counts.
  EXPECT_EQ(tags_of_spans(text, {{3, 9, "day"}, {3, 9, "time"}, {8, 10, "time"}}, labels),
            (std::vector<std::int64_t>{kNoLabel, 0, 1, 2, 2, 3, kNoLabel}));
  // I- without its B- begins a span; another label ends one.
  EXPECT_EQ(spans_of_tags(text, {0, 2, 4, 4, 0, 2, 0}, labels),
            (std::vector<TextSpan>{{0, 2, "day"}, {3, 7, "time"}, {9, 10, "day"}}));
  SpanCounts counts;
  counts.add({{0, 2, "day"}, {3, 7, "time"}}, spans);
  EXPECT_DOUBLE_EQ(counts.precision(), 0.5);
  EXPECT_DOUBLE_EQ(counts.recall(), 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(counts.f1(), 0.4);
}

TEST(TrainingReaders, AnswersAreComparedAsSquadDoes) {
  EXPECT_TRUE(answer_exact("The  Eiffel-Tower.", "eiffeltower"));
  EXPECT_FALSE(answer_exact("tower", "towers"));
  EXPECT_DOUBLE_EQ(answer_f1("the big red house", "a red house"), 0.8);
  EXPECT_DOUBLE_EQ(answer_f1("x x", "x"), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(answer_f1("the", "a"), 1.0);
  EXPECT_DOUBLE_EQ(answer_f1("the", "x"), 0.0);
}

}  // namespace
