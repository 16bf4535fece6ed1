// Uses every public header as an installed library's user would, and fails when a result is wrong.
#include <headway/headway.h>

#include <cmath>
#include <iostream>

int main() {
  // Equal keys share the attention equally, so the output is the mean of the values.
  const auto query = headway::Tensor::randn({1, 1, 3, 4}, /*seed=*/1);   // [batch, heads, query_length, head_dim]
  const auto key = headway::Tensor::zeros({1, 1, 2, 4});                 // [batch, heads, key_length, head_dim]
  const auto value = headway::Tensor::from({1.0f, 2.0f}, {1, 1, 2, 1});  // [batch, heads, key_length, value_dim]
  const headway::AttentionResult result = headway::attention(query, key, value);
  const headway::AttentionGradients gradients = headway::attention_backward({
      .query = query,
      .key = key,
      .value = value,
      .forward = result,
      .d_output = headway::Tensor::full(result.output.shape(), 1.0),
  });

  bool right = result.output.shape() == headway::Shape{1, 1, 3, 1};
  for (const double x : result.output.to_vector()) right = right && std::abs(x - 1.5) < 1e-6;
  for (const double x : gradients.value.to_vector()) right = right && std::abs(x - 1.5) < 1e-6;
  try {
    headway::attention(query, key.slice(3, 0, 2), value);
    right = false;
  } catch (const headway::Error&) {
  }

  std::cout << "headway " << headway::version() << " on " << headway::instruction_set() << ", "
            << headway::num_threads() << " threads: " << (right ? "right" : "WRONG") << '\n';
  return right ? 0 : 1;
}
