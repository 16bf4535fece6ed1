// Translator: texts to sentences, sentences to ids, search, and back.
#include "headway/translator.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/check.h"
#include "base/utf8.h"
#include "generate/search.h"
#include "text/languages.h"
#include "text/sentences.h"

namespace headway::inline v0 {

using internal::check;

namespace {

// A text with more tokens is translated sentence by sentence: models learn from sentences.
constexpr std::int64_t kSentenceTokens = 48;
// Tokens of a translation that tell which language the text was in.
constexpr std::int64_t kGuessTokens = 48;

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i > 0 ? between : "") + parts[i];
  return text;
}

TranslationModel evaluating(TranslationModel model, Device device, DType dtype) {
  model.eval();
  model.to(dtype);
  model.to(device);
  return model;
}

// One part of a text that is translated by itself.
struct Unit {
  std::size_t line = 0;  // which line of the text
  std::vector<std::int64_t> source = {};
  std::vector<Hypothesis> best = {};
};

// One call of translate().
class Work {
 public:
  Work(const Translator& translator, const internal::StepDecoder& decoder, const TranslateOptions& options)
      : tokenizer_(translator.tokenizer()), translator_(translator), decoder_(decoder), options_(options) {}

  std::vector<Translation> run(const std::vector<std::string>& texts) {
    results_.resize(texts.size());
    choose_languages(texts);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      first_units_.push_back(units_.size());
      add_units(i);
    }
    first_units_.push_back(units_.size());
    search_units();
    for (std::size_t i = 0; i < texts.size(); ++i) join(i);
    return std::move(results_);
  }

 private:
  void choose_languages(const std::vector<std::string>& texts) {
    const std::vector<std::string>& languages = tokenizer_.languages();
    const std::string wanted = options_.to.empty() ? std::string() : translator_.language_code(options_.to);
    std::vector<std::size_t> unsure;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto [code, body] = internal::split_language_code(texts[i], languages);
      bodies_.push_back(body);
      std::string& to = results_[i].to;
      to = code.empty() ? wanted : std::string(code);
      if (!to.empty() || internal::is_blank(body)) continue;
      check(languages.size() <= 2, "the model has the target languages ", joined(languages, ", "),
            ", and none was chosen");
      const std::optional<std::string> chosen = internal::choose_target_language(body, languages);
      to = chosen.value_or("");
      if (!chosen) unsure.push_back(i);
    }
    if (!unsure.empty()) choose_by_score(unsure);
  }

  // Translates the beginnings into both languages: into its own, the model does it badly.
  void choose_by_score(const std::vector<std::size_t>& texts) {
    const std::vector<std::string>& languages = tokenizer_.languages();
    std::vector<std::vector<std::int64_t>> sources;
    for (const std::size_t text : texts) {
      for (const std::string& language : languages) {
        std::vector<std::int64_t> ids = tokenizer_.encode_source(bodies_[text], language);
        if (static_cast<std::int64_t>(ids.size()) > kGuessTokens) {
          ids.resize(kGuessTokens);
          ids.back() = tokenizer_.eos_id();
        }
        sources.push_back(std::move(ids));
      }
    }
    const auto found = internal::search_with(decoder_, sources,
                                             {.max_length = kGuessTokens, .batch_size = options_.search.batch_size});
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const bool second = found[2 * i + 1].front().score > found[2 * i].front().score;
      results_[texts[i]].to = languages[second ? 1 : 0];
    }
  }

  std::vector<std::int64_t> encode(std::string_view text, const std::string& language) const {
    return tokenizer_.encode_source(text, language);
  }

  void add_unit(std::size_t line, std::vector<std::int64_t> source) {
    units_.push_back({.line = line, .source = std::move(source)});
  }

  void add_units(std::size_t text) {
    const std::string_view body = bodies_[text];
    if (body.empty() || internal::is_blank(body)) {
      note(text, body.empty() ? "the text is empty" : "the text is blank");
      return;
    }
    if (!internal::is_utf8(body)) note(text, "the text is not UTF-8; what is not was replaced by U+FFFD");
    const std::size_t before = units_.size();
    const std::vector<std::string_view> lines = internal::split_lines(body);
    std::size_t lines_with_text = 0;
    for (std::size_t line = 0; line < lines.size(); ++line) {
      if (internal::is_blank(lines[line])) continue;
      ++lines_with_text;
      add_line(text, line, lines[line]);
    }
    const std::size_t parts = units_.size() - before;
    if (parts > lines_with_text) note(text, "the text was translated in " + std::to_string(parts) + " parts");
    note_unknown(text, before);
  }

  void add_line(std::size_t text, std::size_t line, std::string_view body) {
    const std::string& language = results_[text].to;
    std::vector<std::int64_t> whole = encode(body, language);
    if (static_cast<std::int64_t>(whole.size()) <= std::min(kSentenceTokens, most_tokens())) {
      return add_unit(line, std::move(whole));
    }
    for (const std::string_view sentence : internal::split_sentences(body)) {
      std::vector<std::int64_t> ids = encode(sentence, language);
      if (static_cast<std::int64_t>(ids.size()) <= most_tokens()) {
        add_unit(line, std::move(ids));
        continue;
      }
      const auto fits = [&](std::string_view part) {
        return static_cast<std::int64_t>(encode(part, language).size()) <= most_tokens();
      };
      for (const std::string_view part : internal::split_to_fit(sentence, fits)) {
        add_unit(line, encode(part, language));
      }
    }
  }

  std::int64_t most_tokens() const { return decoder_.model().options().max_position_embeddings; }

  // Characters that came apart into bytes, or have no token at all.
  void note_unknown(std::size_t text, std::size_t first_unit) {
    std::int64_t unknown = 0;
    for (std::size_t i = first_unit; i < units_.size(); ++i) {
      for (const std::int64_t id : units_[i].source) {
        const std::string token = tokenizer_.token(id);
        const bool is_byte = token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
        const bool continues = is_byte && token[3] >= '8' && token[3] <= 'B';  // 10xxxxxx
        if (id == tokenizer_.unk_id() || (is_byte && !continues)) ++unknown;
      }
    }
    if (unknown == 0) return;
    note(text,
         std::to_string(unknown) + (unknown == 1 ? " character is" : " characters are") + " unknown to the model");
  }

  void search_units() {
    SearchOptions search = options_.search;
    if (search.on_token) return search_streaming();
    std::vector<std::vector<std::int64_t>> sources;
    for (const Unit& unit : units_) sources.push_back(unit.source);
    const auto found = internal::search_with(decoder_, sources, search);
    for (std::size_t i = 0; i < units_.size(); ++i) units_[i].best = found[i];
  }

  // One unit after the other; the text so far is that of all before and of this one.
  void search_streaming() {
    check(results_.size() == 1, "Translator: on_token is given for ", results_.size(), " texts, expected one");
    std::string before;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (i > 0) before += units_[i].line == units_[i - 1].line ? " " : "\n";
      const auto text_of = [&](const std::vector<std::int64_t>& ids) { return before + tokenizer_.decode_target(ids); };
      units_[i].best = internal::search_with(decoder_, {units_[i].source}, options_.search, text_of).front();
      before += tokenizer_.decode_target(units_[i].best.front().tokens);
    }
  }

  void join(std::size_t text) {
    Translation& result = results_[text];
    const std::span<const Unit> units(units_.data() + first_units_[text], first_units_[text + 1] - first_units_[text]);
    std::size_t count = 1;
    bool complete = true;
    for (const Unit& unit : units) {
      count = std::max(count, unit.best.size());
      complete = complete && unit.best.front().complete;
    }
    for (std::size_t n = 0; n < count; ++n) {
      double score = 0.0;
      std::string whole;
      for (std::size_t i = 0; i < units.size(); ++i) {
        const Hypothesis& hypothesis = units[i].best[std::min(n, units[i].best.size() - 1)];
        for (std::size_t line = i > 0 ? units[i - 1].line : 0; line < units[i].line; ++line) whole += '\n';
        if (i > 0 && units[i].line == units[i - 1].line) whole += ' ';
        whole += tokenizer_.decode_target(hypothesis.tokens);
        score += hypothesis.score / static_cast<double>(units.size());
      }
      result.best.push_back(std::move(whole));
      result.scores.push_back(score);
    }
    result.text = result.best.front();
    if (!complete) note(text, "the translation did not come to its end within the allowed length");
  }

  void note(std::size_t text, const std::string& what) {
    std::string& note = results_[text].note;
    note += (note.empty() ? "" : "; ") + what;
  }

  const TranslationTokenizer& tokenizer_;
  const Translator& translator_;
  const internal::StepDecoder& decoder_;
  const TranslateOptions& options_;
  std::vector<std::string_view> bodies_;  // (texts) without a leading code
  std::vector<Unit> units_;               // of all texts, one after the other
  std::vector<std::size_t> first_units_;  // (texts + 1)
  std::vector<Translation> results_;
};

}  // namespace

