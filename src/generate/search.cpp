// search(): batches of sentences of similar length, greedy or with beams; sentences that are done leave their batch.
#include "generate/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "generate/beam.h"
#include "generate/device_decoding.h"
#include "generate/search_scores.h"
#include "headway/autograd.h"
#include "headway/ops.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Source = std::vector<std::int64_t>;
using TextOf = std::function<std::string(const std::vector<std::int64_t>&)>;

constexpr const char* kNoNumbers = "search: the model gives logits that are no numbers";

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
  std::int64_t most_tokens_of(std::size_t member) const { return most_tokens(model(), options, sources[member]); }
  // The most tokens of any translation.
  std::int64_t most_tokens_of_all() const {
    std::int64_t most = 0;
    for (const std::size_t member : members) most = std::max(most, most_tokens_of(member));
    return most;
  }

  // Greedy search's next token of a sentence; true where it was the last, and the sentence has its result.
  bool take(std::size_t member, Hypothesis& hypothesis, std::int64_t token, double score) const {
    check(std::isfinite(score), kNoNumbers);
    hypothesis.tokens.push_back(token);
    hypothesis.score += score;
    hypothesis.complete = token == model().eos_token_id;
    if (options.on_token) options.on_token(token, text_of ? text_of(hypothesis.tokens) : std::string());
    const auto length = static_cast<std::int64_t>(hypothesis.tokens.size());
    if (!hypothesis.complete && length < most_tokens_of(member)) return false;
    hypothesis.score /= std::pow(static_cast<double>(length), options.length_penalty);
    results[member] = {hypothesis};
    return true;
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
      check(std::isfinite(best_score(row)), kNoNumbers);
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
      const auto place = static_cast<std::int64_t>(row);
      if (!batch.take(members[row], so_far[row], logits.best(place), logits.best_score(place))) {
        going_on.push_back(place);
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

// Greedy search on a device, which chooses by itself: the host looks at what came every few steps.
void search_greedy_on_device(const Batch& batch) {
  constexpr std::int64_t kStepsAtOnce = 4;
  const std::int64_t most = batch.most_tokens_of_all();
  DeviceDecoding decoding(batch.decoder, batch.texts(), 1, most);
  std::vector<std::size_t> members = batch.members;  // (rows)
  std::vector<Hypothesis> so_far(members.size());
  std::vector<std::int64_t> going_on(members.size());  // rows
  std::iota(going_on.begin(), going_on.end(), 0);
  for (std::int64_t length = 0; !going_on.empty();) {
    const std::int64_t steps = batch.options.on_token ? 1 : std::min(kStepsAtOnce, most - length);
    const DeviceDecoding::Chosen chosen = decoding.take_steps(steps);
    const std::int64_t width = chosen.tokens.size(1);
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t* tokens = chosen.tokens.data<std::int64_t>() + step * width;
      const float* scores = chosen.scores.data<float>() + step * width;
      std::erase_if(going_on, [&](std::int64_t row) {
        const auto place = static_cast<std::size_t>(row);
        return batch.take(members[place], so_far[place], tokens[row], scores[row]);
      });
    }
    length += steps;
    // Rows that nobody waits for are computed all the same, until a smaller step does for the others.
    if (going_on.empty() || !decoding.has_smaller_step(static_cast<std::int64_t>(going_on.size()))) continue;
    decoding.keep_rows(going_on);
    for (std::size_t i = 0; i < going_on.size(); ++i) {
      const auto from = static_cast<std::size_t>(going_on[i]);
      going_on[i] = static_cast<std::int64_t>(i);
      if (from == i) continue;
      members[i] = members[from];
      so_far[i] = std::move(so_far[from]);
    }
    members.resize(going_on.size());
    so_far.resize(going_on.size());
  }
}

// The rows of a beam search on the CPU, and what they go on with.
class HostBeams {
 public:
  explicit HostBeams(const Batch& batch) : pad_(batch.model().pad_token_id), decoding_(batch.decoder, batch.texts()) {}

  void step(const std::vector<std::int64_t>& tokens) { logits_.emplace(decoding_.step(tokens), pad_); }
  // Continuations of a row, which is beam `beam` of its sentence, with this score so far.
  void add_candidates(std::int64_t row, std::int64_t beam, double score, BestCandidates& best) const {
    best.add_row(beam, logits_->maxima(row), score + logits_->offset(row));
  }
  void reorder(const std::vector<std::int64_t>& parents, const std::vector<std::int64_t>& sentences) {
    decoding_.reorder(parents, sentences);
  }

 private:
  std::int64_t pad_;
  DecodingBatch decoding_;
  std::optional<Logits> logits_;
};

// The same on a device.
class DeviceBeams {
 public:
  explicit DeviceBeams(const Batch& batch)
      : decoding_(batch.decoder, batch.texts(), batch.options.beam, batch.most_tokens_of_all()),
        rows_{.tokens = {}, .parents = numbered(batch.members.size()), .sentences = numbered(batch.members.size())},
        sentences_(rows_.sentences) {}

  void step(const std::vector<std::int64_t>& tokens) {
    rows_.tokens = tokens;
    top_ = decoding_.step(rows_);
  }
  void add_candidates(std::int64_t row, std::int64_t beam, double score, BestCandidates& best) const {
    const double logsumexp = top_.logsumexp.data<float>()[row];
    check(std::isfinite(logsumexp), kNoNumbers);
    for (std::int64_t i = row * top_.tokens.size(1); i < (row + 1) * top_.tokens.size(1); ++i) {
      best.add_token(beam, top_.tokens.data<std::int64_t>()[i], score + (top_.logits.data<float>()[i] - logsumexp));
    }
  }
  void reorder(const std::vector<std::int64_t>& parents, const std::vector<std::int64_t>& sentences) {
    const std::size_t beams = parents.size() / sentences.size();
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      sentences_[i] = sentences_[static_cast<std::size_t>(sentences[i])];
    }
    sentences_.resize(sentences.size());
    rows_.parents = parents;
    rows_.sentences.clear();
    for (const std::int64_t sentence : sentences_) rows_.sentences.insert(rows_.sentences.end(), beams, sentence);
  }

 private:
  static std::vector<std::int64_t> numbered(std::size_t count) {
    std::vector<std::int64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }

  DeviceDecoding decoding_;
  DeviceDecoding::Rows rows_;
  std::vector<std::int64_t> sentences_;  // those that go on, by their number in the batch
  TopTokens top_;
};

