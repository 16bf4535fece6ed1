// TokenTagger: scores of each token, then words and spans, as transformers' token-classification pipeline joins them.
#include "headway/token_tagger.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.h"
#include "base/utf8.h"
#include "tasks/packed_batches.h"
#include "tasks/task_model.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// A token of the text, or a word of several.
struct TaggedToken {
  std::int64_t id = 0;
  TokenOffsets offsets = {};
  std::vector<float> scores = {};  // (labels) probabilities
  bool inside_word = false;        // continues the word of the token before it
  std::size_t label = 0;           // the best one
  double score = 0.0;
};

// A part of a text that the model reads at once: tokens [first, first + count) with the special ones around them.
struct TagWindow {
  std::size_t text = 0;
  std::size_t first = 0, count = 0;
  std::size_t special_before = 0;
};

void choose_label(TaggedToken& token) {
  const auto best = std::max_element(token.scores.begin(), token.scores.end());
  token.label = static_cast<std::size_t>(best - token.scores.begin());
  token.score = *best;
}

// row [labels] of logits to probabilities.
std::vector<float> token_softmax(const float* row, std::int64_t labels) {
  std::vector<float> scores(row, row + labels);
  const float largest = *std::max_element(scores.begin(), scores.end());
  float sum = 0.0F;
  for (float& score : scores) sum += score = std::exp(score - largest);
  for (float& score : scores) score /= sum;
  return scores;
}

// One word of tokens; its scores are those that decide.
TaggedToken word_of(std::span<const TaggedToken> tokens, TagAggregation aggregation) {
  TaggedToken word = tokens.front();
  if (aggregation == TagAggregation::max) {
    word = *std::max_element(tokens.begin(), tokens.end(),
                             [](const TaggedToken& a, const TaggedToken& b) { return a.score < b.score; });
  } else if (aggregation == TagAggregation::average) {
    for (std::size_t label = 0; label < word.scores.size(); ++label) {
      float sum = 0.0F;
      for (const TaggedToken& token : tokens) sum += token.scores[label];
      word.scores[label] = sum / static_cast<float>(tokens.size());
    }
    choose_label(word);
  }
  word.offsets = {tokens.front().offsets.begin, tokens.back().offsets.end};
  return word;
}

std::vector<TaggedToken> words_of(const std::vector<TaggedToken>& tokens, TagAggregation aggregation) {
  std::vector<TaggedToken> words;
  for (std::size_t begin = 0; begin < tokens.size();) {
    std::size_t end = begin + 1;
    while (end < tokens.size() && tokens[end].inside_word) ++end;
    words.push_back(word_of(std::span(tokens).subspan(begin, end - begin), aggregation));
    begin = end;
  }
  return words;
}

// "PER" of "B-PER" and "I-PER".
std::string tag_of(const std::string& label) {
  return label.starts_with("B-") || label.starts_with("I-") ? label.substr(2) : label;
}

// What transformers calls a span of such labels: what follows the first hyphen.
std::string group_of(const std::string& label) {
  const std::size_t hyphen = label.find('-');
  return hyphen == std::string::npos ? label : label.substr(hyphen + 1);
}

// Runs of tokens or words with one label. `labels` are the names of all.
std::vector<TaggedSpan> joined_spans(const std::vector<TaggedToken>& tokens, const std::vector<std::string>& labels) {
  std::vector<TaggedSpan> spans;
  for (std::size_t begin = 0; begin < tokens.size();) {
    const std::string tag = tag_of(labels[tokens[begin].label]);
    double sum = tokens[begin].score;
    std::size_t end = begin + 1;
    for (; end < tokens.size(); ++end) {
      const std::string& label = labels[tokens[end].label];
      if (tag_of(label) != tag || label.starts_with("B-")) break;
      sum += tokens[end].score;
    }
    spans.push_back({.label = group_of(labels[tokens[begin].label]),
                     .score = sum / static_cast<double>(end - begin),
                     .begin = tokens[begin].offsets.begin,
                     .end = tokens[end - 1].offsets.end,
                     .text = {}});
    begin = end;
  }
  return spans;
}

