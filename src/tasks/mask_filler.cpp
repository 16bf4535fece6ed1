// MaskFiller: the best words for each mask of a text.
#include "headway/mask_filler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/utf8.h"
#include "tasks/packed_batches.h"
#include "tasks/task_model.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// The logits of all tokens are computed, and a row is a whole vocabulary.
constexpr std::int64_t kMaskedBatchTokens = 512;

std::string without_spaces_around(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// The ids of the words that may be chosen; all of the vocabulary where `targets` is empty.
std::vector<std::int64_t> allowed_words(const TaskModel& model, const std::vector<std::string>& targets) {
  std::vector<std::int64_t> ids;
  for (const std::string& target : targets) {
    std::optional<std::int64_t> id = model.tokenizer.id(target);
    if (!id) {
      const std::vector<std::int64_t> tokens = model.tokenizer.encode(target, false);
      check(tokens.size() == 1, "target \"", shortened(target, 40), "\" is ", tokens.size(), " tokens, expected one");
      id = tokens.front();
    }
    ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (targets.empty()) {
    ids.resize(static_cast<std::size_t>(std::min(model.model.options().vocab_size, model.tokenizer.size())));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
  }
  return ids;
}

}  // namespace
}  // namespace internal

struct MaskFiller::Parts {
  explicit Parts(internal::TaskModel with_model) : model(std::move(with_model)) {
    model.check_head(HeadKind::language_model, "ForMaskedLM");
    internal::check(model.model.options().kind == ModelKind::encoder, "the ", model.model.family(),
                    " model is not an encoder, expected one that was trained on masked words");
    internal::check(model.tokenizer.mask_id().has_value(), "the tokenizer has no mask token");
    mask_id = *model.tokenizer.mask_id();
    mask = model.tokenizer.token(mask_id);
  }

  // Best words by a row of logits [vocab_size].
  std::vector<MaskWord> best_words(const float* logits, const std::vector<std::int64_t>& allowed,
                                   std::int64_t most) const;
  // Puts the words of a mask into the text.
  void fill_in(std::vector<MaskWord>& words, const std::string& text, const TokenOffsets& place) const;

  internal::TaskModel model;
  std::int64_t mask_id = 0;
  std::string mask = {};
};

std::vector<MaskWord> MaskFiller::Parts::best_words(const float* logits, const std::vector<std::int64_t>& allowed,
                                                    std::int64_t most) const {
  const std::int64_t size = model.model.options().vocab_size;
  const float largest = *std::max_element(logits, logits + size);
  double sum = 0.0;
  for (std::int64_t id = 0; id < size; ++id) sum += std::exp(static_cast<double>(logits[id] - largest));
  std::vector<std::int64_t> ids = allowed;
  const auto count = std::min<std::ptrdiff_t>(most, std::ssize(ids));
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), [&](std::int64_t a, std::int64_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  ids.resize(static_cast<std::size_t>(count));
  std::vector<MaskWord> words;
  words.reserve(ids.size());
  for (const std::int64_t id : ids) {
    words.push_back({.id = id,
                     .word = internal::without_spaces_around(model.tokenizer.decode({id}, false)),
                     .score = std::exp(static_cast<double>(logits[id] - largest)) / sum,
                     .text = {}});
  }
  return words;
}

void MaskFiller::Parts::fill_in(std::vector<MaskWord>& words, const std::string& text,
                                const TokenOffsets& place) const {
  // The token may have taken the spaces before it.
  const std::size_t begin = text.find(mask, static_cast<std::size_t>(place.begin));
  for (MaskWord& word : words) {
    word.text = text;
    if (begin != std::string::npos) word.text.replace(begin, mask.size(), word.word);
  }
}

MaskFiller::MaskFiller(const std::filesystem::path& directory, const TaskOptions& options)
    : parts_(std::make_shared<const Parts>(internal::TaskModel("MaskFiller", directory, options))) {}

MaskFiller::MaskFiller(TransformerModel model, TextTokenizer tokenizer)
    : parts_(std::make_shared<const Parts>(internal::TaskModel("MaskFiller", std::move(model), std::move(tokenizer)))) {
}

std::vector<FilledText> MaskFiller::fill(const std::vector<std::string>& texts, const FillOptions& options) const {
  const Parts& parts = *parts_;
  internal::check(options.most >= 1, "MaskFiller: most is ", options.most, ", expected at least 1");
  const std::vector<std::int64_t> allowed = internal::allowed_words(parts.model, options.targets);
  std::vector<TextNotes> notes;
  const std::vector<TokenizedText> tokens = internal::tokenize_all(parts.model, texts, nullptr, notes);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool masked = std::count(tokens[i].ids.begin(), tokens[i].ids.end(), parts.mask_id) > 0;
    internal::check(masked, "text ", i + 1, " has no ", parts.mask,
                    notes[i].tokens_left_out > 0 ? " in the part that the model reads" : "", ", expected at least one");
  }
  std::vector<FilledText> results(texts.size());
  const std::int64_t most = options.batch_tokens > 0 ? options.batch_tokens : internal::kMaskedBatchTokens;
  const auto use = [&](const internal::PackedBatch& batch, const ModelResult& result) {
    for (std::size_t i = 0; i < batch.texts.size(); ++i) {
      const std::size_t number = batch.texts[i];
      const TokenizedText& text = tokens[number];
      const std::string valid = text.invalid_utf8 ? internal::repaired_utf8(texts[number]) : texts[number];
      for (std::size_t t = 0; t < text.ids.size(); ++t) {
        if (text.ids[t] != parts.mask_id) continue;
        const std::int64_t row = batch.starts[i] + static_cast<std::int64_t>(t);
        const Tensor logits = internal::on_cpu(result.logits.select(0, 0).select(0, row));  // [vocab_size]
        results[number].masks.push_back(parts.best_words(logits.data<float>(), allowed, options.most));
        parts.fill_in(results[number].masks.back(), valid, text.offsets[t]);
      }
    }
  };
  internal::for_each_batch(parts.model, tokens, most, use);
  for (std::size_t i = 0; i < texts.size(); ++i) results[i].notes = notes[i];
  return results;
}

const std::string& MaskFiller::mask_token() const { return parts_->mask; }
std::int64_t MaskFiller::max_length() const { return parts_->model.max_length; }
const TransformerModel& MaskFiller::model() const { return parts_->model.model; }
const TextTokenizer& MaskFiller::tokenizer() const { return parts_->model.tokenizer; }

}  // namespace headway::inline v0