// Beam search; Decoding is HostBeams or DeviceBeams.
template <typename Decoding>
void search_beams(const Batch& batch) {
  Decoding decoding(batch);
  std::vector<std::size_t> members = batch.members;
  std::vector<SentenceBeams> beams;
  beams.reserve(members.size());
  for (const std::size_t member : members) {
    beams.emplace_back(BeamOptions{.beam = batch.options.beam,
                                   .length_penalty = batch.options.length_penalty,
                                   .max_length = batch.most_tokens_of(member),
                                   .eos = batch.model().eos_token_id});
  }
  std::vector<std::int64_t> tokens(members.size(), batch.model().decoder_start_token_id);
  BestCandidates best(2 * batch.options.beam);
  while (!members.empty()) {
    decoding.step(tokens);
    std::vector<std::int64_t> parents, going_on;
    tokens.clear();
    std::int64_t first_row = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto rows = static_cast<std::int64_t>(beams[i].scores().size());
      best.clear();
      for (std::int64_t row = 0; row < rows; ++row) {
        decoding.add_candidates(first_row + row, row, beams[i].scores()[static_cast<std::size_t>(row)], best);
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

void search_batch(const Batch& batch) {
  const bool on_cpu = batch.decoder.device().is_cpu();
  if (batch.options.beam == 1) {
    on_cpu ? search_greedy(batch) : search_greedy_on_device(batch);
  } else {
    on_cpu ? search_beams<HostBeams>(batch) : search_beams<DeviceBeams>(batch);
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
    search_batch(batch);
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
