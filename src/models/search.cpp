// search(): batches of sentences of similar length, greedy or with beams; sentences that are done leave their batch.
#include "models/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "models/beam.h"
#include "models/search_scores.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Source = std::vector<std::int64_t>;
using TextOf = std::function<std::string(const std::vector<std::int64_t>&)>;

// Dropout is off while one lives.
class EvaluationScope {
 public:
  explicit EvaluationScope(const TranslationModel& model) : model_(model), was_training_(model.is_training()) {
    if (was_training_) model_.eval();
  }
  ~EvaluationScope() {
    if (was_training_) model_.train();
  }
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;

 private:
  const TranslationModel& model_;
  bool was_training_;
};

void check_search(const TranslationModelOptions& model, const std::vector<Source>& sources,
                  const SearchOptions& options) {
  check(options.beam >= 1 && options.beam <= 1024, "search: beam is ", options.beam, ", expected 1 to 1024");
  check(options.num_best >= 1 && options.num_best <= options.beam, "search: num_best is ", options.num_best,
        ", expected 1 to beam, ", options.beam);
  check(options.batch_size >= 1, "search: batch_size is ", options.batch_size, ", expected 1 or more");
  check(options.max_length >= 0, "search: max_length is ", options.max_length, ", expected 0 or more");
  check(std::isfinite(options.length_penalty), "search: length_penalty is ", options.length_penalty,
        ", expected a number");
  check(!options.on_token || (sources.size() == 1 && options.beam == 1), "search: on_token is given for ",
        sources.size(), " sources and a beam of ", options.beam, ", expected one source and greedy search");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto length = static_cast<std::int64_t>(sources[i].size());
    check(length >= 1 && length <= model.max_position_embeddings, "search: source ", i, " has ", length,
          " tokens, expected 1 to ", model.max_position_embeddings);
    for (const std::int64_t id : sources[i]) {
      check(id >= 0 && id < model.vocab_size, "search: source ", i, " has id ", id, ", expected 0 to ",
            model.vocab_size - 1);
    }
  }
}

std::int64_t most_tokens(const TranslationModelOptions& model, const SearchOptions& options, const Source& source) {
  const std::int64_t wanted =
      options.max_length > 0 ? options.max_length : 2 * static_cast<std::int64_t>(source.size()) + 50;
  return std::min(wanted, model.max_position_embeddings);
}

// One batch of a search: its sentences by their number in the list of sources.
struct Batch {
  const StepDecoder& decoder;
  const std::vector<Source>& sources;
  const SearchOptions& options;
  const TextOf& text_of;
  std::vector<std::size_t> members;
  std::vector<std::vector<Hypothesis>>& results;

  const TranslationModelOptions& model() const { return decoder.model().options(); }

  std::vector<const Source*> texts() const {
    std::vector<const Source*> texts;
    for (const std::size_t member : members) texts.push_back(&sources[member]);
    return texts;
  }
};

// The logits of all rows, and what makes log-probabilities of them. <pad> counts among all tokens and is never chosen.
class Logits {
 public:
  Logits(const Tensor& logits, std::int64_t pad) : logits_(logits) {
    std::vector<float> pads;
    for (std::int64_t row = 0; row < logits.size(0); ++row) {
      pads.push_back(std::exchange(row_of(row)[pad], -std::numeric_limits<float>::infinity()));
      maxima_.emplace_back(row_of(row), logits.size(1));
      best_.push_back(maxima_.back().best_index());
      row_of(row)[pad] = pads.back();
    }
    // -log softmax at the best token, in one pass that stores nothing for the others.
    losses_ = cross_entropy(logits, Tensor::from(best_, {logits.size(0)}),
                            {.ignore_index = -1, .reduction = Reduction::none});
    for (std::int64_t row = 0; row < logits.size(0); ++row) {
      check(std::isfinite(best_score(row)), "search: the model gives logits that are no numbers");
      row_of(row)[pad] = -std::numeric_limits<float>::infinity();
    }
  }

  const BlockMaxima& maxima(std::int64_t row) const { return maxima_[static_cast<std::size_t>(row)]; }
  std::int64_t best(std::int64_t row) const { return best_[static_cast<std::size_t>(row)]; }
  // The log-probability of the best token.
  double best_score(std::int64_t row) const { return -losses_.data<float>()[row]; }
  // What makes a log-probability of a logit.
  double offset(std::int64_t row) const { return best_score(row) - row_of(row)[best(row)]; }

 private:
  float* row_of(std::int64_t row) const { return logits_.data<float>() + row * logits_.size(1); }

  Tensor logits_;                    // [rows, vocab_size]
  std::vector<BlockMaxima> maxima_;  // (rows)
  std::vector<std::int64_t> best_;   // (rows)
  Tensor losses_;                    // [rows]
};

