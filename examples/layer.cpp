// The layer alone: attention between two sequences, its weights, and one step of learning.
#include <headway/headway.h>

#include <cstdio>

int main() {
  using headway::Tensor;
  headway::set_random_seed(1);

  const headway::MultiHeadAttention layer({.embed_dim = 512, .num_heads = 8, .dropout = 0.1});
  const Tensor query = Tensor::randn({2, 4, 512}, /*seed=*/1);   // [batch, query_length, embed_dim]
  const Tensor memory = Tensor::randn({2, 6, 512}, /*seed=*/2);  // [batch, key_length, embed_dim]

  std::printf("parameters, as torch.nn.MultiheadAttention names them:\n");
  for (const auto& [name, tensor] : layer.named_parameters()) {
    std::printf("  %-16s %s\n", name.c_str(), tensor.describe().c_str());
  }

  const auto [output, weights] =
      layer.forward({.query = query, .key = memory, .value = memory, .weights = headway::Weights::per_head});
  std::printf("\noutput  %s\nweights %s: what each head looks at\n", output.describe().c_str(),
              weights.describe().c_str());
  for (int head = 0; head < 2; ++head) {
    std::printf("  sentence 0, head %d, word 0:", head);
    for (int key = 0; key < 6; ++key) std::printf(" %.3f", weights.at({0, head, 0, key}));
    std::printf("\n");
  }

  // The second sentence has four words, and its padding must not be attended to.
  layer.eval();
  const auto masked =
      layer.forward({.query = query, .key = memory, .key_lengths = {6, 4}, .weights = headway::Weights::mean});
  std::printf("\nwith padding, mean over heads, sentence 1, word 0:");
  for (int key = 0; key < 6; ++key) std::printf(" %.3f", masked.weights.at({1, 0, key}));

  // Learning: the output is pulled towards a target, and the loss falls.
  layer.train();
  headway::AdamW optimizer(layer, {.learning_rate = 1e-3});
  const Tensor target = Tensor::randn({2, 4, 512}, /*seed=*/3);
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    const Tensor error = layer.forward({.query = query, .key = memory}).output - target;
    const Tensor loss = mean(error * error);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    (step == 0 ? first : last) = loss.item();
  }
  std::printf("\n\nloss after 1 step %.3f, after 20 steps %.3f\n", first, last);
  return last < first ? 0 : 1;
}
