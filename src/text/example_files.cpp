// Reading examples.
#include "text/example_files.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"
#include "base/number_text.h"
#include "base/utf8.h"
#include "text/delimited_text.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

constexpr JsonLimits kExampleLimits = {.bytes = std::size_t{1} << 30};
constexpr ReadOptions kTextLimits = {.limit = std::size_t{4} << 30};  // of tables and plain texts
using Names = std::vector<std::string_view>;
// What the text and the label are often called.
const Names kTextNames = {"text", "sentence", "query", "utterance", "source", "input", "document"};
const Names kLabelNames = {"label", "category", "intent", "class", "target", "summary", "output"};

std::size_t position_of(const TextRecord& record, std::string_view name) {
  return static_cast<std::size_t>(std::find(record.begin(), record.end(), name) - record.begin());
}

// Where a field is in the records of a table.
struct Column {
  std::size_t index = 0;
  bool by_header = false;
};

Column column_of(const TextRecord& first, const std::string& wanted, const Names& usual, std::size_t otherwise,
                 const std::string& where) {
  if (!wanted.empty()) {
    const std::size_t index = position_of(first, wanted);
    if (index < first.size()) return {index, true};
    const std::optional<std::size_t> number = parse_number<std::size_t>(wanted);
    check(number && *number > 0, where, ": the first record has no field \"", wanted,
          "\", expected one of its fields or a column's number");
    return {*number - 1, false};
  }
  for (const std::string_view name : usual) {
    const std::size_t index = position_of(first, name);
    if (index < first.size()) return {index, true};
  }
  return {otherwise, false};
}

std::vector<LabelledText> labelled_texts_of(const std::vector<TextRecord>& records, const ExampleFields& fields,
                                            const std::string& where) {
  std::vector<LabelledText> examples;
  if (records.empty()) return examples;
  const Column text = column_of(records.front(), fields.text, kTextNames, 0, where);
  const Column label = column_of(records.front(), fields.label, kLabelNames, 1, where);
  for (std::size_t i = text.by_header || label.by_header ? 1 : 0; i < records.size(); ++i) {
    const TextRecord& record = records[i];
    const std::size_t wanted = std::max(text.index, label.index) + 1;
    check(record.size() >= wanted, where, ": record ", i + 1, " has ", record.size(), " fields, expected at least ",
          wanted);
    examples.push_back({record[text.index], record[label.index]});
  }
  return examples;
}

// A label as text: a string as it is, a number by its digits.
std::string plain_text_of(const Json& value) { return value.is_string() ? value.string() : value.text(); }

const Json& field_of(const Json& object, const std::string& wanted, const Names& usual, const std::string& where) {
  if (!wanted.empty()) {
    const Json* const found = object.find(wanted);
    check(found != nullptr, where, ": an object has no field \"", wanted, "\"");
    return *found;
  }
  for (const std::string_view name : usual) {
    if (const Json* const found = object.find(name)) return *found;
  }
  fail(where, ": an object has no field \"", usual.front(), "\"");
}

LabelledText labelled_text_of(const Json& item, const ExampleFields& fields, const std::string& where) {
  if (item.is_array()) {
    check(item.items().size() == 2, where, ": an item has ", item.items().size(), " parts, expected [text, label]");
    return {item.items()[0].string(), plain_text_of(item.items()[1])};
  }
  check(item.is_object(), where, ": an item is of the type ", item.kind_name(),
        ", expected an object or [text, label]");
  return {field_of(item, fields.text, kTextNames, where).string(),
          plain_text_of(field_of(item, fields.label, kLabelNames, where))};
}

std::string ending_of(const fs::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending;
}

std::vector<std::string> split_names(const std::string& names) {
  std::vector<std::string> all;
  for (std::size_t start = 0; start <= names.size() && !names.empty();) {
    const std::size_t end = std::min(names.find(',', start), names.size());
    all.push_back(names.substr(start, end - start));
    start = end + 1;
  }
  return all;
}

