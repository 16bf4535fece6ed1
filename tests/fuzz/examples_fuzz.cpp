// Feeds bytes to the readers of examples for fine-tuning. Texts that they accept are UTF-8, and spans and answers are
// inside their texts; what they do not accept must be an Error.
#include "base/utf8.h"
#include "headway/error.h"
#include "input_file.h"
#include "text/example_files.h"

namespace {

using headway::internal::is_utf8;
using headway_fuzz::require;

template <typename Read>
void attempt(const Read& read) {
  try {
    read();
  } catch (const headway::Error&) {
    // what a file says is refused by name
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  namespace internal = headway::internal;
  static const headway_fuzz::InputDirectory directory;
  for (const char* name : {"a.csv", "a.tsv", "a.json", "a.jsonl"}) {
    const std::filesystem::path file = directory.write(name, input, size);
    attempt([&] {
      for (const auto& [text, label] : internal::read_labelled_texts(file)) require(is_utf8(text) && is_utf8(label));
    });
    attempt([&] {
      for (const internal::SpanText& one : internal::read_span_texts(file)) {
        const auto length = static_cast<std::int64_t>(one.text.size());
        for (const auto& span : one.spans) require(span.begin >= 0 && span.begin <= span.end && span.end <= length);
      }
    });
    attempt([&] {
      const internal::QuestionFile read = internal::read_questions(file);
      for (const internal::ContextQuestion& question : read.questions) {
        const std::string& context = read.contexts.at(static_cast<std::size_t>(question.context));
        for (const internal::AnswerSpan& answer : question.answers) {
          require(answer.begin >= 0 && static_cast<std::size_t>(answer.begin) + answer.text.size() <= context.size());
        }
      }
    });
  }
  attempt([&] { require(is_utf8(internal::read_plain_text(directory.path() / "a.csv"))); });
  return 0;
}
