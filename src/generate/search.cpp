// search(): batches of sources of similar length, greedy or with beams; sources that are done leave their batch.
#include "generate/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "generate/beam.h"
#include "generate/decoding_batch.h"
#include "headway/autograd.h"
#include "nn/evaluation_guard.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Source = std::vector<std::int64_t>;
using TextOf = std::function<std::string(const std::vector<std::int64_t>&)>;

constexpr const char* kNotFinite = "search: the model returns logits that are not numbers";

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

// One batch of a search: its sources by their number in the list of all.
struct Batch {
  const StepDecoder& decoder;
  const std::vector<Source>& sources;
  const SearchOptions& options;
  const TextOf& text_of;
  std::vector<std::size_t> members;
  std::vector<std::vector<Hypothesis>>& results;

  const TranslationModelOptions& model() const { return decoder.model().options(); }

  SourceList source_list() const {
    SourceList list;
    for (const std::size_t member : members) list.push_back(&sources[member]);
    return list;
  }
  std::int64_t most_tokens_of(std::size_t member) const { return most_tokens(model(), options, sources[member]); }
  // The most tokens of any hypothesis.
  std::int64_t most_tokens_of_all() const {
    std::int64_t most = 0;
    for (const std::size_t member : members) most = std::max(most, most_tokens_of(member));
    return most;
  }

  // Greedy search's next token of a source; true where it was the last token of the source.
  bool accept(std::size_t member, Hypothesis& hypothesis, std::int64_t token, double score) const {
    check(std::isfinite(score), kNotFinite);
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

// Keeps values[kept[i]] as values[i]; kept is in ascending order.
template <typename T>
void keep(std::vector<T>& values, const std::vector<std::int64_t>& kept) {
  std::size_t next = 0;
  for (const std::int64_t from : kept) {
    const auto place = static_cast<std::size_t>(from);
    if (place != next) values[next] = std::move(values[place]);
    ++next;
  }
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(next), values.end());
}

// The step itself chooses the tokens; the host reads them every few steps.
void search_greedy(const Batch& batch) {
  const std::int64_t most = batch.most_tokens_of_all();
  DecodingBatch decoding(batch.decoder, batch.source_list(), 1, most);
  std::vector<std::size_t> members = batch.members;  // (rows)
  std::vector<Hypothesis> so_far(members.size());
  std::vector<std::int64_t> going_on(members.size());  // rows
  std::iota(going_on.begin(), going_on.end(), 0);
  for (std::int64_t length = 0; !going_on.empty();) {
    const std::int64_t steps = batch.options.on_token ? 1 : std::min(decoding.steps_at_once(), most - length);
    const DecodingBatch::ChosenTokens chosen = decoding.take_steps(steps);
    const std::int64_t width = chosen.tokens.size(1);
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t* tokens = chosen.tokens.data<std::int64_t>() + step * width;
      const float* scores = chosen.scores.data<float>() + step * width;
      std::erase_if(going_on, [&](std::int64_t row) {
        const auto place = static_cast<std::size_t>(row);
        return batch.accept(members[place], so_far[place], tokens[row], scores[row]);
      });
    }
    length += steps;
    // Rows that are done are computed all the same, until a smaller step serves the others.
    if (going_on.empty() || !decoding.has_smaller_step(static_cast<std::int64_t>(going_on.size()))) continue;
    decoding.keep_rows(going_on);
    keep(members, going_on);
    keep(so_far, going_on);
    going_on.resize(members.size());
    std::iota(going_on.begin(), going_on.end(), 0);
  }
}

// The candidates of a row, which is beam `beam` of its source, with this score so far.
void add_candidates(const TopTokens& top, std::int64_t row, std::int64_t beam, double score, BestCandidates& best) {
  const double logsumexp = top.logsumexp.data<float>()[row];
  check(std::isfinite(logsumexp), kNotFinite);
  const std::int64_t count = top.tokens.size(1);
  for (std::int64_t i = row * count; i < (row + 1) * count; ++i) {
    best.add({.score = score + (top.logits.data<float>()[i] - logsumexp),
              .beam = beam,
              .token = top.tokens.data<std::int64_t>()[i]});
  }
}

void search_beams(const Batch& batch) {
  DecodingBatch decoding(batch.decoder, batch.source_list(), batch.options.beam, batch.most_tokens_of_all());
  std::vector<std::size_t> members = batch.members;
  std::vector<BeamSearch> beams;
  beams.reserve(members.size());
  for (const std::size_t member : members) {
    beams.emplace_back(BeamOptions{.beam = batch.options.beam,
                                   .length_penalty = batch.options.length_penalty,
                                   .max_length = batch.most_tokens_of(member),
                                   .eos = batch.model().eos_token_id});
  }
  DecodingBatch::BeamRows rows = decoding.first_rows();
  BestCandidates best(2 * batch.options.beam);
  while (!members.empty()) {
    const TopTokens top = decoding.step(rows);
    DecodingBatch::BeamRows next;
    std::vector<std::int64_t> going_on;
    std::int64_t first_row = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::vector<double>& scores = beams[i].scores();
      const auto count = static_cast<std::int64_t>(scores.size());
      best.clear();
      for (std::int64_t beam = 0; beam < count; ++beam) {
        add_candidates(top, first_row + beam, beam, scores[static_cast<std::size_t>(beam)], best);
      }
      beams[i].advance(best.sorted());
      if (beams[i].done()) {
        batch.results[members[i]] = beams[i].best(batch.options.num_best);
      } else {
        going_on.push_back(static_cast<std::int64_t>(i));
        for (const std::int64_t parent : beams[i].parents()) next.parents.push_back(first_row + parent);
        next.tokens.insert(next.tokens.end(), beams[i].tokens().begin(), beams[i].tokens().end());
        next.sources.resize(next.tokens.size(), rows.sources[static_cast<std::size_t>(first_row)]);
      }
      first_row += count;
    }
    keep(members, going_on);
    keep(beams, going_on);
    rows = std::move(next);
  }
}

}  // namespace

std::vector<std::vector<Hypothesis>> search_with(const StepDecoder& decoder, const std::vector<Source>& sources,
                                                 const SearchOptions& options, const TextOf& text_of) {
  check_search(decoder.model().options(), sources, options);
  const NoGradGuard guard;
  const EvaluationGuard evaluation(decoder.model());
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
