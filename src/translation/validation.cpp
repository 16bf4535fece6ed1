// The loss and the BLEU of a model on held-out sentences.
#include "translation/validation.h"

#include <algorithm>
#include <numeric>

#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/translation_scores.h"
#include "headway/translator.h"
#include "nn/evaluation_guard.h"

namespace headway::inline v0::internal {

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

ValidationReport Validator::run(const TranslationModel& model, std::int64_t step) const {
  const NoGradGuard no_gradients;
  const EvaluationGuard evaluation(model);
  ValidationReport report;
  report.step = step;
  report.loss = mean_loss(model);
  for (const Part& part : parts_) report.directions.push_back(bleu_of(model, part));
  report.bleu = std::accumulate(report.directions.begin(), report.directions.end(), 0.0) /
                static_cast<double>(report.directions.size());
  return report;
}

double Validator::mean_loss(const TranslationModel& model) const {
  const std::int64_t pad = tokenizer_.pad_id();
  BatchPlan plan(examples_, batch_tokens_, 0);
  double sum = 0.0;
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < plan.batches_per_epoch(); ++i) {
    const PairBatch batch = make_batch(examples_, plan.members(i), pad);
    const Tensor logits =
        model.forward({.source = batch.source, .source_lengths = batch.source_lengths, .target = batch.target}).logits;
    sum += cross_entropy(logits, batch.labels, {.ignore_index = pad, .reduction = Reduction::sum}).item();
    tokens += batch.tokens;
  }
  return sum / static_cast<double>(tokens);
}

double Validator::bleu_of(const TranslationModel& model, const Part& part) const {
  std::vector<std::string> texts;
  for (const std::vector<Hypothesis>& best : search(model, part.sources, {.beam = 1, .batch_size = 64})) {
    texts.push_back(tokenizer_.decode_target(best.front().tokens));
  }
  return bleu(texts, part.references).score;
}

}  // namespace headway::inline v0::internal
