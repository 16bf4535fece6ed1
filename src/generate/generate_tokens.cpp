// Greedy search, drawing and beam search over batches of sequences.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "generate/beam.h"
#include "generate/generated.h"
#include "headway/autograd.h"
#include "nn/evaluation_guard.h"

namespace headway::inline v0::internal {
namespace {

constexpr const char* kNotFinite = "search: the model returns logits that are not numbers";

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

TopTokens host_top(std::int64_t rows, std::int64_t count) {
  return {Tensor::empty({rows, count}, DType::int64), Tensor::empty({rows, count}), Tensor::empty({rows})};
}

// One batch: requests by their numbers in the list of all.
struct GenerationBatch {
  const StepDecoder& decoder;
  const std::vector<SequenceRequest>& requests;
  const GenerationOptions& options;
  std::vector<std::size_t> members;
  std::vector<std::vector<Generated>>& results;

  std::vector<BatchSequence> sequences() const {
    std::vector<BatchSequence> list;
    for (const std::size_t member : members) list.push_back(requests[member].sequence);
    return list;
  }
  std::int64_t prompt_length(std::size_t member) const {
    return static_cast<std::int64_t>(requests[member].sequence.prompt.size());
  }
  // The most tokens of any text, its prompt included.
  std::int64_t most_tokens() const {
    std::int64_t most = 0;
    for (const std::size_t member : members) {
      most = std::max(most, prompt_length(member) + requests[member].most_new_tokens);
    }
    return most;
  }
  bool is_end(std::int64_t token) const {
    return std::find(options.end_ids.begin(), options.end_ids.end(), token) != options.end_ids.end();
  }
  // Changes the scores of the token after `text`, the new tokens of a member.
  void apply_rules(std::size_t member, const std::vector<std::int64_t>& text, std::span<float> scores) const {
    if (!options.rules.any()) return;
    std::vector<std::int64_t> all = requests[member].sequence.prompt;
    all.insert(all.end(), text.begin(), text.end());
    options.rules.apply({.tokens = all,
                         .prompt_length = prompt_length(member),
                         .max_length = prompt_length(member) + requests[member].most_new_tokens},
                        scores);
  }
};

// ---- one token after the other: the most likely ones, or drawn ones ----

// A text that is being written.
struct OpenText {
  std::size_t member = 0;   // its request
  std::int64_t number = 0;  // among the texts of its request
  Generated so_far = {};
};

class Writing {
 public:
  explicit Writing(const GenerationBatch& batch)
      : batch_(batch),
        texts_of_one_(batch.options.samples ? batch.options.num_return : 1),
        decoding_(batch.decoder, batch.sequences(),
                  {.forks = texts_of_one_,
                   .forked = true,
                   .most_tokens = batch.most_tokens(),
                   .excluded = batch.options.excluded}) {
    for (const std::size_t member : batch.members) {
      for (std::int64_t i = 0; i < texts_of_one_; ++i) texts_.push_back({.member = member, .number = i, .so_far = {}});
      batch.results[member].resize(static_cast<std::size_t>(texts_of_one_));
    }
    if (batch.options.samples) decoding_.set_rule(batch.options.rule);
  }

  void run() {
    const GenerationOptions& options = batch_.options;
    if (options.rules.any() || options.on_attention) return run_on_host();
    run_on_device();
  }

 private:
  // The next token of a text; true where it was its last one.
  bool accept(OpenText& text, std::int64_t token, double log_probability) {
    const GenerationOptions& options = batch_.options;
    check(std::isfinite(log_probability), kNotFinite);
    Generated& so_far = text.so_far;
    so_far.tokens.push_back(token);
    so_far.log_probabilities.push_back(log_probability);
    so_far.score += log_probability;
    const bool is_end = batch_.is_end(token);
    const bool stops = options.on_token && options.on_token(text.member, text.number, token, log_probability);
    const auto length = static_cast<std::int64_t>(so_far.tokens.size());
    if (!is_end && !stops && length < batch_.requests[text.member].most_new_tokens) return false;
    so_far.reason = is_end ? EndReason::end_token : stops ? EndReason::stop_text : EndReason::length;
    so_far.score /= std::pow(static_cast<double>(length), options.length_penalty);
    batch_.results[text.member][static_cast<std::size_t>(text.number)] = std::move(so_far);
    return true;
  }

