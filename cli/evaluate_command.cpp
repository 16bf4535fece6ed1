// headway evaluate
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "headway/error.h"
#include "headway/rouge.h"
#include "headway/translation_scores.h"
#include "line_farm.h"
#include "options.h"
#include "ranks.h"
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
  Texts hypotheses;  // before they are translated: their sources
  Texts references;
  std::string into = {};  // the language to translate into
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

  std::optional<headway::Translator> translator = {};  // where texts are translated

  int run();
  void print_rouge(const Evaluation& evaluation) const;
  std::vector<Evaluation> evaluations();
  std::vector<Evaluation> of_data();
  void check() const;
  void translate(const headway::Communicator& world, std::vector<Evaluation>& evaluations) const;
  std::vector<LineResult> translated(const Lines& lines) const;
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

// Translates the texts of all evaluations, by all ranks. Before each text is the language that it becomes, and a tab.
void Evaluate::translate(const headway::Communicator& world, std::vector<Evaluation>& evaluations) const {
  Lines lines;
  Texts translations;
  for (const Evaluation& evaluation : evaluations) {
    for (const std::string& text : evaluation.hypotheses) {
      lines.push_back({static_cast<std::int64_t>(lines.size()) + 1, evaluation.into + '\t' + text});
    }
  }
  LineFarm farm;
  farm.batch = static_cast<std::size_t>(translation.options().search.batch_size);
  farm.most = world.is_alone() ? std::max(lines.size(), std::size_t{1}) : farm.batch * 16;
  std::size_t next = 0;
  farm.next = [&](std::size_t most) {
    const std::size_t begin = std::exchange(next, std::min(next + most, lines.size()));
    return Lines(lines.begin() + static_cast<std::ptrdiff_t>(begin), lines.begin() + static_cast<std::ptrdiff_t>(next));
  };
  farm.is_ready = [] { return true; };
  farm.write = [&](const Lines&, const std::vector<LineResult>& results) {
    for (const LineResult& result : results) translations.push_back(result.text);
  };
  farm.work = [this](const Lines& some) { return translated(some); };
  farm_lines(world, farm);
  auto result = translations.begin();
  for (Evaluation& evaluation : evaluations) {
    for (std::string& text : evaluation.hypotheses) text = std::move(*result++);
  }
}

std::vector<LineResult> Evaluate::translated(const Lines& lines) const {
  std::map<std::string, std::vector<std::size_t>> by_language;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    by_language[lines[i].text.substr(0, lines[i].text.find('\t'))].push_back(i);
  }
  std::vector<LineResult> results(lines.size());
  for (const auto& [language, places] : by_language) {
    headway::TranslateOptions options = translation.options();
    options.to = language;
    Texts texts;
    for (const std::size_t place : places) texts.push_back(lines[place].text.substr(language.size() + 1));
    const std::vector<headway::Translation> translations = translator->translate(texts, options);
    for (std::size_t i = 0; i < places.size(); ++i) results[places[i]].text = one_line(translations[i].text);
  }
  return results;
}

// The part of the pairs that training never saw, each distinct source once with its first translation.
std::vector<Evaluation> Evaluate::of_data() {
  std::vector<headway::TextPair> all = pairs.read();
  headway::clean_pairs(all, pairs.cleaning);
  const headway::SplitPairs parts = headway::split_pairs(all);
  const std::vector<headway::TextPair>& chosen = part == "test" ? parts.test : parts.validation;
  if (chosen.empty()) throw headway::Error(pairs.data + ": its " + part + " part has no pairs");

  translator = translation.model.open();
  const std::string target = language_code(*translator, "--target-language", target_language);
  const std::string source = language_code(*translator, "--source-language", source_language);
  const std::string to = language_code(*translator, "--to", translation.to);
  if (!to.empty() && to != source && to != target) {
    throw UsageError("--to is " + translation.to + ", expected " + source + " or " + target);
  }
  std::vector<Evaluation> results;
  for (const bool reverse : {false, true}) {
    const std::string& into = reverse ? source : target;
    if (!to.empty() && to != into) continue;
    Evaluation evaluation = {reverse ? target + "-" + source : source + "-" + target, {}, {}, into};
    for (const headway::TextPair& pair : headway::distinct_sources(chosen, reverse)) {
      evaluation.hypotheses.push_back(pair.source);
      evaluation.references.push_back(pair.target);
    }
    results.push_back(std::move(evaluation));
  }
  return results;
}

void Evaluate::check() const {
  const int given = (hypotheses.empty() ? 0 : 1) + (sources.empty() ? 0 : 1) + (pairs.data.empty() ? 0 : 1);
  if (given != 1) throw UsageError("expected one of --hypotheses FILE, --source FILE or --data FILE");
  if (pairs.data.empty()) {
    if (references.empty()) throw UsageError("--reference FILE is required");
  } else if (!references.empty()) {
    throw UsageError("--data brings its references, --reference is not expected");
  }
}

std::vector<Evaluation> Evaluate::evaluations() {
  if (!pairs.data.empty()) return of_data();
  const bool of_sources = !sources.empty();
  const std::string& file = of_sources ? sources : hypotheses;
  Evaluation evaluation = {"", read_lines(file), read_lines(references), ""};
  if (evaluation.hypotheses.size() != evaluation.references.size()) {
    throw headway::Error(file + " has " + count_of(static_cast<std::int64_t>(evaluation.hypotheses.size()), "line") +
                         " and " + references + " " + std::to_string(evaluation.references.size()) +
                         ", expected as many");
  }
  if (of_sources) {
    translator = translation.model.open();
    evaluation.into = language_code(*translator, "--to", translation.to);
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
  const headway::Communicator world = open_world();
  std::vector<Evaluation> results;
  on_every_rank(world, [&] {
    check();
    if (world.rank() == 0) {
      results = evaluations();
    } else if (hypotheses.empty()) {
      translator = translation.model.open();
    }
  });
  if (hypotheses.empty()) translate(world, results);
  if (world.rank() > 0) return kDone;
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
