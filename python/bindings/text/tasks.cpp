// TextEncoder, TextClassifier, TokenTagger, QuestionAnswerer and MaskFiller. Offsets are code points here.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings/text/code_points.h"
#include "bindings/text/text_bindings.h"
#include "headway/mask_filler.h"
#include "headway/question_answerer.h"
#include "headway/text_classifier.h"
#include "headway/text_encoder.h"
#include "headway/token_tagger.h"

namespace headway::python {
namespace {

using namespace nb::literals;
using Array = nb::handle;

// A list of results, or the only one where one text was given.
nb::object one_or_all(const Texts& texts, nb::list results) {
  if (texts.is_one) return nb::object(results[0]);
  return results;
}

nb::object embed(const TextEncoder& self, Array texts, const std::optional<std::string>& prompt,
                 const std::optional<std::string>& prompt_name, std::optional<bool> normalize,
                 std::int64_t batch_tokens) {
  const Texts given = read_texts("embed: texts", texts);
  EmbedOptions options;
  options.prompt = prompt;
  options.prompt_name = prompt_name;
  options.normalize = normalize;
  options.batch_tokens = batch_tokens;
  const Tensor vectors = without_lock([&] { return self.embed(given.texts, options); });
  return nb::cast(given.is_one ? vectors[0] : vectors).attr("numpy")();
}

nb::list give_labels(const Classification& classification) {
  const nb::object type = result_type("LabelScore");
  nb::list labels;
  for (const LabelScore& label : classification.labels)
    labels.append(call_python(type, label.label, label.score, label.id));
  return labels;
}

nb::object classify(const TextClassifier& self, Array texts, Array pairs, std::int64_t most, Array scores,
                    std::int64_t batch_tokens) {
  const Texts given = read_texts("classify: texts", texts);
  ClassifyOptions options;
  options.most = most;
  options.batch_tokens = batch_tokens;
  if (!scores.is_none()) {
    options.scores =
        static_cast<LabelScores>(read_choice("classify: scores", scores, {"softmax", "sigmoid", "logits"}));
  }
  std::vector<Classification> found;
  if (pairs.is_none()) {
    found = without_lock([&] { return self.classify(given.texts, options); });
  } else {
    const Texts second = read_texts("classify: pairs", pairs);
    found = without_lock([&] { return self.classify_pairs(given.texts, second.texts, options); });
  }
  nb::list results;
  for (const Classification& classification : found) results.append(give_labels(classification));
  return one_or_all(given, results);
}

nb::object logits(const TextClassifier& self, Array texts, std::int64_t batch_tokens) {
  const Texts given = read_texts("logits: texts", texts);
  const Tensor values = without_lock([&] { return self.logits(given.texts, batch_tokens); });
  return nb::cast(given.is_one ? values[0] : values).attr("numpy")();
}

nb::object tag(const TokenTagger& self, Array texts, Array aggregation, const std::vector<std::string>& ignored,
               std::int64_t stride, std::int64_t batch_tokens) {
  const Texts given = read_texts("tag: texts", texts);
  TagOptions options;
  options.aggregation = static_cast<TagAggregation>(
      read_choice("tag: aggregation", aggregation, {"none", "simple", "first", "average", "max"}));
  options.ignored = ignored;
  options.stride = stride;
  options.batch_tokens = batch_tokens;
  const std::vector<TaggedText> found = without_lock([&] { return self.tag(given.texts, options); });
  const nb::object type = result_type("TaggedSpan");
  nb::list results;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const CodePoints points(given.texts[i]);
    nb::list spans;
    for (const TaggedSpan& span : found[i].spans) {
      spans.append(
          call_python(type, span.label, span.score, points.begin(span.begin), points.end(span.end), span.text));
    }
    results.append(spans);
  }
  return one_or_all(given, results);
}

nb::object give_answers(const Answers& answers, const std::string& context) {
  const nb::object type = result_type("Answer");
  const CodePoints points(context);
  nb::list best;
  for (const Answer& answer : answers.best) {
    best.append(call_python(type, answer.text, answer.score, points.begin(answer.begin), points.end(answer.end)));
  }
  return call_python(result_type("Answers"), best, answers.no_answer);
}

// One question with its context, or a list of such pairs.
nb::object answer(const QuestionAnswerer& self, Array question, const std::optional<std::string>& context,
                  std::int64_t num_best, std::int64_t max_answer_length, std::int64_t max_length, std::int64_t stride,
                  bool allow_no_answer, bool whole_words, std::int64_t batch_tokens) {
  std::vector<Question> questions;
  if (context) {
    if (!nb::isinstance<nb::str>(question)) refuse("answer: question", question, "a str beside a context");
    questions.push_back({read_string("answer: question", question), *context});
  } else {
    std::vector<std::pair<std::string, std::string>> pairs;
    if (!nb::try_cast(question, pairs)) {
      refuse("answer: question", question, "a str with a context, or a list of pairs (question, context)");
    }
    for (const auto& [first, second] : pairs) questions.push_back({first, second});
  }
  AnswerOptions options;
  options.num_best = num_best;
  options.max_answer_length = max_answer_length;
  options.max_length = max_length;
  options.stride = stride;
  options.allow_no_answer = allow_no_answer;
  options.whole_words = whole_words;
  options.batch_tokens = batch_tokens;
  const std::vector<Answers> found = without_lock([&] { return self.answer(questions, options); });
  nb::list results;
  for (std::size_t i = 0; i < found.size(); ++i) results.append(give_answers(found[i], questions[i].context));
  return context ? nb::object(results[0]) : nb::object(results);
}

nb::object fill(const MaskFiller& self, Array texts, std::int64_t most, const std::vector<std::string>& targets,
                std::int64_t batch_tokens) {
  const Texts given = read_texts("fill: texts", texts);
  FillOptions options;
  options.most = most;
  options.targets = targets;
  options.batch_tokens = batch_tokens;
  const std::vector<FilledText> found = without_lock([&] { return self.fill(given.texts, options); });
  const nb::object type = result_type("MaskWord");
  nb::list results;
  for (const FilledText& filled : found) {
    nb::list masks;
    for (const std::vector<MaskWord>& mask : filled.masks) {
      nb::list words;
      for (const MaskWord& word : mask) words.append(call_python(type, word.word, word.score, word.text, word.id));
      masks.append(words);
    }
    results.append(masks);
  }
  return one_or_all(given, results);
}

// What every task has: its constructors, its model and its tokenizer.
template <typename Task>
nb::class_<Task> bind_task(nb::module_& module, const char* name, const char* text) {
  nb::class_<Task> task(module, name, text);
  // Before the other one, which takes anything and then refuses it in words.
  task.def(
      "__init__",
      [](Task* self, const TransformerModel& model, const TextTokenizer& tokenizer) {
        new (self) Task(model, tokenizer);
      },
      "model"_a, "tokenizer"_a, "A model in evaluation mode and its tokenizer.");
  const std::string about(name);
  task.def(
      "__init__",
      [about](Task* self, Array directory, Array device, Array dtype) {
        const std::filesystem::path path = read_path(about + ": directory", directory);
        TaskOptions options;
        options.device = read_device(about + ": device", device);
        options.dtype = read_optional_dtype(about + ": dtype", dtype);
        without_lock([&] { new (self) Task(path, options); });
      },
      "directory"_a, "device"_a = "cpu", "dtype"_a.none() = nb::none(),
      "A model directory. dtype converts the parameters; by default they stay as they lie in the files.");
  task.def_prop_ro("max_length", &Task::max_length, "The most tokens of a text.");
  task.def_prop_ro(
      "model", [](const Task& self) { return self.model(); }, "The model, shared.");
  task.def_prop_ro(
      "tokenizer", [](const Task& self) { return self.tokenizer(); }, "The tokenizer.");
  return task;
}

void bind_encoder(nb::module_& module) {
  bind_task<TextEncoder>(module, "TextEncoder",
                         "Texts to vectors: sentence-transformers directories, and encoders of every family, of whose "
                         "hidden states the mean is taken.")
      .def("embed", &embed, "texts"_a, nb::kw_only(), "prompt"_a.none() = nb::none(),
           "prompt_name"_a.none() = nb::none(), "normalize"_a.none() = nb::none(), "batch_tokens"_a = 0,
           "A float32 NumPy array [texts, width] of a list of texts, or [width] of one text.")
      .def_prop_ro("width", &TextEncoder::width, "Numbers of a vector.")
      .def(
          "save", [](const TextEncoder& self, Array directory) { self.save(read_path("save: directory", directory)); },
          "directory"_a, "Writes a sentence-transformers directory.");
}

void bind_classifiers(nb::module_& module) {
  bind_task<TextClassifier>(module, "TextClassifier", "Texts, or pairs of texts, to labels with scores.")
      .def("classify", &classify, "texts"_a, "pairs"_a.none() = nb::none(), nb::kw_only(), "most"_a = 0,
           "scores"_a.none() = nb::none(), "batch_tokens"_a = 0,
           "The labels of each text, or of each pair with a text of `pairs`: lists of headway.LabelScore, the best "
           "first; one such list for one text. most: labels of each text, 0 for all. scores: \"softmax\", "
           "\"sigmoid\" or \"logits\"; by default as the config says.")
      .def("logits", &logits, "texts"_a, nb::kw_only(), "batch_tokens"_a = 0,
           "A float32 NumPy array [texts, labels], or [labels] of one text.")
      .def_prop_ro(
          "labels", [](const TextClassifier& self) { return self.labels(); }, "The names of the classes.");
  bind_task<TokenTagger>(module, "TokenTagger", "Labels of the tokens of a text, joined into spans.")
      .def("tag", &tag, "texts"_a, nb::kw_only(), "aggregation"_a = "simple",
           "ignored"_a = std::vector<std::string>{"O"}, "stride"_a = 64, "batch_tokens"_a = 0,
           "Lists of headway.TaggedSpan for each text; one such list for one text. aggregation: \"none\", \"simple\", "
           "\"first\", \"average\" or \"max\". Long texts are read in windows that share `stride` tokens.")
      .def_prop_ro(
          "labels", [](const TokenTagger& self) { return self.labels(); }, "The names of the classes.");
}

}  // namespace