  // The step itself chooses the tokens; the host reads them every few steps.
  void run_on_device() {
    const GenerationOptions& options = batch_.options;
    const StepEnd end = options.samples ? StepEnd::sample : StepEnd::best;
    std::vector<std::int64_t> going_on(texts_.size());  // rows
    std::iota(going_on.begin(), going_on.end(), 0);
    std::int64_t most = 0;
    for (const std::size_t member : batch_.members) most = std::max(most, batch_.requests[member].most_new_tokens);
    for (std::int64_t length = 0; !going_on.empty();) {
      if (options.on_step) options.on_step();
      const std::int64_t steps = options.on_token ? 1 : std::min(decoding_.steps_at_once(length), most - length);
      const DecodingBatch::ChosenTokens chosen = decoding_.take_steps(steps, end);
      const std::int64_t width = chosen.tokens.size(1);
      for (std::int64_t step = 0; step < steps; ++step) {
        const std::int64_t* tokens = chosen.tokens.data<std::int64_t>() + step * width;
        const float* scores = chosen.scores.data<float>() + step * width;
        std::erase_if(going_on, [&](std::int64_t row) {
          return accept(texts_[static_cast<std::size_t>(row)], tokens[row], scores[row]);
        });
      }
      length += steps;
      // Rows that are done are computed all the same, until a smaller step serves the others.
      if (going_on.empty() || !decoding_.has_smaller_step(static_cast<std::int64_t>(going_on.size()))) continue;
      decoding_.keep_rows(going_on);
      keep(texts_, going_on);
      going_on.resize(texts_.size());
      std::iota(going_on.begin(), going_on.end(), 0);
    }
  }

  // Rules change the logits before a token is chosen, or the attention is wanted.
  void run_on_host() {
    for (std::int64_t step = 0; !texts_.empty(); ++step) {
      if (batch_.options.on_step) batch_.options.on_step();
      const Tensor logits = step_to_logits();
      const auto rows = static_cast<std::int64_t>(texts_.size());
      const TopTokens before = host_top(rows, 1);
      top_tokens(logits, {}, before);  // for the log-probabilities
      const Tensor scores = logits.clone();
      const std::int64_t classes = scores.size(1);
      std::vector<std::int64_t> numbers;
      for (std::int64_t row = 0; row < rows; ++row) {
        const OpenText& text = texts_[static_cast<std::size_t>(row)];
        batch_.apply_rules(text.member, text.so_far.tokens,
                           {scores.data<float>() + row * classes, static_cast<std::size_t>(classes)});
        numbers.push_back(batch_.requests[text.member].sequence.number * texts_of_one_ + text.number);
      }
      const TopTokens top = choose(scores, numbers, step);
      continue_with(top.tokens, [&](std::int64_t row, std::int64_t token) {
        check(token >= 0 || !std::isfinite(before.logsumexp.data<float>()[row]),
              "the rules leave no token to continue a text with");
        check(token >= 0, kNotFinite);
        return static_cast<double>(logits.data<float>()[row * classes + token]) -
               static_cast<double>(before.logsumexp.data<float>()[row]);
      });
    }
  }

  Tensor step_to_logits() {
    const GenerationOptions& options = batch_.options;
    if (!options.on_attention) return decoding_.step_to_logits();
    StepAttention attention;
    Tensor logits = decoding_.step_to_logits(attention);
    GenerationOptions::RowTexts rows;
    for (const OpenText& text : texts_) rows.emplace_back(text.member, text.number);
    options.on_attention(rows, attention);
    return logits;
  }

  TopTokens choose(const Tensor& scores, const std::vector<std::int64_t>& numbers, std::int64_t step) const {
    const std::int64_t rows = scores.size(0);
    const TopTokens top = host_top(rows, 1);
    if (batch_.options.samples) {
      sample_tokens({.logits = scores,
                     .rule = batch_.options.rule,
                     .sequences = Tensor::from(numbers, {rows}),
                     .step = Tensor::from(std::vector<std::int64_t>{step}, {1}),
                     .top = top});
    } else {
      top_tokens(scores, batch_.options.excluded, top);
    }
    return top;
  }

  template <typename LogProbability>
  void continue_with(const Tensor& chosen, const LogProbability& log_probability) {
    DecodingBatch::NextRows next;
    std::vector<std::int64_t> going_on;
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(texts_.size()); ++row) {
      const std::int64_t token = chosen.data<std::int64_t>()[row];
      if (accept(texts_[static_cast<std::size_t>(row)], token, log_probability(row, token))) continue;
      going_on.push_back(row);
      next.tokens.push_back(token);
      next.parents.push_back(row);
      next.slots.push_back(decoding_.slots()[static_cast<std::size_t>(row)]);
    }
    keep(texts_, going_on);
    if (!texts_.empty()) decoding_.set_next(next);
  }

  const GenerationBatch& batch_;
  std::int64_t texts_of_one_;
  DecodingBatch decoding_;
  std::vector<OpenText> texts_;  // (rows)
};

// ---- beams ----

class BeamWriting {
 public:
  explicit BeamWriting(const GenerationBatch& batch)
      : batch_(batch),
        members_(batch.members),
        count_(candidates_of(options_of(batch, batch.members.front()))),
        decoding_(batch.decoder, batch.sequences(),
                  {.forks = batch.options.beam,
                   .most_tokens = batch.most_tokens(),
                   .best = count_,
                   .excluded = batch.options.excluded}) {
    for (const std::size_t member : members_) beams_.emplace_back(options_of(batch, member));
  }

