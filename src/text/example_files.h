// Files of examples for fine-tuning: labelled texts, pairs, labelled spans, questions with answers, plain text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace headway::inline v0::internal {

struct LabelledText {
  std::string text;
  std::string label;  // or the target of text to text

  bool operator==(const LabelledText&) const = default;
};

// Which fields of a record or of a JSON object are read, and which lists of a .json.
struct ExampleFields {
  std::string text = {};   // a name, or a column's number from 1; default: "text" and other usual names, else column 1
  std::string label = {};  // likewise; default: "label" or "target" and other usual names, else column 2
  std::string parts = {};  // names of lists, separated by commas; default: every list
};
// Reads a .csv, .tsv, .txt (as .tsv), .json or .jsonl. A .json is an array of objects or of [text, label], or an object
// of such arrays.
std::vector<LabelledText> read_labelled_texts(const std::filesystem::path& file, const ExampleFields& fields = {});

// Bytes [begin, end) of a text.
struct TextSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string label;

  bool operator==(const TextSpan&) const = default;
};
struct SpanText {
  std::string text;
  std::vector<TextSpan> spans;  // by begin, end, label; they may overlap
};
// Reads a .json or .jsonl of {"text", "spans": [{"begin", "end", "label"}]} or of restaurant8k's objects. The files
// count characters.
std::vector<SpanText> read_span_texts(const std::filesystem::path& file);

struct AnswerSpan {
  std::int64_t begin = 0;  // byte of the context
  std::string text;
};
struct ContextQuestion {
  std::string id;
  std::string question;
  std::int64_t context = 0;  // in QuestionFile::contexts
  std::int64_t article = 0;
  std::vector<AnswerSpan> answers;
};
struct QuestionFile {
  std::vector<std::string> contexts;
  std::vector<ContextQuestion> questions;
};
// Reads SQuAD 1.1's format.
QuestionFile read_questions(const std::filesystem::path& file);

// The text of a file, which must be UTF-8.
std::string read_plain_text(const std::filesystem::path& file);

}  // namespace headway::inline v0::internal
