// A Transformer learns to reverse a sequence, and then does so without a mistake.
#include <headway/headway.h>

#include <cstdio>
#include <iostream>
#include <random>
#include <vector>

namespace {

using headway::Tensor;

constexpr std::int64_t kDigits = 10;      // tokens 0 .. 9
constexpr std::int64_t kStart = kDigits;  // the token that an answer begins with
constexpr std::int64_t kTokens = kDigits + 1;
constexpr std::int64_t kLength = 8;
constexpr std::int64_t kWidth = 64;

// An encoder-decoder over digits: embeddings, positions, the Transformer, and a score for every digit.
class Reverser : public headway::Module {
 public:
  Reverser()
      : embedding_({.count = kTokens, .width = kWidth}),
        positions_({.max_length = kLength + 1, .width = kWidth}),
        transformer_({.layer = {.d_model = kWidth, .nhead = 4, .dim_feedforward = 128, .dropout = 0.0},
                      .num_encoder_layers = 1,
                      .num_decoder_layers = 1}),
        output_({.in_features = kWidth, .out_features = kTokens}) {
    add_module("embedding", embedding_);
    add_module("positions", positions_);
    add_module("transformer", transformer_);
    add_module("output", output_);
  }

  // Scores of the next token after each of `answer`: [batch, length, tokens].
  Tensor forward(const Tensor& question, const Tensor& answer) const {
    const auto decoded = transformer_.forward(
        {.source = embed(question), .target = embed(answer), .target_causal = headway::Causal::top_left});
    return output_.forward(decoded.output);
  }

  // Writes the answer token by token; what was computed for earlier tokens is kept in a cache.
  std::vector<std::vector<std::int64_t>> answer(const Tensor& question) const {
    const headway::NoGradGuard guard;
    const Tensor memory = transformer_.encoder().forward({.source = embed(question)}).output;
    headway::DecoderCache cache;
    const std::int64_t batch = question.size(0);
    std::vector<std::vector<std::int64_t>> answers(static_cast<std::size_t>(batch));
    std::vector<std::int64_t> last(static_cast<std::size_t>(batch), kStart);
    for (std::int64_t position = 0; position < kLength; ++position) {
      const Tensor token = positions_.forward(embedding_.forward(Tensor::from(last, {batch, 1})), position);
      const auto decoded = transformer_.decoder().forward({.target = token, .memory = memory}, cache);
      const Tensor scores = output_.forward(decoded.output);
      for (std::int64_t b = 0; b < batch; ++b) {
        std::int64_t best = 0;
        for (std::int64_t digit = 1; digit < kDigits; ++digit) {
          if (scores.at({b, 0, digit}) > scores.at({b, 0, best})) best = digit;
        }
        last[static_cast<std::size_t>(b)] = best;
        answers[static_cast<std::size_t>(b)].push_back(best);
      }
    }
    return answers;
  }

 private:
  Tensor embed(const Tensor& tokens) const { return positions_.forward(embedding_.forward(tokens)); }

  headway::Embedding embedding_;
  headway::SinusoidalPositions positions_;
  headway::Transformer transformer_;
  headway::Linear output_;
};

struct Batch {
  std::vector<std::int64_t> questions;  // (batch, length)
  std::vector<std::int64_t> starts;     // (batch, length): the answer so far, the start token first
  std::vector<std::int64_t> answers;    // (batch, length): the question backwards
};

Batch make_batch(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Batch batch;
  for (std::int64_t b = 0; b < count; ++b) {
    std::vector<std::int64_t> digits;
    for (std::int64_t i = 0; i < kLength; ++i) digits.push_back(static_cast<std::int64_t>(random() % kDigits));
    batch.questions.insert(batch.questions.end(), digits.begin(), digits.end());
    batch.starts.push_back(kStart);
    batch.starts.insert(batch.starts.end(), digits.rbegin(), digits.rend() - 1);
    batch.answers.insert(batch.answers.end(), digits.rbegin(), digits.rend());
  }
  return batch;
}

// The share of whole sequences that are written without a mistake.
double exact_share(const Reverser& model, std::int64_t count, std::uint64_t seed) {
  const Batch batch = make_batch(count, seed);
  const auto answers = model.answer(Tensor::from(batch.questions, {count, kLength}));
  std::int64_t exact = 0;
  for (std::int64_t b = 0; b < count; ++b) {
    exact += std::equal(answers[static_cast<std::size_t>(b)].begin(), answers[static_cast<std::size_t>(b)].end(),
                        batch.answers.begin() + b * kLength);
  }
  return static_cast<double>(exact) / static_cast<double>(count);
}

}  // namespace

int main() {
  constexpr std::int64_t kBatch = 64;
  headway::set_random_seed(1);
  const Reverser model;
  headway::AdamW optimizer(model, {.learning_rate = 3e-3, .weight_decay = 0.0});
  std::printf("%lld parameters\n", static_cast<long long>(model.parameter_count()));

  const auto loss_of = [&](const headway::BatchPosition& position) -> headway::BatchLoss {
    const Batch batch = make_batch(kBatch, static_cast<std::uint64_t>(position.index));
    const Tensor scores =
        model.forward(Tensor::from(batch.questions, {kBatch, kLength}), Tensor::from(batch.starts, {kBatch, kLength}));
    return {.loss = cross_entropy(scores, Tensor::from(batch.answers, {kBatch, kLength})), .tokens = kBatch * kLength};
  };
  headway::train(model, optimizer, headway::cosine_schedule({.peak = 3e-3, .warmup_steps = 50, .steps = 700}), loss_of,
                 {.steps = 700, .clip_norm = 1.0, .progress = &std::cout});

  model.eval();
  const double share = exact_share(model, 500, /*seed=*/1'000'000);
  std::printf("500 new sequences: %.1f%% exact\n", 100 * share);
  const Batch shown = make_batch(1, 1'000'001);
  const auto answers = model.answer(Tensor::from(shown.questions, {1, kLength}));
  for (const std::int64_t digit : shown.questions) std::printf("%lld ", static_cast<long long>(digit));
  std::printf("-> ");
  for (const std::int64_t digit : answers[0]) std::printf("%lld ", static_cast<long long>(digit));
  std::printf("\n");
  return share == 1.0 ? 0 : 1;
}