std::vector<TaggedSpan> spans_of(const std::vector<TaggedToken>& tokens, const std::vector<std::string>& labels,
                                 TagAggregation aggregation) {
  if (aggregation == TagAggregation::simple) return joined_spans(tokens, labels);
  if (aggregation != TagAggregation::none) return joined_spans(words_of(tokens, aggregation), labels);
  std::vector<TaggedSpan> spans;
  spans.reserve(tokens.size());
  for (const TaggedToken& token : tokens) {
    spans.push_back({labels[token.label], token.score, token.offsets.begin, token.offsets.end, {}});
  }
  return spans;
}

// One call of tag(): cuts texts into windows, and takes each token's scores from the window in which it has the most
// context.
struct TaggingJob {
  TaggingJob(const TaskModel& with_model, const TagOptions& with_options) : model(with_model), options(with_options) {}

  void add(std::size_t number, const std::string& text, TextNotes& notes);
  void run();

  const TaskModel& model;
  const TagOptions& options;
  std::vector<std::vector<TaggedToken>> tokens = {};   // (texts, tokens) those of the text itself
  std::vector<std::vector<std::size_t>> context = {};  // (texts, tokens) how far the window's nearer end was, and 1
  std::vector<TagWindow> windows = {};
  std::vector<TokenizedText> inputs = {};  // (windows)
};

void TaggingJob::add(std::size_t number, const std::string& text, TextNotes& notes) {
  const TokenizedText whole = model.tokenizer.tokenize(text);
  model.check_ids(whole);
  notes.invalid_utf8 = whole.invalid_utf8;
  const auto is_own = [](std::int64_t sequence) { return sequence >= 0; };
  const auto first_own = std::find_if(whole.sequence.begin(), whole.sequence.end(), is_own);
  const auto own_end = std::find_if(whole.sequence.rbegin(), whole.sequence.rend(), is_own).base();
  const auto before = first_own - whole.sequence.begin();
  const std::int64_t count = first_own < own_end ? own_end - first_own : 0;
  const std::int64_t special = static_cast<std::int64_t>(whole.ids.size()) - count;
  tokens.emplace_back(static_cast<std::size_t>(count));
  context.emplace_back(static_cast<std::size_t>(count));
  notes.empty = count == 0;
  if (notes.empty) return;
  for (std::int64_t t = 0; t < count; ++t) {
    const auto place = static_cast<std::size_t>(before + t);
    tokens.back()[static_cast<std::size_t>(t)] = {.id = whole.ids[place], .offsets = whole.offsets[place]};
  }
  const std::int64_t most = model.max_length == 0 ? count : model.max_length - special;  // own tokens of a window
  check(most > 0, "the model has ", model.max_length, " positions, expected more than the ", special,
        " special tokens");
  const std::int64_t step = std::max<std::int64_t>(1, most - std::min(options.stride, most / 2));
  for (std::int64_t first = 0;; first += step) {
    const std::int64_t end = std::min(first + most, count);
    TokenizedText input;
    const auto append = [&](std::int64_t from, std::int64_t to) {
      input.ids.insert(input.ids.end(), whole.ids.begin() + from, whole.ids.begin() + to);
      input.type_ids.insert(input.type_ids.end(), whole.type_ids.begin() + from, whole.type_ids.begin() + to);
    };
    append(0, before);
    append(before + first, before + end);
    append(before + count, static_cast<std::int64_t>(whole.ids.size()));
    inputs.push_back(std::move(input));
    windows.push_back({number, static_cast<std::size_t>(first), static_cast<std::size_t>(end - first),
                       static_cast<std::size_t>(before)});
    if (end == count) break;
  }
}

void TaggingJob::run() {
  const std::int64_t labels = model.model.options().head.labels;
  for_each_batch(model, inputs, options.batch_tokens, [&](const PackedBatch& batch, const ModelResult& result) {
    const Tensor logits = on_cpu(result.logits);  // [1, total, labels]
    for (std::size_t i = 0; i < batch.texts.size(); ++i) {
      const TagWindow& window = windows[batch.texts[i]];
      const std::int64_t row = batch.starts[i] + static_cast<std::int64_t>(window.special_before);
      for (std::size_t t = 0; t < window.count; ++t) {
        const std::size_t distance = std::min(t, window.count - 1 - t) + 1;
        std::size_t& best = context[window.text][window.first + t];
        if (distance <= best) continue;
        best = distance;
        const float* const values = logits.data<float>() + (row + static_cast<std::int64_t>(t)) * labels;
        tokens[window.text][window.first + t].scores = token_softmax(values, labels);
      }
    }
  });
}

