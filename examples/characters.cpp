// A small language model over characters: it is trained on a verse, and then continues its first words.
#include <headway/headway.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

using headway::Tensor;

const std::string kText =
    "Every word looks at every other word and asks: what are you to me? "
    "Some heads look at the word before, some at the word that a pronoun stands for, "
    "some at the end of the sentence, where there is nothing to see. "
    "Each head weighs what it finds, takes the mean of it, and passes it on. "
    "Then all heads are laid side by side, mixed once more, and the next layer looks again. ";

constexpr std::int64_t kContext = 64;
constexpr std::int64_t kWidth = 64;

// A decoder without an encoder: every character sees those before it.
class CharacterModel : public headway::Module {
 public:
  explicit CharacterModel(std::int64_t characters)
      : embedding_({.count = characters, .width = kWidth}),
        positions_({.max_length = kContext, .width = kWidth}),
        layers_({.layer = {.d_model = kWidth,
                           .nhead = 4,
                           .dim_feedforward = 4 * kWidth,
                           .dropout = 0.0,
                           .activation = headway::Activation::gelu,
                           .norm_first = true},
                 .num_layers = 2,
                 .final_norm = true}),
        output_({.in_features = kWidth, .out_features = characters}) {
    add_module("embedding", embedding_);
    add_module("positions", positions_);
    add_module("layers", layers_);
    add_module("output", output_);
  }

  // Scores of the next character at every position: [batch, length, characters].
  Tensor forward(const Tensor& characters) const {
    const Tensor x = positions_.forward(embedding_.forward(characters));
    return output_.forward(layers_.forward({.source = x, .causal = headway::Causal::top_left}).output);
  }

 private:
  headway::Embedding embedding_;
  headway::LearnedPositions positions_;
  headway::TransformerEncoder layers_;
  headway::Linear output_;
};

// Numbers for characters, and back.
struct Alphabet {
  std::string characters;
  std::map<char, std::int64_t> numbers;

  explicit Alphabet(const std::string& text) {
    for (const char c : text) {
      if (numbers.emplace(c, static_cast<std::int64_t>(characters.size())).second) characters += c;
    }
  }
  std::vector<std::int64_t> encode(const std::string& text) const {
    std::vector<std::int64_t> encoded;
    for (const char c : text) encoded.push_back(numbers.at(c));
    return encoded;
  }
};

// The text that the model thinks comes next, its likeliest character each time.
std::string go_on(const CharacterModel& model, const Alphabet& alphabet, std::string text, int count) {
  const headway::NoGradGuard guard;
  for (int i = 0; i < count; ++i) {
    const std::string seen = text.substr(text.size() - std::min<std::size_t>(text.size(), kContext));
    const auto length = static_cast<std::int64_t>(seen.size());
    const Tensor scores = model.forward(Tensor::from(alphabet.encode(seen), {1, length})).select(0, 0).select(0, -1);
    const std::vector<double> values = scores.to_vector();
    text +=
        alphabet.characters[static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin())];
  }
  return text;
}

}  // namespace

int main() {
  constexpr std::int64_t kBatch = 16, kSteps = 600;
  headway::set_random_seed(1);
  const Alphabet alphabet(kText);
  const std::vector<std::int64_t> text = alphabet.encode(kText);
  const CharacterModel model(static_cast<std::int64_t>(alphabet.characters.size()));
  std::printf("%zu characters of text, %zu different ones, %lld parameters\n", text.size(), alphabet.characters.size(),
              static_cast<long long>(model.parameter_count()));

  const auto loss_of = [&](const headway::BatchPosition& position) -> headway::BatchLoss {
    std::mt19937_64 random(static_cast<std::uint64_t>(position.index));
    std::vector<std::int64_t> seen, next;  // (batch, context)
    for (std::int64_t b = 0; b < kBatch; ++b) {
      const auto begin = static_cast<std::ptrdiff_t>(random() % (text.size() - kContext));
      seen.insert(seen.end(), text.begin() + begin, text.begin() + begin + kContext);
      next.insert(next.end(), text.begin() + begin + 1, text.begin() + begin + 1 + kContext);
    }
    const Tensor scores = model.forward(Tensor::from(seen, {kBatch, kContext}));
    return {.loss = cross_entropy(scores, Tensor::from(next, {kBatch, kContext})), .tokens = kBatch * kContext};
  };
  headway::AdamW optimizer(model, {});
  const headway::Schedule schedule = headway::cosine_schedule({.peak = 3e-3, .warmup_steps = 40, .steps = kSteps});
  const headway::TrainingReport report =
      headway::train(model, optimizer, schedule, loss_of, {.steps = kSteps, .clip_norm = 1.0, .progress = &std::cout});

  model.eval();
  std::printf("%s\n", go_on(model, alphabet, "Every word", 120).c_str());
  return report.loss < 0.25 ? 0 : 1;
}
