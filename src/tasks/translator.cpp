// Translator: texts to segments, segments to ids, search, and back.
#include "headway/translator.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/check.h"
#include "base/cut_text.h"
#include "base/utf8.h"
#include "generate/search.h"
#include "text/languages.h"
#include "text/sentences.h"

namespace headway::inline v0 {

using internal::check;

namespace {

// A line with more tokens is translated sentence by sentence, because models are trained on sentences.
constexpr std::int64_t kSentenceTokens = 48;
// How many tokens of a text are translated into both languages to find out which one it is in.
constexpr std::int64_t kGuessTokens = 48;
// A longer line is cut first, in bytes: a tokenizer takes hundreds of bytes of memory for each byte of its text.
constexpr std::size_t kLongestLine = std::size_t{1} << 16;

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i > 0 ? between : "") + parts[i];
  return text;
}

// In evaluation mode.
TranslationModel load_model(const std::filesystem::path& directory, const TaskOptions& options) {
  const bool quantizes = options.dtype == DType::int8;
  check(!quantizes || options.device.is_cpu(), "Translator: dtype is ", DType::int8, " on ", options.device,
        ", expected the CPU or a floating dtype");
  TranslationModel model =
      TranslationModel::load(directory, options.dtype && !quantizes ? std::optional(DType::float32) : options.dtype);
  model.eval();
  if (options.dtype && !quantizes) model.to(*options.dtype);
  model.to(options.device);
  return model;
}

// A part of a text that is translated by itself.
struct Segment {
  std::size_t line = 0;                   // of the text, from 0
  std::vector<std::int64_t> source = {};  // ids with </s>
  std::vector<Hypothesis> best = {};
};

// Whether a token is one byte of a character that has no piece: "<0xF0>".
bool is_byte_token(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
}

// Whether the byte continues a UTF-8 character, as 10xxxxxx does.
bool is_continuation(std::string_view byte_token) { return byte_token[3] >= '8' && byte_token[3] <= 'B'; }

// One call of translate().
class TranslationJob {
 public:
  TranslationJob(const Translator& translator, const internal::StepDecoder& decoder, const TranslateOptions& options)
      : tokenizer_(translator.tokenizer()), translator_(translator), decoder_(decoder), options_(options) {}

  std::vector<Translation> run(const std::vector<std::string>& texts) {
    results_.resize(texts.size());
    choose_languages(texts);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      first_segments_.push_back(segments_.size());
      add_segments(i);
    }
    first_segments_.push_back(segments_.size());
    search_segments();
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

