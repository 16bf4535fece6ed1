// Multi-head attention step by step, with every number on the page: what docs/multi_head_attention.md shows.
#include <headway/headway.h>

#include <cmath>
#include <cstdio>

namespace {

using headway::DType;
using headway::Tensor;

// A matrix, one row per line; masked values are shown as dots.
void print(const char* title, const Tensor& matrix) {
  std::printf("%s\n", title);
  for (std::int64_t row = 0; row < matrix.size(0); ++row) {
    for (std::int64_t column = 0; column < matrix.size(1); ++column) {
      const double value = matrix.at({row, column});
      if (std::isinf(value)) {
        std::printf("      .");
      } else {
        std::printf("%7.3f", value == 0 ? 0.0 : value);
      }
    }
    std::printf("\n");
  }
}

Tensor numbers(std::initializer_list<double> values, const headway::Shape& shape) {
  return Tensor::from<double>(values, shape);
}

// Three tokens, three heads of size 1, no projections: small enough for a pocket calculator.
void three_heads_of_size_one() {
  const headway::MultiHeadAttention layer({.embed_dim = 3, .num_heads = 3, .bias = false, .dtype = DType::float64});
  const Tensor eye = numbers({1, 0, 0, 0, 1, 0, 0, 0, 1}, {3, 3});
  layer.load_state_dict({{"in_proj_weight", headway::concat({eye, eye, eye})}, {"out_proj.weight", eye}});
  const Tensor x = numbers({1, 0, 1, 0, 2, 0, 1, 1, 0}, {3, 3});
  const auto [output, weights] = layer.forward({.query = x, .weights = headway::Weights::per_head});
  std::printf("## three heads of size 1\n");
  print("x: three tokens, three features", x);
  print("weights of head 0", weights.select(0, 0));
  print("weights of head 1", weights.select(0, 1));
  print("output", output.detach());
  std::printf("\n");
}

// Two sentences of three tokens, four features, two heads of size 2; the second sentence has two words and padding.
void two_heads() {
  const headway::MultiHeadAttention layer({.embed_dim = 4, .num_heads = 2, .dtype = DType::float64});
  const Tensor query_weight = numbers({1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, {4, 4});
  const Tensor key_weight = numbers({0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, -1}, {4, 4});
  const Tensor value_weight = numbers({2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 3}, {4, 4});
  const Tensor out_weight = numbers({1, 0, 1, 0, 0, 1, 0, 1, 1, 0, -1, 0, 0, 1, 0, -1}, {4, 4});
  layer.load_state_dict({{"in_proj_weight", headway::concat({query_weight, key_weight, value_weight})},
                         {"in_proj_bias", Tensor::zeros({12}, DType::float64)},
                         {"out_proj.weight", out_weight},
                         {"out_proj.bias", Tensor::zeros({4}, DType::float64)}});
  const Tensor x = numbers({1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0,  //
                            2, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0},
                           {2, 3, 4});  // [batch, length, embed_dim]
  const headway::Mask words = headway::Mask::keep(Tensor::from<bool>({true, true, true, true, true, false}, {2, 3}));

  std::printf("## project\n");
  const Tensor q = linear(x, query_weight), k = linear(x, key_weight), v = linear(x, value_weight);
  print("x of sentence 0: three tokens, four features", x.select(0, 0));
  print("Q = x Wq^T", q.select(0, 0));
  print("K = x Wk^T", k.select(0, 0));
  print("V = x Wv^T", v.select(0, 0));

  std::printf("\n## split into heads\n");
  const auto split_heads = [](const Tensor& t) { return t.reshape({2, 3, 2, 2}).transpose(1, 2); };
  const Tensor qh = split_heads(q), kh = split_heads(k), vh = split_heads(v);  // [batch, heads, length, head_dim]
  print("Q of head 0", qh.select(0, 0).select(0, 0));
  print("K of head 0", kh.select(0, 0).select(0, 0));

  std::printf("\n## score and scale\n");
  const Tensor scores = matmul(qh, kh.transpose(2, 3));
  const Tensor scaled = scale(scores, 1 / std::sqrt(2.0));
  print("Q K^T of head 0", scores.select(0, 0).select(0, 0));
  print("divided by sqrt(2)", scaled.select(0, 0).select(0, 0));

  std::printf("\n## mask\n");
  const double never = -INFINITY;
  const Tensor padding = numbers({0, 0, 0, 0, 0, never}, {2, 1, 1, 3});
  const Tensor masked = add(scaled, padding);
  print("sentence 1, head 0: the third token is padding", masked.select(0, 1).select(0, 0));

  std::printf("\n## softmax\n");
  const Tensor weights = softmax(masked);
  print("weights of sentence 0, head 0", weights.select(0, 0).select(0, 0));
  print("weights of sentence 1, head 0", weights.select(0, 1).select(0, 0));

  std::printf("\n## weigh\n");
  const Tensor heads = matmul(weights, vh);
  print("weights V of sentence 0, head 0", heads.select(0, 0).select(0, 0));
  print("weights V of sentence 0, head 1", heads.select(0, 0).select(0, 1));

  std::printf("\n## concatenate\n");
  const Tensor joined = heads.transpose(1, 2).reshape({2, 3, 4});
  print("the two heads side by side", joined.select(0, 0));

  std::printf("\n## project again\n");
  const Tensor output = linear(joined, out_weight);
  print("output of sentence 0", output.select(0, 0));

  const auto result = layer.forward({.query = x, .key_padding_mask = words, .weights = headway::Weights::per_head});
  double difference = 0;
  const std::vector<double> by_hand = output.to_vector(), by_layer = result.output.to_vector();
  for (std::size_t i = 0; i < by_hand.size(); ++i) {
    difference = std::max(difference, std::abs(by_hand[i] - by_layer[i]));
  }
  std::printf("\n## the layer\n");
  print("layer.forward(): output of sentence 0", result.output.detach().select(0, 0));
  std::printf("the same as by hand: %s\n", difference < 1e-12 ? "yes" : "no");
}

}  // namespace

int main() {
  three_heads_of_size_one();
  two_heads();
}
