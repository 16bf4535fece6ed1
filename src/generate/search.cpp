// Translations of sources by greedy and beam search.
#include "generate/search.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "generate/generated.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Source = std::vector<std::int64_t>;
using TextOf = std::function<std::string(const std::vector<std::int64_t>&)>;

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

}  // namespace

std::vector<std::vector<Hypothesis>> search_with(const StepDecoder& decoder, const TranslationModelOptions& model,
                                                 const std::vector<Source>& sources, const SearchOptions& options,
                                                 const TextOf& text_of) {
  check_search(model, sources, options);
  GenerationOptions generation = {.beam = options.beam,
                                  .num_return = options.num_best,
                                  .length_penalty = options.length_penalty,
                                  .end_ids = {model.eos_token_id},
                                  .excluded = model.pad_token_id,
                                  .batch_size = options.batch_size};
  std::vector<std::int64_t> so_far;
  if (options.on_token) {
    generation.on_token = [&](std::size_t, std::int64_t, std::int64_t token, double) {
      so_far.push_back(token);
      options.on_token(token, text_of ? text_of(so_far) : std::string());
      return false;
    };
  }
  std::vector<SequenceRequest> requests;
  requests.reserve(sources.size());
  for (const Source& source : sources) {
    requests.push_back({.sequence = {.prompt = {model.decoder_start_token_id}, .source = &source},
                        .most_new_tokens = most_tokens(model, options, source)});
  }
  std::vector<std::vector<Hypothesis>> results;
  for (std::vector<Generated>& found : generate_tokens(decoder, requests, generation)) {
    std::vector<Hypothesis>& hypotheses = results.emplace_back();
    for (Generated& text : found) {
      hypotheses.push_back(
          {.tokens = std::move(text.tokens), .score = text.score, .complete = text.reason == EndReason::end_token});
    }
  }
  return results;
}

}  // namespace internal

std::vector<std::vector<Hypothesis>> search(const TranslationModel& model,
                                            const std::vector<std::vector<std::int64_t>>& sources,
                                            const SearchOptions& options) {
  if (sources.empty()) return {};
  return internal::search_with(internal::StepDecoder(model), model.options(), sources, options);
}

}  // namespace headway::inline v0
