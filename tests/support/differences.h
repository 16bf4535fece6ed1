// Finite differences of the scalar that a set of gradients belongs to.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "headway/attention.h"

namespace headway_test {

// One input that has a gradient: where it sits in the problem and its gradient's values.
struct GradientInput {
  std::string name;
  headway::Tensor* tensor;
  std::vector<double> gradient;
};

// The inputs of `problem` with their gradients, in a fixed order.
inline std::vector<GradientInput> gradient_inputs(headway::AttentionBackward& problem, std::vector<double> query,
                                                  std::vector<double> key, std::vector<double> value,
                                                  std::vector<double> bias, std::vector<double> sinks) {
  std::vector<GradientInput> inputs = {{"query", &problem.query, std::move(query)},
                                       {"key", &problem.key, std::move(key)},
                                       {"value", &problem.value, std::move(value)}};
  if (problem.options.bias.defined() && problem.bias_gradient) {
    inputs.push_back({"bias", &problem.options.bias, std::move(bias)});
  }
  if (problem.options.sinks.defined()) inputs.push_back({"sinks", &problem.options.sinks, std::move(sinks)});
  return inputs;
}

// sum of output * d_output + weights * d_weights + logsumexp * d_logsumexp; what is not finite has no gradient.
inline double objective(const headway::AttentionBackward& problem, const std::vector<double>& output,
                        const std::vector<double>& weights, const std::vector<double>& logsumexp) {
  double sum = 0;
  auto add = [&](const headway::Tensor& gradient, const std::vector<double>& values) {
    if (!gradient.defined()) return;
    const std::vector<double> factors = gradient.to_vector();
    for (std::size_t e = 0; e < values.size(); ++e) {
      if (std::isfinite(values[e])) sum += factors[e] * values[e];
    }
  };
  add(problem.d_output, output);
  add(problem.d_weights, weights);
  add(problem.d_logsumexp, logsumexp);
  return sum;
}

// The derivative of `evaluate` along a random direction of `input`, by central differences, and the same from the
// gradient. Infinite elements stay as they are.
struct Directional {
  double by_difference, by_gradient;
};
inline Directional directional_derivative(const GradientInput& input, std::uint64_t seed,
                                          const std::function<double()>& evaluate) {
  constexpr double kStep = 1e-5;
  const headway::Tensor original = *input.tensor;
  const headway::Tensor direction = headway::Tensor::randn(original.shape(), seed, headway::DType::float64);
  const std::vector<double> values = original.to_vector(), steps = direction.to_vector();
  auto moved = [&](double factor) {
    std::vector<double> result = values;
    for (std::size_t e = 0; e < result.size(); ++e) result[e] += factor * steps[e];
    *input.tensor = headway::Tensor::from(result, original.shape());
    const double value = evaluate();
    *input.tensor = original;
    return value;
  };
  Directional result = {(moved(kStep) - moved(-kStep)) / (2 * kStep), 0};
  for (std::size_t e = 0; e < steps.size(); ++e) result.by_gradient += steps[e] * input.gradient[e];
  return result;
}

}  // namespace headway_test
