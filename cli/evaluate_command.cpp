// headway evaluate
#include <iostream>
#include <memory>
#include <utility>

#include "headway/error.h"
#include "headway/rouge.h"
#include "headway/translation_scores.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kEvaluateExamples = R"(  headway evaluate --hypotheses output.txt --reference german.txt
  headway evaluate --source english.txt --reference german.txt --to de
  headway evaluate --data deu-eng.zip --to de --beam 1       (the part held out of training)
  headway evaluate --data deu-eng.zip --json                 (both directions)
  headway evaluate --metric rouge --stemmer --hypotheses summaries.txt --reference titles.txt)";

using Texts = std::vector<std::string>;

// One corpus and its scores.
struct Evaluation {
  std::string name;  // of the direction, as "eng-deu"; empty for files
  Texts hypotheses;
  Texts references;
};

struct Evaluate {
  TranslationOptions translation;
  std::string hypotheses = {};
  std::string references = {};
  std::string sources = {};
  PairOptions pairs;
  std::string part = "test";
  std::string source_language = "eng";
  std::string target_language = "deu";
  std::string output = {};
  std::string metric = "bleu";
  bool stemmer = false;
  bool json = false;

  int run();
  void print_rouge(const Evaluation& evaluation) const;
  std::vector<Evaluation> evaluations();
  std::vector<Evaluation> of_data();
  Texts translate(const headway::Translator& translator, const Texts& texts, const std::string& to) const;
};

void print(const Evaluation& evaluation) {
  const headway::BleuScore bleu = headway::bleu(evaluation.hypotheses, evaluation.references);
  const headway::ChrfScore chrf = headway::chrf(evaluation.hypotheses, evaluation.references);
  std::string precisions;
  for (const double precision : bleu.precisions) precisions += (precisions.empty() ? "" : "/") + fixed(precision, 1);
  const double ratio = bleu.reference_length > 0
                           ? static_cast<double>(bleu.hypothesis_length) / static_cast<double>(bleu.reference_length)
                           : 0.0;
  const auto sentences = static_cast<std::int64_t>(evaluation.hypotheses.size());
  std::cout << (evaluation.name.empty() ? "" : evaluation.name + ", ") << count_of(sentences, "sentence") << '\n'
            << "BLEU " << fixed(bleu.score, 2) << "  " << precisions << " (BP = " << fixed(bleu.brevity_penalty, 3)
            << " ratio = " << fixed(ratio, 3) << " hyp_len = " << bleu.hypothesis_length
            << " ref_len = " << bleu.reference_length << ")\n  " << bleu.signature << '\n'
            << "chrF " << fixed(chrf.score, 2) << "\n  " << chrf.signature << '\n';
}

std::string json_of(const Evaluation& evaluation) {
  const headway::BleuScore bleu = headway::bleu(evaluation.hypotheses, evaluation.references);
  const headway::ChrfScore chrf = headway::chrf(evaluation.hypotheses, evaluation.references);
  std::string precisions;
  for (const double precision : bleu.precisions)
    precisions += (precisions.empty() ? "" : ", ") + json_number(precision);
  return "{\"direction\": " + json_string(evaluation.name) +
         ", \"sentences\": " + std::to_string(evaluation.hypotheses.size()) +
         ", \"bleu\": {\"score\": " + json_number(bleu.score) + ", \"precisions\": [" + precisions +
         "], \"brevity_penalty\": " + json_number(bleu.brevity_penalty) +
         ", \"hypothesis_length\": " + std::to_string(bleu.hypothesis_length) +
         ", \"reference_length\": " + std::to_string(bleu.reference_length) +
         ", \"signature\": " + json_string(bleu.signature) + "}, \"chrf\": {\"score\": " + json_number(chrf.score) +
         ", \"signature\": " + json_string(chrf.signature) + "}}";
}

Texts Evaluate::translate(const headway::Translator& translator, const Texts& texts, const std::string& to) const {
  headway::TranslateOptions options = translation.options();
  options.to = to;
  Texts translations;
  for (const headway::Translation& result : translator.translate(texts, options)) {
    translations.push_back(one_line(result.text));
  }
  return translations;
}

// The part of the pairs that training never saw, each distinct source once with its first translation.
std::vector<Evaluation> Evaluate::of_data() {
  std::vector<headway::TextPair> all = pairs.read();
  headway::clean_pairs(all, pairs.cleaning);
  const headway::SplitPairs parts = headway::split_pairs(all);
  const std::vector<headway::TextPair>& chosen = part == "test" ? parts.test : parts.validation;
  if (chosen.empty()) throw headway::Error(pairs.data + ": its " + part + " part has no pairs");

  const headway::Translator translator = translation.model.open();
  const std::string target = language_code(translator, "--target-language", target_language);
  const std::string source = language_code(translator, "--source-language", source_language);
  const std::string to = language_code(translator, "--to", translation.to);
  if (!to.empty() && to != source && to != target) {
    throw UsageError("--to is " + translation.to + ", expected " + source + " or " + target);
  }
  std::vector<Evaluation> results;
  for (const bool reverse : {false, true}) {
    const std::string& into = reverse ? source : target;
    if (!to.empty() && to != into) continue;
    Evaluation evaluation = {reverse ? target + "-" + source : source + "-" + target, {}, {}};
    Texts texts;
    for (const headway::TextPair& pair : headway::distinct_sources(chosen, reverse)) {
      texts.push_back(pair.source);
      evaluation.references.push_back(pair.target);
    }
    evaluation.hypotheses = translate(translator, texts, into);
    results.push_back(std::move(evaluation));
  }
  return results;
}