// Calls body for every item of a .jsonl, of an array or of the arrays of an object.
void for_each_item(const fs::path& file, const std::string& parts, const std::function<void(const Json&)>& body) {
  const std::string where = file.string();
  const std::string text = read_whole_file(file, {}, {.limit = kExampleLimits.bytes});
  if (ending_of(file) == ".jsonl") {
    check(parts.empty(), where, ": parts is \"", parts, "\", and a .jsonl has none");
    std::int64_t number = 0;
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      ++number;
      const std::string_view line = rest.substr(0, end);
      if (!is_blank(line)) body(parse_json(line, where + ": line " + std::to_string(number)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return;
  }
  const Json all = parse_json(text, where, kExampleLimits);
  if (all.is_array()) {
    for (const Json& item : all.items()) body(item);
    return;
  }
  check(all.is_object(), where, ": is of the type ", all.kind_name(), ", expected an array or an object of arrays");
  std::vector<std::string> wanted = split_names(parts);
  if (wanted.empty()) {
    for (const JsonField& field : all.fields()) wanted.push_back(field.name);
  }
  for (const std::string& name : wanted) {
    const Json* const list = all.find(name);
    check(list != nullptr && list->is_array(), where, ": has no array \"", name, "\"");
    for (const Json& item : list->items()) body(item);
  }
}

// Byte offsets of characters: [i] is where character i begins, and one more for the end.
std::vector<std::int64_t> character_offsets(std::string_view text) {
  std::vector<std::int64_t> offsets = {0};
  const std::size_t size = text.size();
  while (!text.empty()) {
    next_character(text);
    offsets.push_back(static_cast<std::int64_t>(size - text.size()));
  }
  return offsets;
}

std::int64_t byte_of(const std::vector<std::int64_t>& offsets, std::int64_t character, const std::string& where) {
  check(character >= 0 && character < std::ssize(offsets), where, ": position ", character, " is outside a text of ",
        offsets.size() - 1, " characters");
  return offsets[static_cast<std::size_t>(character)];
}

void add_span(SpanText& example, const std::vector<std::int64_t>& offsets, const Json& begin, const Json& end,
              const Json& label, const std::string& where) {
  TextSpan span{.begin = byte_of(offsets, begin.int64(), where),
                .end = byte_of(offsets, end.int64(), where),
                .label = plain_text_of(label)};
  check(span.begin < span.end, where, ": a span ends at ", end.int64(), " and begins at ", begin.int64());
  example.spans.push_back(std::move(span));
}

SpanText span_text_of(const Json& item, const std::string& where) {
  const Json* const input = item.find("userInput");
  SpanText example{.text = (input ? *input : item).at("text").string(), .spans = {}};
  const std::vector<std::int64_t> offsets = character_offsets(example.text);
  const Json none = Json::array();
  const Json* const spans = item.find(input ? "labels" : "spans");
  for (const Json& span : (spans ? *spans : none).items()) {
    if (input) {
      const Json& place = span.at("valueSpan");
      const Json* const begin = place.find("startIndex");
      add_span(example, offsets, begin ? *begin : Json(0), place.at("endIndex"), span.at("slot"), where);
    } else {
      add_span(example, offsets, span.at("begin"), span.at("end"), span.at("label"), where);
    }
  }
  std::sort(example.spans.begin(), example.spans.end(), [](const TextSpan& a, const TextSpan& b) {
    return std::tie(a.begin, a.end, a.label) < std::tie(b.begin, b.end, b.label);
  });
  return example;
}

void add_paragraph(QuestionFile& all, const Json& paragraph, std::int64_t article, const std::string& where) {
  const std::string& context = all.contexts.emplace_back(paragraph.at("context").string());
  const std::vector<std::int64_t> offsets = character_offsets(context);
  for (const Json& item : paragraph.at("qas").items()) {
    ContextQuestion question{.id = plain_text_of(item.at("id")),
                             .question = item.at("question").string(),
                             .context = std::ssize(all.contexts) - 1,
                             .article = article,
                             .answers = {}};
    for (const Json& answer : item.at("answers").items()) {
      AnswerSpan span{.begin = byte_of(offsets, answer.at("answer_start").int64(), where),
                      .text = answer.at("text").string()};
      check(context.compare(static_cast<std::size_t>(span.begin), span.text.size(), span.text) == 0, where,
            ": question ", question.id, ": the context does not have the answer \"", span.text, "\" at ",
            answer.at("answer_start").int64());
      question.answers.push_back(std::move(span));
    }
    all.questions.push_back(std::move(question));
  }
}

}  // namespace

std::vector<LabelledText> read_labelled_texts(const fs::path& file, const ExampleFields& fields) {
  const std::string where = file.string(), ending = ending_of(file);
  if (ending == ".csv" || ending == ".tsv" || ending == ".txt") {
    check(fields.parts.empty(), where, ": parts is \"", fields.parts, "\", and only a .json has parts");
    const std::string text = read_whole_file(file, {}, kTextLimits);
    return labelled_texts_of(ending == ".csv" ? parse_csv(text, where) : parse_tsv(text, where), fields, where);
  }
  check(ending == ".json" || ending == ".jsonl", where, ": expected a .csv, .tsv, .txt, .json or .jsonl");
  std::vector<LabelledText> examples;
  for_each_item(file, fields.parts, [&](const Json& item) {
    examples.push_back(labelled_text_of(item, fields, where + ": item " + std::to_string(examples.size() + 1)));
  });
  return examples;
}

std::vector<SpanText> read_span_texts(const fs::path& file) {
  const std::string ending = ending_of(file);
  check(ending == ".json" || ending == ".jsonl", file.string(), ": expected a .json or .jsonl");
  std::vector<SpanText> examples;
  for_each_item(file, {}, [&](const Json& item) {
    examples.push_back(span_text_of(item, file.string() + ": item " + std::to_string(examples.size() + 1)));
  });
  return examples;
}

QuestionFile read_questions(const fs::path& file) {
  QuestionFile all;
  const Json root = read_json(file, kExampleLimits);
  const std::string where = file.string();
  try {
    std::int64_t article = 0;
    for (const Json& one : root.at("data").items()) {
      for (const Json& paragraph : one.at("paragraphs").items()) add_paragraph(all, paragraph, article, where);
      ++article;
    }
  } catch (const Error& error) {
    fail(where, ": is not in the format of SQuAD 1.1: ", error.what());
  }
  return all;
}

std::string read_plain_text(const fs::path& file) {
  std::string text = read_whole_file(file, {}, kTextLimits);
  check(is_utf8(text), file.string(), ": is not UTF-8");
  return text;
}

}  // namespace headway::inline v0::internal
