// The loss and the BLEU of a model on held-out sentences.
#include "translation/validation.h"

#include <algorithm>
#include <numeric>

#include "base/json.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/translation_scores.h"
#include "headway/translator.h"
#include "nn/evaluation_guard.h"

namespace headway::inline v0::internal {

namespace {

// Fills in the texts that other ranks have found; `own` are the places of this rank's.
void share_texts(const Communicator& ranks, const std::vector<std::size_t>& own, std::vector<std::string>& texts) {
  Json found = Json::array();
  for (const std::size_t i : own) {
    Json entry = Json::array();
    entry.push_back(static_cast<std::int64_t>(i));
    entry.push_back(texts[i]);
    found.push_back(std::move(entry));
  }
  for (const std::string& text : ranks.all_gather(found.text())) {
    const Json all = parse_json(text, "the texts of a rank");
    for (const Json& entry : all.items()) {
      texts[static_cast<std::size_t>(entry.items()[0].int64())] = entry.items()[1].string();
    }
  }
}

}  // namespace

Validator::Validator(const TranslationTokenizer& tokenizer, const std::vector<Direction>& directions,
                     const std::vector<TextPair>& pairs, const Options& options)
    : tokenizer_(tokenizer), batch_tokens_(options.batch_tokens) {
  for (const Direction& direction : directions) {
    Part part;
    const Direction forward{.reverse = false, .from = direction.from, .to = direction.to, .tag = direction.tag};
    for (const TextPair& pair : distinct_sources(pairs, direction.reverse)) {  // its sides are swapped already
      if (options.sentences > 0 && std::ssize(part.sources) == options.sentences) break;
      std::vector<std::int64_t> source = source_ids(tokenizer, forward, pair);
      const std::vector<std::int64_t> target = target_ids(tokenizer, forward, pair);
      if (std::max(std::ssize(source), std::ssize(target)) > options.max_length) continue;
      examples_.add(source, target);
      part.sources.push_back(std::move(source));
      part.references.push_back(pair.target);
    }
    parts_.push_back(std::move(part));
  }
}

bool Validator::empty() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.sources.empty(); });
}

ValidationReport Validator::run(const TranslationModel& model, std::int64_t step, const Communicator& ranks) const {
  const NoGradGuard no_gradients;
  const EvaluationGuard evaluation(model);
  ValidationReport report;
  report.step = step;
  report.loss = mean_loss(model, ranks);
  for (const Part& part : parts_) report.directions.push_back(bleu_of(model, part, ranks));
  report.bleu = std::accumulate(report.directions.begin(), report.directions.end(), 0.0) /
                static_cast<double>(report.directions.size());
  return report;
}

double Validator::mean_loss(const TranslationModel& model, const Communicator& ranks) const {
  const std::int64_t pad = tokenizer_.pad_id();
  BatchPlan plan(examples_, batch_tokens_, 0);
  const Tensor sums = Tensor::zeros({plan.batches_per_epoch(), 2}, DType::float64);  // loss and tokens of each batch
  auto* const values = sums.data<double>();
  for (std::int64_t i = ranks.rank(); i < plan.batches_per_epoch(); i += ranks.size()) {
    const PairBatch batch = make_batch(examples_, plan.members(i), pad);
    const Tensor logits =
        model.forward({.source = batch.source, .source_lengths = batch.source_lengths, .target = batch.target}).logits;
    values[2 * i] = cross_entropy(logits, batch.labels, {.ignore_index = pad, .reduction = Reduction::sum}).item();
    values[2 * i + 1] = static_cast<double>(batch.tokens);
  }
  ranks.all_reduce(sums);  // all others have zeros
  double sum = 0.0, tokens = 0.0;
  for (std::int64_t i = 0; i < plan.batches_per_epoch(); ++i) {
    sum += values[2 * i];
    tokens += values[2 * i + 1];
  }
  return sum / tokens;
}

double Validator::bleu_of(const TranslationModel& model, const Part& part, const Communicator& ranks) const {
  constexpr std::size_t kBatch = 64;
  // The order in which search() batches sources: each rank searches whole batches of it, and so has their bits.
  std::vector<std::size_t> order(part.sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return part.sources[a].size() > part.sources[b].size(); });
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i / kBatch % static_cast<std::size_t>(ranks.size()) == static_cast<std::size_t>(ranks.rank())) {
      own.push_back(order[i]);
    }
  }
  std::vector<std::vector<std::int64_t>> sources;
  sources.reserve(own.size());
  for (const std::size_t i : own) sources.push_back(part.sources[i]);
  const auto found = search(model, sources, {.beam = 1, .batch_size = kBatch});
  std::vector<std::string> texts(part.sources.size());
  for (std::size_t i = 0; i < own.size(); ++i) texts[own[i]] = tokenizer_.decode_target(found[i].front().tokens);
  if (!ranks.is_alone()) share_texts(ranks, own, texts);
  return bleu(texts, part.references).score;
}

}  // namespace headway::inline v0::internal
