#include "tasks/generation_job.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace headway::inline v0::internal {

void check_ids(const char* function, const char* name, std::size_t number, const std::vector<std::int64_t>& ids,
               std::int64_t vocab_size) {
  for (const std::int64_t id : ids) {
    check(id >= 0 && id < vocab_size, function, ": ", name, " ", number, " has id ", id, ", expected 0 to ",
          vocab_size - 1);
  }
}

GeneratedAttention attention_of_row(const StepAttention& step, std::int64_t row, std::int64_t position,
                                    std::int64_t source_length, Weights weights) {
  const auto of_row = [&](const std::vector<Tensor>& layers, std::int64_t keys) {
    std::vector<Tensor> all;
    for (const Tensor& layer : layers) {
      const Tensor heads = layer.select(0, row).slice(1, 0, keys).contiguous();
      all.push_back(weights == Weights::mean ? mean(heads, {0}) : heads);
    }
    return all;
  };
  return {.position = position, .self = of_row(step.self, position + 1), .cross = of_row(step.cross, source_length)};
}

void GenerationJob::check_callbacks(const GenerationOptions& resolved) const {
  const bool is_single = requests.size() == 1 && resolved.beam == 1 && options.num_return == 1;
  check(is_single || (!options.on_text && !options.on_token), function, ": on_text or on_token is given for ",
        requests.size(), " prompts, ", resolved.beam, " beams and ", options.num_return,
        " texts, expected one of each");
  check(!options.on_text || tokenizer, function, ": on_text is given, and the model has no tokenizer");
  check(options.stop.empty() || tokenizer, function, ": stop is given, and the model has no tokenizer");
  check(options.weights == Weights::none || resolved.beam == 1, function, ": weights are asked for with ",
        resolved.beam, " beams, expected one");
}

GeneratedText GenerationJob::finished(const SequenceRequest& request, Generated&& generated, TextStream* stream) const {
  GeneratedText text = {.tokens = std::move(generated.tokens),
                        .log_probabilities = std::move(generated.log_probabilities),
                        .score = generated.score,
                        .reason = generated.reason,
                        .prompt_tokens = static_cast<std::int64_t>(request.sequence.prompt.size())};
  if (stream) text.text = stream->finish();
  return text;
}

std::vector<std::vector<GeneratedText>> GenerationJob::run() {
  GenerationOptions resolved = resolved_options(function, options, defaults);
  check_callbacks(resolved);
  const auto is_end = [&](std::int64_t token) {
    return std::find(resolved.end_ids.begin(), resolved.end_ids.end(), token) != resolved.end_ids.end();
  };
  std::map<std::pair<std::size_t, std::int64_t>, TextStream> streams;  // of each text
  const auto stream_of = [&](std::size_t request, std::int64_t text) -> TextStream& {
    const auto found = streams.find({request, text});
    if (found != streams.end()) return found->second;
    const std::vector<std::int64_t> none;
    return streams
        .emplace(std::pair(request, text), TextStream(*tokenizer, continues ? requests[request].sequence.prompt : none,
                                                      options.stop, options.on_text))
        .first->second;
  };
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<GeneratedAttention>> attentions;
  if (!options.stop.empty() || options.on_text || options.on_token) {
    resolved.on_token = [&](std::size_t request, std::int64_t text, std::int64_t token, double log_probability) {
      const bool goes_on = !options.on_token || options.on_token(token, log_probability);
      const bool stops = tokenizer && !is_end(token) && stream_of(request, text).add(token);
      return stops || !goes_on;
    };
  }
  if (resolved.beam > 1 && !options.stop.empty()) {
    resolved.on_token = {};
    resolved.stops = [&](const std::vector<std::int64_t>& tokens) {
      TextStream stream(*tokenizer, {}, options.stop, {});
      return std::any_of(tokens.begin(), tokens.end(), [&](std::int64_t token) { return stream.add(token); });
    };
  }
  if (options.weights != Weights::none) {
    resolved.on_attention = [&](const GenerationOptions::RowTexts& rows, const StepAttention& step) {
      for (std::size_t row = 0; row < rows.size(); ++row) {
        const SequenceRequest& request = requests[rows[row].first];
        std::vector<GeneratedAttention>& collected = attentions[rows[row]];
        const auto length = static_cast<std::int64_t>(request.sequence.source ? request.sequence.source->size() : 0);
        const std::int64_t position = static_cast<std::int64_t>(request.sequence.prompt.size() + collected.size()) - 1;
        GeneratedAttention found =
            attention_of_row(step, static_cast<std::int64_t>(row), position, length, options.weights);
        if (options.on_attention) {
          options.on_attention(found);
          found = {.position = position, .self = {}, .cross = {}};
        }
        collected.push_back(std::move(found));
      }
    };
  }
  std::vector<std::vector<Generated>> generated = generate_tokens(decoder, requests, resolved);
  std::vector<std::vector<GeneratedText>> results(requests.size());
  for (std::size_t i = 0; i < generated.size(); ++i) {
    for (std::size_t n = 0; n < generated[i].size(); ++n) {
      const auto number = static_cast<std::int64_t>(n);
      TextStream* stream = nullptr;
      if (tokenizer) {
        stream = &stream_of(i, number);
        if (!resolved.on_token) {
          for (const std::int64_t token : generated[i][n].tokens) {
            if (is_end(token) || stream->add(token)) break;
          }
        }
      }
      results[i].push_back(finished(requests[i], std::move(generated[i][n]), stream));
      if (!options.on_attention && options.weights != Weights::none) {
        results[i].back().attention = std::move(attentions[{i, number}]);
      }
    }
  }
  return results;
}

}  // namespace headway::inline v0::internal
