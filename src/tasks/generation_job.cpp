#include "tasks/generation_job.h"

#include <algorithm>
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

GenerationJob::GenerationJob(const GenerationInput& input)
    : input_(input), options_(resolved_options(input.function, input.options, input.defaults)) {
  check_callbacks();
  const GenerateOptions& given = input.options;
  options_.on_step = given.on_step;
  if (options_.beam > 1) {
    if (given.stop.empty()) return;
    options_.stops = [this](const std::vector<std::int64_t>& tokens) {
      TextStream stream(*input_.tokenizer, {}, input_.options.stop, {});
      return std::any_of(tokens.begin(), tokens.end(), [&](std::int64_t token) { return stream.add(token); });
    };
    return;
  }
  if (!given.stop.empty() || given.on_text || given.on_token) {
    options_.on_token = [this](std::size_t request, std::int64_t text, std::int64_t token, double log_probability) {
      return add_token({request, text}, token, log_probability);
    };
  }
  if (given.weights != Weights::none) {
    options_.on_attention = [this](const GenerationOptions::RowTexts& rows, const StepAttention& step) {
      add_attention(rows, step);
    };
  }
}

void GenerationJob::check_callbacks() const {
  const GenerateOptions& given = input_.options;
  const char* function = input_.function;
  const std::size_t count = input_.requests.size();
  const bool is_single = count == 1 && options_.beam == 1 && given.num_return == 1;
  check(is_single || (!given.on_text && !given.on_token), function, ": on_text or on_token is given for ", count,
        " prompts, ", options_.beam, " beams and ", given.num_return, " texts, expected one of each");
  check(!given.on_text || input_.tokenizer, function, ": on_text is given, and the model has no tokenizer");
  check(given.stop.empty() || input_.tokenizer, function, ": stop is given, and the model has no tokenizer");
  check(given.weights == Weights::none || options_.beam == 1, function, ": weights are asked for with ", options_.beam,
        " beams, expected one");
}

bool GenerationJob::is_end(std::int64_t token) const {
  return std::find(options_.end_ids.begin(), options_.end_ids.end(), token) != options_.end_ids.end();
}

TextStream& GenerationJob::stream_of(const TextKey& key) {
  const auto found = streams_.find(key);
  if (found != streams_.end()) return found->second;
  const std::vector<std::int64_t> none;
  const std::vector<std::int64_t>& before = input_.continues ? input_.requests[key.first].sequence.prompt : none;
  TextStream stream(*input_.tokenizer, before, input_.options.stop, input_.options.on_text);
  return streams_.emplace(key, std::move(stream)).first->second;
}

bool GenerationJob::add_token(const TextKey& key, std::int64_t token, double log_probability) {
  const bool goes_on = !input_.options.on_token || input_.options.on_token(token, log_probability);
  const bool stops = input_.tokenizer && !is_end(token) && stream_of(key).add(token);
  return stops || !goes_on;
}

void GenerationJob::add_attention(const GenerationOptions::RowTexts& rows, const StepAttention& step) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const BatchSequence& sequence = input_.requests[rows[row].first].sequence;
    std::vector<GeneratedAttention>& collected = attentions_[rows[row]];
    const auto length = sequence.features ? front_positions(input_.decoder.front(), sequence.features->shape())
                                          : static_cast<std::int64_t>(sequence.source ? sequence.source->size() : 0);
    const std::int64_t position = static_cast<std::int64_t>(sequence.prompt.size() + collected.size()) - 1;
    GeneratedAttention found =
        attention_of_row(step, static_cast<std::int64_t>(row), position, length, input_.options.weights);
    if (input_.options.on_attention) {
      input_.options.on_attention(found);
      found = {.position = position, .self = {}, .cross = {}};
    }
    collected.push_back(std::move(found));
  }
}

GeneratedText GenerationJob::finish(const TextKey& key, Generated generated) {
  GeneratedText text = {.tokens = std::move(generated.tokens),
                        .log_probabilities = std::move(generated.log_probabilities),
                        .score = generated.score,
                        .reason = generated.reason,
                        .prompt_tokens = static_cast<std::int64_t>(input_.requests[key.first].sequence.prompt.size())};
  if (input_.tokenizer) {
    TextStream& stream = stream_of(key);
    if (!options_.on_token) {
      for (const std::int64_t token : text.tokens) {
        if (is_end(token) || stream.add(token)) break;
      }
    }
    text.text = stream.finish();
  }
  if (!input_.options.on_attention && input_.options.weights != Weights::none) {
    text.attention = std::move(attentions_[key]);
  }
  return text;
}

std::vector<std::vector<GeneratedText>> GenerationJob::run() {
  std::vector<std::vector<Generated>> generated = generate_tokens(input_.decoder, input_.requests, options_);
  std::vector<std::vector<GeneratedText>> results(generated.size());
  for (std::size_t i = 0; i < generated.size(); ++i) {
    for (std::size_t n = 0; n < generated[i].size(); ++n) {
      results[i].push_back(finish({i, static_cast<std::int64_t>(n)}, std::move(generated[i][n])));
    }
  }
  return results;
}

}  // namespace headway::inline v0::internal