void bind_tasks(nb::module_& module) {
  bind_encoder(module);
  bind_classifiers(module);
  bind_task<QuestionAnswerer>(module, "QuestionAnswerer", "Answers to questions: spans of a text.")
      .def("answer", &answer, "question"_a, "context"_a.none() = nb::none(), nb::kw_only(), "num_best"_a = 1,
           "max_answer_length"_a = 15, "max_length"_a = 384, "stride"_a = 128, "allow_no_answer"_a = false,
           "whole_words"_a = true, "batch_tokens"_a = 0,
           "headway.Answers of a question in a context, or a list of them for a list of pairs (question, context). "
           "Lengths are in tokens; a long context is read in windows that share `stride` tokens.");
  bind_task<MaskFiller>(module, "MaskFiller", "Words for the masks in a text, by an encoder.")
      .def("fill", &fill, "texts"_a, nb::kw_only(), "most"_a = 5, "targets"_a = std::vector<std::string>(),
           "batch_tokens"_a = 0,
           "For each text a list of its masks, each a list of headway.MaskWord, the best first; one such list for one "
           "text. targets: only these words.")
      .def_prop_ro(
          "mask_token", [](const MaskFiller& self) { return self.mask_token(); }, "\"[MASK]\", \"<mask>\", ...");
}

}  // namespace headway::python