  // Translates the beginnings of texts into both languages. A translation into the text's own language scores low.
  void choose_by_score(const std::vector<std::size_t>& texts) {
    const std::vector<std::string>& languages = tokenizer_.languages();
    std::vector<std::vector<std::int64_t>> sources;
    for (const std::size_t text : texts) {
      for (const std::string& language : languages) {
        const std::string_view beginning = bodies_[text].substr(0, internal::cut_place(bodies_[text], kLongestLine));
        std::vector<std::int64_t> ids = tokenizer_.encode_source(beginning, language);
        if (static_cast<std::int64_t>(ids.size()) > kGuessTokens) {
          ids.resize(kGuessTokens);
          ids.back() = tokenizer_.eos_id();
        }
        sources.push_back(std::move(ids));
      }
    }
    const auto found = internal::search_with(decoder_, model_options(), sources,
                                             {.max_length = kGuessTokens, .batch_size = options_.search.batch_size});
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const bool second = found[2 * i + 1].front().score > found[2 * i].front().score;
      results_[texts[i]].to = languages[second ? 1 : 0];
    }
  }

  std::vector<std::int64_t> encode(std::string_view text, const std::string& language) const {
    return tokenizer_.encode_source(text, language);
  }

  void add_segment(std::size_t line, std::vector<std::int64_t> source) {
    segments_.push_back({.line = line, .source = std::move(source)});
  }

  // Cuts a text into segments and fills in its notes.
  void add_segments(std::size_t text) {
    const std::string_view body = bodies_[text];
    TranslationNotes& notes = results_[text].notes;
    notes.empty = body.empty();
    notes.blank = !body.empty() && internal::is_blank(body);
    if (notes.empty || notes.blank) return;
    notes.invalid_utf8 = !internal::is_utf8(body);
    const std::size_t first = segments_.size();
    const std::vector<std::string_view> lines = internal::split_lines(body);
    std::size_t lines_with_text = 0;
    for (std::size_t line = 0; line < lines.size(); ++line) {
      if (internal::is_blank(lines[line])) continue;
      ++lines_with_text;
      add_line(text, line, lines[line]);
    }
    const std::size_t count = segments_.size() - first;
    if (count > lines_with_text) notes.segments = static_cast<std::int64_t>(count);
    notes.unknown_characters = count_unknown(std::span(segments_).subspan(first));
  }

  void add_line(std::size_t text, std::size_t line, std::string_view body) {
    while (!body.empty()) {
      const std::string_view part = body.substr(0, internal::cut_place(body, kLongestLine));
      if (!internal::is_blank(part)) add_part(text, line, part);
      body.remove_prefix(part.size());
    }
  }

  void add_part(std::size_t text, std::size_t line, std::string_view body) {
    const std::string& language = results_[text].to;
    std::vector<std::int64_t> whole = encode(body, language);
    if (static_cast<std::int64_t>(whole.size()) <= std::min(kSentenceTokens, most_tokens())) {
      return add_segment(line, std::move(whole));
    }
    for (const std::string_view sentence : internal::split_sentences(body)) {
      std::vector<std::int64_t> ids = encode(sentence, language);
      if (static_cast<std::int64_t>(ids.size()) <= most_tokens()) {
        add_segment(line, std::move(ids));
        continue;
      }
      const auto fits = [&](std::string_view part) {
        return static_cast<std::int64_t>(encode(part, language).size()) <= most_tokens();
      };
      for (const std::string_view part : internal::split_to_fit(sentence, fits)) {
        add_segment(line, encode(part, language));
      }
    }
  }

  const TranslationModelOptions& model_options() const { return translator_.model().options(); }
  std::int64_t most_tokens() const { return model_options().max_position_embeddings; }

  // Counts the characters that became bytes, by their first bytes, and those without any token.
  std::int64_t count_unknown(std::span<const Segment> segments) const {
    std::int64_t unknown = 0;
    for (const Segment& segment : segments) {
      for (const std::int64_t id : segment.source) {
        const std::string token = tokenizer_.token(id);
        if (id == tokenizer_.unk_id() || (is_byte_token(token) && !is_continuation(token))) ++unknown;
      }
    }
    return unknown;
  }

  void search_segments() {
    if (options_.search.on_token) return search_streaming();
    std::vector<std::vector<std::int64_t>> sources;
    for (const Segment& segment : segments_) sources.push_back(segment.source);
    auto found = internal::search_with(decoder_, model_options(), sources, options_.search);
    for (std::size_t i = 0; i < segments_.size(); ++i) segments_[i].best = std::move(found[i]);
  }

  // One segment after the other; the text so far is that of all earlier segments and of this one.
  void search_streaming() {
    check(results_.size() == 1, "Translator: on_token is given for ", results_.size(), " texts, expected one");
    std::string before;
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      Segment& segment = segments_[i];
      if (i > 0) before += segment.line == segments_[i - 1].line ? " " : "\n";
      const auto text_of = [&](const std::vector<std::int64_t>& ids) { return before + tokenizer_.decode_target(ids); };
      segment.best =
          internal::search_with(decoder_, model_options(), {segment.source}, options_.search, text_of).front();
      before += tokenizer_.decode_target(segment.best.front().tokens);
    }
  }

  // Joins the translations of a text's segments: the n-th best of each form the n-th best of the text, whose score is
  // their mean.
  void join(std::size_t text) {
    Translation& result = results_[text];
    const auto segments = std::span<const Segment>(segments_).subspan(
        first_segments_[text], first_segments_[text + 1] - first_segments_[text]);
    std::size_t count = 1;
    for (const Segment& segment : segments) {
      count = std::max(count, segment.best.size());
      result.notes.cut_off = result.notes.cut_off || !segment.best.front().complete;
    }
    for (std::size_t n = 0; n < count; ++n) {
      double score = 0.0;
      std::string whole;
      for (std::size_t i = 0; i < segments.size(); ++i) {
        const Segment& segment = segments[i];
        const Hypothesis& hypothesis = segment.best[std::min(n, segment.best.size() - 1)];
        for (std::size_t line = i > 0 ? segments[i - 1].line : 0; line < segment.line; ++line) whole += '\n';
        if (i > 0 && segment.line == segments[i - 1].line) whole += ' ';
        whole += tokenizer_.decode_target(hypothesis.tokens);
        score += hypothesis.score / static_cast<double>(segments.size());
      }
      result.best.push_back(std::move(whole));
      result.scores.push_back(score);
    }
    result.text = result.best.front();
  }

  const TranslationTokenizer& tokenizer_;
  const Translator& translator_;
  const internal::StepDecoder& decoder_;
  const TranslateOptions& options_;
  std::vector<std::string_view> bodies_;     // (texts) without a leading code
  std::vector<Segment> segments_;            // of all texts, one after the other
  std::vector<std::size_t> first_segments_;  // (texts + 1) where each text's segments begin, and the end
  std::vector<Translation> results_;         // (texts)
};

}  // namespace

std::string TranslationNotes::describe() const {
  std::vector<std::string> notes;
  if (empty) notes.emplace_back("the text is empty");
  if (blank) notes.emplace_back("the text is blank");
  if (invalid_utf8) notes.emplace_back("the text is not UTF-8; what is not was replaced by U+FFFD");
  if (segments > 0) notes.push_back("the text was translated in " + std::to_string(segments) + " parts");
  if (unknown_characters > 0) {
    const char* const are = unknown_characters == 1 ? " character is" : " characters are";
    notes.push_back(std::to_string(unknown_characters) + are + " unknown to the model");
  }
  if (cut_off) notes.emplace_back("the translation did not come to its end within the allowed length");
  return joined(notes, "; ");
}

Translator::Translator(const std::filesystem::path& directory, const TaskOptions& options)
    : Translator(load_model(directory, options), TranslationTokenizer::load(directory)) {}

Translator::Translator(const std::filesystem::path& directory, Device device, DType dtype)
    : Translator(directory, TaskOptions{.device = device, .dtype = dtype}) {}

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
  return TranslationJob(*this, *decoder, options).run(texts);
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