std::vector<Evaluation> Evaluate::evaluations() {
  const bool of_files = !hypotheses.empty() && sources.empty() && pairs.data.empty();
  const bool of_sources = hypotheses.empty() && !sources.empty() && pairs.data.empty();
  const bool of_pairs = hypotheses.empty() && sources.empty() && !pairs.data.empty();
  if (!of_files && !of_sources && !of_pairs) {
    throw UsageError("expected one of --hypotheses FILE, --source FILE or --data FILE");
  }
  if (of_pairs && !references.empty()) throw UsageError("--data brings its references, --reference is not expected");
  if (of_pairs) return of_data();
  if (references.empty()) throw UsageError("--reference FILE is required");
  const std::string& file = of_files ? hypotheses : sources;
  Evaluation evaluation = {"", read_lines(file), read_lines(references)};
  if (evaluation.hypotheses.size() != evaluation.references.size()) {
    throw headway::Error(file + " has " + count_of(static_cast<std::int64_t>(evaluation.hypotheses.size()), "line") +
                         " and " + references + " " + std::to_string(evaluation.references.size()) +
                         ", expected as many");
  }
  if (of_sources) {
    const headway::Translator translator = translation.model.open();
    const std::string to = language_code(translator, "--to", translation.to);
    evaluation.hypotheses = translate(translator, evaluation.hypotheses, to);
  }
  return {std::move(evaluation)};
}

void Evaluate::print_rouge(const Evaluation& evaluation) const {
  const headway::RougeScores means = headway::rouge(evaluation.hypotheses, evaluation.references, {.stemmer = stemmer});
  const std::pair<const char*, headway::RougeScore> scores[] = {
      {"rouge1", means.rouge1}, {"rouge2", means.rouge2}, {"rougeL", means.rouge_l}};
  std::string fields = "\"sentences\": " + std::to_string(evaluation.hypotheses.size());
  for (const auto& [name, score] : scores) {
    fields += ", \"" + std::string(name) + "\": {\"precision\": " + json_number(score.precision) +
              ", \"recall\": " + json_number(score.recall) + ", \"f1\": " + json_number(score.f1) + "}";
    if (!json) {
      std::cout << name << ' ' << fixed(100.0 * score.f1, 2) << "  precision " << fixed(100.0 * score.precision, 2)
                << " recall " << fixed(100.0 * score.recall, 2) << '\n';
    }
  }
  if (json) std::cout << '{' << fields << "}\n";
}

int Evaluate::run() {
  const std::vector<Evaluation> results = evaluations();
  if (!output.empty()) {
    std::string lines;
    for (const Evaluation& evaluation : results) {
      for (const std::string& text : evaluation.hypotheses) lines += text + '\n';
    }
    write_file(output, lines);
  }
  if (metric == "rouge") {
    for (const Evaluation& evaluation : results) print_rouge(evaluation);
    return kDone;
  }
  if (!json) {
    for (const Evaluation& evaluation : results) print(evaluation);
    return kDone;
  }
  std::string list;
  for (const Evaluation& evaluation : results) list += (list.empty() ? "" : ",\n ") + json_of(evaluation);
  std::cout << '[' << list << "]\n";
  return kDone;
}

void add_file_option(CLI::App& command, const std::string& name, std::string& value, const std::string& description) {
  command.add_option(name, value, description)->type_name("FILE");
}

}  // namespace

void add_evaluate(Program& program) {
  CLI::App& command = program.add_command(
      {"evaluate", "BLEU and chrF, equal to sacreBLEU's, with their signatures; ROUGE", kEvaluateExamples});
  const auto options = std::make_shared<Evaluate>();
  add_file_option(command, "--hypotheses", options->hypotheses,
                  "Translations to score, one a line; - is standard input");
  add_file_option(command, "--reference", options->references, "The right translations, one a line");
  add_file_option(command, "--source", options->sources,
                  "Texts to translate with the model and then score, one a line");
  add_file_option(command, "--data", options->pairs.data,
                  "Sentence pairs, tab-separated, plain or zipped: cleaned and split as training does it, of which one "
                  "part is translated, each distinct source once");
  add_file_option(command, "--data-target", options->pairs.data_target,
                  "Where set, --data holds the sources line by line and this file the targets");
  command.add_option("--part", options->part, "Which part of --data")
      ->capture_default_str()
      ->check(CLI::IsMember({"test", "validation"}));
  command.add_option("--source-language", options->source_language, "Language of the left side of --data")
      ->type_name("LANGUAGE")
      ->capture_default_str();
  command.add_option("--target-language", options->target_language, "Language of the right side of --data")
      ->type_name("LANGUAGE")
      ->capture_default_str();
  options->pairs.add_cleaning_to(command);
  options->translation.add_to(command);
  add_file_option(command, "--output", options->output, "Write the translations here, one a line");
  command.add_option("--metric", options->metric, "BLEU and chrF, or ROUGE equal to that of rouge-score")
      ->capture_default_str()
      ->check(CLI::IsMember({"bleu", "rouge"}));
  command.add_flag("--stemmer", options->stemmer, "ROUGE: compare Porter's stems of words");
  command.add_flag("--json", options->json, "Write a JSON list, an object for each direction; ROUGE: one a line");
  program.on_run(command, [options] { return options->run(); });
}

}  // namespace cli
