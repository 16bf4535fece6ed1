// Linear, the norms, Embedding, and plain functions.
#include <stdexcept>

#include "conformance/cases.h"
#include "headway/layers.h"
#include "headway/ops.h"
#include "headway/optimizer.h"

namespace headway_test {

using headway::Activation;
using headway::DType;
using headway::Tensor;

namespace {

Activation activation_of(const FixtureOptions& options) {
  if (!options.has("activation")) return Activation::none;
  static const std::map<std::string, Activation> known = {
      {"relu", Activation::relu}, {"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh},
      {"silu", Activation::silu}, {"tanh", Activation::tanh}, {"sigmoid", Activation::sigmoid}};
  return known.at(options.text("activation"));
}

// The function of its own that each activation has.
Tensor activated(const std::string& name, const Tensor& x) {
  if (name == "relu") return headway::relu(x);
  if (name == "gelu") return headway::gelu(x);
  if (name == "gelu_tanh") return headway::gelu(x, headway::Gelu::tanh);
  if (name == "silu") return headway::silu(x);
  if (name == "tanh") return headway::tanh(x);
  if (name == "sigmoid") return headway::sigmoid(x);
  throw std::runtime_error("fixture: no such activation: " + name);
}

headway::CrossEntropyOptions cross_entropy_options(const FixtureOptions& options) {
  static const std::map<std::string, headway::Reduction> reductions = {
      {"mean", headway::Reduction::mean}, {"sum", headway::Reduction::sum}, {"none", headway::Reduction::none}};
  headway::CrossEntropyOptions result;
  result.ignore_index = options.optional_integer("ignore_index").value_or(result.ignore_index);
  result.label_smoothing = options.real("label_smoothing", 0.0);
  result.reduction = reductions.at(options.text("reduction"));
  return result;
}

// The rate of every step from 0 on, as torch counts its schedulers' calls.
Tensor schedule_rates(const FixtureOptions& options) {
  const headway::DecayOptions decay = {.peak = options.real("peak", 0.0),
                                       .steps = options.integer("steps"),
                                       .final_rate = options.real("final_rate", 0.0)};
  const headway::Schedule schedule =
      options.text("schedule") == "cosine" ? headway::cosine_schedule(decay) : headway::linear_schedule(decay);
  std::vector<double> rates = {decay.peak};
  for (std::int64_t step = 1; step <= decay.steps; ++step) rates.push_back(schedule(step));
  return Tensor::from(rates, {decay.steps + 1});
}

// A case with one input and one output.
template <typename Layer>
TorchCase layer_case(const Layer& layer, const std::string& input) {
  return {layer, [layer, input](const TensorMap& in) { return TensorMap{{"output", layer.forward(in.at(input))}}; }};
}

TorchCase function_case(std::function<Tensor(const TensorMap&)> function) {
  return {{}, [function](const TensorMap& in) { return TensorMap{{"output", function(in)}}; }};
}

TorchCase make_layer_case(const FixtureOptions& options, DType dtype) {
  const std::string kind = options.text("kind");
  if (kind == "linear") {
    return layer_case(headway::Linear({.in_features = options.integer("in_features"),
                                       .out_features = options.integer("out_features"),
                                       .bias = options.flag("bias", true),
                                       .activation = activation_of(options),
                                       .dtype = dtype}),
                      "x");
  }
  if (kind == "layer_norm") {
    return layer_case(headway::LayerNorm({.width = options.integer("features"),
                                          .epsilon = options.real("epsilon", 1e-5),
                                          .affine = options.flag("affine", true),
                                          .bias = options.flag("bias", true),
                                          .dtype = dtype}),
                      "x");
  }
  if (kind == "rms_norm") {
    return layer_case(headway::RmsNorm({.width = options.integer("features"),
                                        .epsilon = options.optional_real("epsilon"),
                                        .affine = options.flag("affine", true),
                                        .dtype = dtype}),
                      "x");
  }
  if (kind == "embedding") {
    return layer_case(headway::Embedding({.count = options.integer("count"),
                                          .width = options.integer("features"),
                                          .padding_index = options.optional_integer("padding_index"),
                                          .dtype = dtype}),
                      "indices");
  }
  return {};
}

}  // namespace

TorchCase make_small_case(const FixtureOptions& options, DType dtype) {
  const std::string kind = options.text("kind");
  if (kind == "activation") {
    return function_case(
        [name = options.text("activation")](const TensorMap& in) { return activated(name, in.at("x")); });
  }
  if (kind == "softmax") {
    const int dim = static_cast<int>(options.integer("dim"));
    return function_case([dim, log = options.flag("log")](const TensorMap& in) {
      return log ? headway::log_softmax(in.at("x"), dim) : headway::softmax(in.at("x"), dim);
    });
  }
  if (kind == "matmul") {
    return function_case([](const TensorMap& in) { return headway::matmul(in.at("a"), in.at("b")); });
  }
  if (kind == "cross_entropy") {
    return function_case([chosen = cross_entropy_options(options)](const TensorMap& in) {
      return headway::cross_entropy(in.at("logits"), in.at("targets"), chosen);
    });
  }
  if (kind == "schedule") {
    return function_case([options](const TensorMap&) { return schedule_rates(options); });
  }
  return make_layer_case(options, dtype);
}

}  // namespace headway_test