// Whether tokens inside a word begin with "##", as in WordPiece.
bool has_word_piece_marks(const TextTokenizer& tokenizer) {
  for (std::int64_t id = 0; id < tokenizer.size(); ++id) {
    const std::string token = tokenizer.token(id);
    if (token.size() > 2 && token.starts_with("##")) return true;
  }
  return false;
}

}  // namespace
}  // namespace internal

struct TokenTagger::Parts {
  explicit Parts(internal::TaskModel with_model)
      : model(std::move(with_model)),
        labels(internal::label_names(model.model.options())),
        word_piece(internal::has_word_piece_marks(model.tokenizer)) {
    model.check_head(HeadKind::tokens, "ForTokenClassification");
  }

  std::vector<TaggedText> tag(const std::vector<std::string>& texts, const TagOptions& options) const;
  bool continues_word(const std::string& text, const internal::TaggedToken& token) const;
  std::vector<TaggedSpan> spans(const std::string& text, std::vector<internal::TaggedToken> tokens,
                                const TagOptions& options) const;

  internal::TaskModel model;
  std::vector<std::string> labels;
  bool word_piece;  // words are known by "##"; otherwise by the spaces between them
};

bool TokenTagger::Parts::continues_word(const std::string& text, const internal::TaggedToken& token) const {
  if (model.tokenizer.unk_id() == token.id) return false;
  if (word_piece) return model.tokenizer.token(token.id).starts_with("##");
  const auto begin = static_cast<std::size_t>(token.offsets.begin);
  return begin > 0 && text.substr(begin - 1, 2).find(' ') == std::string::npos;
}

// The spans of a text whose tokens have their scores.
std::vector<TaggedSpan> TokenTagger::Parts::spans(const std::string& text, std::vector<internal::TaggedToken> tokens,
                                                  const TagOptions& options) const {
  for (internal::TaggedToken& token : tokens) {
    token.inside_word = continues_word(text, token);
    internal::choose_label(token);
  }
  std::vector<TaggedSpan> found = internal::spans_of(tokens, labels, options.aggregation);
  std::erase_if(found, [&](const TaggedSpan& span) {
    return std::find(options.ignored.begin(), options.ignored.end(), span.label) != options.ignored.end();
  });
  for (TaggedSpan& span : found) {
    span.text = text.substr(static_cast<std::size_t>(span.begin), static_cast<std::size_t>(span.end - span.begin));
  }
  return found;
}

std::vector<TaggedText> TokenTagger::Parts::tag(const std::vector<std::string>& texts,
                                                const TagOptions& options) const {
  internal::check(options.stride >= 0, model.who, ": stride is ", options.stride, ", expected at least 0");
  std::vector<TaggedText> results(texts.size());
  internal::TaggingJob job(model, options);
  for (std::size_t i = 0; i < texts.size(); ++i) job.add(i, texts[i], results[i].notes);
  job.run();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string text = results[i].notes.invalid_utf8 ? internal::repaired_utf8(texts[i]) : texts[i];
    results[i].spans = spans(text, std::move(job.tokens[i]), options);
  }
  return results;
}

TokenTagger::TokenTagger(const std::filesystem::path& directory, const TaskOptions& options)
    : parts_(std::make_shared<const Parts>(internal::TaskModel("TokenTagger", directory, options))) {}

TokenTagger::TokenTagger(TransformerModel model, TextTokenizer tokenizer)
    : parts_(
          std::make_shared<const Parts>(internal::TaskModel("TokenTagger", std::move(model), std::move(tokenizer)))) {}

std::vector<TaggedText> TokenTagger::tag(const std::vector<std::string>& texts, const TagOptions& options) const {
  return parts_->tag(texts, options);
}

const std::vector<std::string>& TokenTagger::labels() const { return parts_->labels; }
std::int64_t TokenTagger::max_length() const { return parts_->model.max_length; }
const TransformerModel& TokenTagger::model() const { return parts_->model.model; }
const TextTokenizer& TokenTagger::tokenizer() const { return parts_->model.tokenizer; }

}  // namespace headway::inline v0