  void run() {
    BestCandidates best(count_);
    while (!members_.empty()) {
      if (batch_.options.on_step) batch_.options.on_step();
      const TopTokens top = step();
      const std::vector<std::int64_t> slots = decoding_.slots();
      DecodingBatch::NextRows next;
      std::vector<std::int64_t> going_on;
      std::int64_t first_row = 0;
      for (std::size_t i = 0; i < members_.size(); ++i) {
        const std::vector<double>& scores = beams_[i].scores();
        const auto count = static_cast<std::int64_t>(scores.size());
        best.clear();
        for (std::int64_t beam = 0; beam < count; ++beam) {
          add_candidates(top, first_row + beam, beam, scores[static_cast<std::size_t>(beam)], best);
        }
        beams_[i].advance(best.sorted());
        if (beams_[i].done()) {
          batch_.results[members_[i]] = beams_[i].best(batch_.options.num_return);
        } else {
          going_on.push_back(static_cast<std::int64_t>(i));
          for (const std::int64_t parent : beams_[i].parents()) next.parents.push_back(first_row + parent);
          next.tokens.insert(next.tokens.end(), beams_[i].tokens().begin(), beams_[i].tokens().end());
          next.slots.resize(next.tokens.size(), slots[static_cast<std::size_t>(first_row)]);
        }
        first_row += count;
      }
      keep(members_, going_on);
      keep(beams_, going_on);
      if (!members_.empty()) decoding_.set_next(next);
    }
  }

 private:
  static BeamOptions options_of(const GenerationBatch& batch, std::size_t member) {
    return {.beam = batch.options.beam,
            .length_penalty = batch.options.length_penalty,
            .early_stopping = batch.options.early_stopping,
            .max_length = batch.requests[member].most_new_tokens,
            .end_ids = batch.options.end_ids,
            .stops = batch.options.stops};
  }

  // The best tokens of every row: log-probabilities are logits - logsumexp.
  TopTokens step() {
    if (!batch_.options.rules.any()) return decoding_.step_to_candidates();
    const Tensor scores = log_softmax(decoding_.step_to_logits());
    const std::int64_t rows = scores.size(0), classes = scores.size(1);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const std::size_t count = beams_[i].scores().size();
      for (std::size_t beam = 0; beam < count; ++beam, ++row) {
        batch_.apply_rules(members_[i], beams_[i].so_far()[beam],
                           {scores.data<float>() + row * classes, static_cast<std::size_t>(classes)});
      }
    }
    const TopTokens top = host_top(rows, count_);
    top_tokens(scores, batch_.options.excluded, top);
    return {top.tokens, top.logits, Tensor::zeros({rows})};
  }

  // The candidates of a row, which is beam `beam` of its sequence, with this score so far.
  static void add_candidates(const TopTokens& top, std::int64_t row, std::int64_t beam, double score,
                             BestCandidates& best) {
    const double logsumexp = top.logsumexp.data<float>()[row];
    const std::int64_t count = top.tokens.size(1);
    check(std::isfinite(logsumexp) && !std::isnan(top.logits.data<float>()[row * count]), kNotFinite);
    for (std::int64_t i = row * count; i < (row + 1) * count; ++i) {
      const double log_probability = top.logits.data<float>()[i] - logsumexp;
      best.add({.score = score + log_probability,
                .beam = beam,
                .token = top.tokens.data<std::int64_t>()[i],
                .log_probability = log_probability});
    }
  }

  const GenerationBatch& batch_;
  std::vector<std::size_t> members_;
  std::int64_t count_;  // candidates of every row
  DecodingBatch decoding_;
  std::vector<BeamSearch> beams_;  // (members)
};

}  // namespace

std::vector<std::vector<Generated>> generate_tokens(const StepDecoder& decoder,
                                                    const std::vector<SequenceRequest>& requests,
                                                    const GenerationOptions& options) {
  const NoGradGuard guard;
  const EvaluationGuard evaluation(decoder.model());
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t i) {
    const BatchSequence& sequence = requests[i].sequence;
    if (sequence.features) return sequence.prompt.size() + static_cast<std::size_t>(sequence.features->size(-1));
    return sequence.prompt.size() + (sequence.source ? sequence.source->size() : 0);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return length(a) > length(b); });
  std::vector<std::vector<Generated>> results(requests.size());
  const auto batch_size = static_cast<std::size_t>(options.batch_size);
  for (std::size_t first = 0; first < order.size(); first += batch_size) {
    const std::size_t last = first + std::min(batch_size, order.size() - first);
    const GenerationBatch batch = {.decoder = decoder,
                                   .requests = requests,
                                   .options = options,
                                   .members = {order.begin() + static_cast<std::ptrdiff_t>(first),
                                               order.begin() + static_cast<std::ptrdiff_t>(last)},
                                   .results = results};
    options.beam == 1 ? Writing(batch).run() : BeamWriting(batch).run();
  }
  return results;
}

}  // namespace headway::inline v0::internal