void search_greedy(const Batch& batch) {
  DecodingBatch decoding(batch.decoder, batch.texts());
  std::vector<std::size_t> members = batch.members;  // (rows)
  std::vector<std::int64_t> tokens(members.size(), batch.model().decoder_start_token_id);
  std::vector<Hypothesis> so_far(members.size());
  while (!members.empty()) {
    const Logits logits(decoding.step(tokens), batch.model().pad_token_id);
    std::vector<std::int64_t> going_on;
    for (std::size_t row = 0; row < members.size(); ++row) {
      Hypothesis& hypothesis = so_far[row];
      const std::int64_t token = logits.best(static_cast<std::int64_t>(row));
      hypothesis.tokens.push_back(token);
      hypothesis.score += logits.best_score(static_cast<std::int64_t>(row));
      hypothesis.complete = token == batch.model().eos_token_id;
      if (batch.options.on_token) {
        batch.options.on_token(token, batch.text_of ? batch.text_of(hypothesis.tokens) : std::string());
      }
      const auto length = static_cast<std::int64_t>(hypothesis.tokens.size());
      if (hypothesis.complete || length >= most_tokens(batch.model(), batch.options, batch.sources[members[row]])) {
        hypothesis.score /= std::pow(static_cast<double>(length), batch.options.length_penalty);
        batch.results[members[row]] = {hypothesis};
      } else {
        going_on.push_back(static_cast<std::int64_t>(row));
      }
    }
    const bool leaves = going_on.size() < members.size();
    tokens.clear();
    for (std::size_t i = 0; i < going_on.size(); ++i) {
      const auto row = static_cast<std::size_t>(going_on[i]);
      if (leaves && i != row) {
        members[i] = members[row];
        so_far[i] = std::move(so_far[row]);
      }
      tokens.push_back(so_far[i].tokens.back());
    }
    members.resize(going_on.size());
    so_far.resize(going_on.size());
    if (leaves && !members.empty()) decoding.reorder(going_on, going_on);
  }
}

void search_beams(const Batch& batch) {
  DecodingBatch decoding(batch.decoder, batch.texts());
  std::vector<std::size_t> members = batch.members;
  std::vector<SentenceBeams> beams;
  for (const std::size_t member : members) {
    beams.emplace_back(BeamOptions{.beam = batch.options.beam,
                                   .length_penalty = batch.options.length_penalty,
                                   .max_length = most_tokens(batch.model(), batch.options, batch.sources[member]),
                                   .eos = batch.model().eos_token_id});
  }
  std::vector<std::int64_t> tokens(members.size(), batch.model().decoder_start_token_id);
  BestCandidates best(2 * batch.options.beam);
  while (!members.empty()) {
    const Logits logits(decoding.step(tokens), batch.model().pad_token_id);
    std::vector<std::int64_t> parents, going_on;
    tokens.clear();
    std::int64_t first_row = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto rows = static_cast<std::int64_t>(beams[i].scores().size());
      best.clear();
      for (std::int64_t row = 0; row < rows; ++row) {
        best.add_row(row, logits.maxima(first_row + row),
                     beams[i].scores()[static_cast<std::size_t>(row)] + logits.offset(first_row + row));
      }
      beams[i].advance(best.sorted());
      if (beams[i].done()) {
        batch.results[members[i]] = beams[i].best(batch.options.num_best);
      } else {
        going_on.push_back(static_cast<std::int64_t>(i));
        for (const std::int64_t parent : beams[i].parents()) parents.push_back(first_row + parent);
        tokens.insert(tokens.end(), beams[i].tokens().begin(), beams[i].tokens().end());
      }
      first_row += rows;
    }
    for (std::size_t i = 0; i < going_on.size(); ++i) {
      const auto from = static_cast<std::size_t>(going_on[i]);
      if (from == i) continue;
      members[i] = members[from];
      beams[i] = std::move(beams[from]);
    }
    members.resize(going_on.size());
    beams.erase(beams.begin() + static_cast<std::ptrdiff_t>(going_on.size()), beams.end());
    if (!members.empty()) decoding.reorder(parents, going_on);
  }
}

}  // namespace

std::vector<std::vector<Hypothesis>> search_with(const StepDecoder& decoder, const std::vector<Source>& sources,
                                                 const SearchOptions& options, const TextOf& text_of) {
  check_search(decoder.model().options(), sources, options);
  const NoGradGuard guard;
  const EvaluationScope evaluation(decoder.model());
  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() > sources[b].size(); });
  std::vector<std::vector<Hypothesis>> results(sources.size());
  const auto batch_size = static_cast<std::size_t>(options.batch_size);
  for (std::size_t first = 0; first < order.size(); first += batch_size) {
    const std::size_t last = first + std::min(batch_size, order.size() - first);
    const Batch batch = {.decoder = decoder,
                         .sources = sources,
                         .options = options,
                         .text_of = text_of,
                         .members = {order.begin() + static_cast<std::ptrdiff_t>(first),
                                     order.begin() + static_cast<std::ptrdiff_t>(last)},
                         .results = results};
    options.beam == 1 ? search_greedy(batch) : search_beams(batch);
  }
  return results;
}

}  // namespace internal

std::vector<std::vector<Hypothesis>> search(const TranslationModel& model,
                                            const std::vector<std::vector<std::int64_t>>& sources,
                                            const SearchOptions& options) {
  if (sources.empty()) return {};
  return internal::search_with(internal::StepDecoder(model), sources, options);
}

}  // namespace headway::inline v0