Translator::Translator(const std::filesystem::path& directory, Device device, DType dtype)
    : Translator(evaluating(TranslationModel::load(directory), device, dtype), TranslationTokenizer::load(directory)) {}

Translator::Translator(TranslationModel model, TranslationTokenizer tokenizer)
    : model_(std::move(model)),
      tokenizer_(std::move(tokenizer)),
      decoder_(std::make_shared<const internal::StepDecoder>(model_)) {
  const TranslationModelOptions& options = model_.options();
  check(tokenizer_.size() == options.vocab_size, "the tokenizer has ", tokenizer_.size(),
        " tokens, and the model's vocab_size is ", options.vocab_size);
  check(tokenizer_.eos_id() == options.eos_token_id, "</s> is ", tokenizer_.eos_id(),
        " in the tokenizer, and the model's eos_token_id is ", options.eos_token_id);
  check(tokenizer_.pad_id() == options.pad_token_id, "<pad> is ", tokenizer_.pad_id(),
        " in the tokenizer, and the model's pad_token_id is ", options.pad_token_id);
}

std::vector<Translation> Translator::translate(const std::vector<std::string>& texts,
                                               const TranslateOptions& options) const {
  const std::shared_ptr<const internal::StepDecoder> decoder =
      decoder_->is_current() ? decoder_ : std::make_shared<const internal::StepDecoder>(model_);
  return Work(*this, *decoder, options).run(texts);
}

std::string Translator::language_code(std::string_view name) const {
  const std::vector<std::string>& languages = tokenizer_.languages();
  const auto found = internal::find_language(name, languages);
  if (found) return *found;
  check(!languages.empty(), "language \"", name,
        "\" is asked for, and the model has one target language and no codes for it");
  internal::fail("language \"", name, "\" is not there, expected one of ", joined(languages, ", "));
}

}  // namespace headway::inline v0
