#include "layer_steps.h"

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "guarded.h"
#include "headway/autograd.h"
#include "headway/info.h"
#include "headway/multi_head_attention.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "headway/threads.h"
#include "headway/transformer.h"
#include "peak.h"

namespace {

using headway::Tensor;

struct Result {
  Tensor output;   // [batch, length, width]
  Tensor weights;  // [batch, length, length] or [batch, heads, length, length]; the layer's, on request
};

// A user's tensor in place, or a random one.
Tensor input_tensor(float* values, const headway::Shape& shape, std::uint64_t seed) {
  return values ? Tensor::wrap(values, shape, headway::DType::float32) : Tensor::randn(shape, seed);
}

}  // namespace

struct LayerSteps {
  LayerSteps(const LayerStepsConfig& asked, const LayerStepsInputs& inputs) : config(asked) {
    const headway::Shape shape = {config.batch, config.length, config.width};
    source = input_tensor(inputs.source, shape, 1);
    if (config.layers > 0) target = input_tensor(inputs.target, shape, 2);
    if (config.layers > 0) {
      transformer.emplace(headway::TransformerOptions{.layer = {.d_model = config.width,
                                                                .nhead = config.heads,
                                                                .dim_feedforward = config.feed_forward,
                                                                .dropout = config.dropout},
                                                      .num_encoder_layers = config.layers,
                                                      .num_decoder_layers = config.layers});
    } else {
      layer.emplace(headway::MultiHeadAttentionOptions{
          .embed_dim = config.width, .num_heads = config.heads, .dropout = config.dropout});
    }
    module().train(config.training != 0);
    if (config.training == 0) return;
    direction = input_tensor(inputs.direction, shape, 3);
    optimizer = std::make_unique<headway::AdamW>(module(), headway::AdamOptions{.learning_rate = config.learning_rate});
  }

  const headway::Module& module() const {
    if (transformer) return *transformer;
    return *layer;
  }

  Result forward() const {
    if (transformer) {
      return {
          transformer->forward({.source = source, .target = target, .target_causal = headway::Causal::top_left}).output,
          {}};
    }
    constexpr headway::Weights kWeights[] = {headway::Weights::none, headway::Weights::mean,
                                             headway::Weights::per_head};
    auto [output, weights] = layer->forward({.query = source, .weights = kWeights[config.weights]});
    return {output, weights};
  }

  void train_step() {
    optimizer->zero_grad();
    result = forward();
    const Tensor loss_tensor = headway::mean(headway::mul(result.output, direction));
    loss_tensor.backward();
    optimizer->step();
    loss = loss_tensor.item();
    result = {result.output.detach(), result.weights.defined() ? result.weights.detach() : Tensor()};
  }

  void evaluate() {
    const headway::NoGradGuard no_gradients;
    result = forward();
  }

  Tensor parameter(const std::string& name) const {
    const auto state = module().state_dict();
    const auto found = state.find(name);
    if (found == state.end()) throw std::runtime_error("the model has no parameter " + name);
    return found->second;
  }

  Tensor gradient(const std::string& name) const {
    for (const auto& one : module().named_parameters()) {
      if (one.name == name) return one.tensor.grad();
    }
    throw std::runtime_error("the model has no parameter " + name);
  }

  LayerStepsConfig config;
  Tensor source;
  Tensor target;
  Tensor direction;
  std::optional<headway::MultiHeadAttention> layer;
  std::optional<headway::Transformer> transformer;
  std::unique_ptr<headway::AdamW> optimizer;  // none for inference
  Result result;
  double loss = 0;
};

LayerSteps* layer_steps_create(const LayerStepsConfig* config, const LayerStepsInputs* inputs) {
  LayerSteps* steps = nullptr;
  guarded([&] { steps = new LayerSteps(*config, *inputs); });
  return steps;
}

void layer_steps_destroy(LayerSteps* steps) { delete steps; }

int layer_steps_run(LayerSteps* steps) {
  return guarded([&] {
    if (steps->optimizer) {
      steps->train_step();
    } else {
      steps->evaluate();
    }
  });
}

int layer_steps_evaluate(LayerSteps* steps) {
  return guarded([&] {
    const bool training = steps->module().is_training();
    steps->module().eval();
    steps->evaluate();
    steps->module().train(training);
  });
}

double layer_steps_loss(const LayerSteps* steps) { return steps->loss; }

int layer_steps_load(LayerSteps* steps, const char* name, float* values, std::int64_t count) {
  return guarded([&] {
    Tensor parameter = steps->parameter(name);
    if (parameter.element_count() != count) throw std::runtime_error(std::string(name) + " has another size");
    const headway::NoGradGuard no_gradients;
    parameter.copy_from(Tensor::wrap(values, parameter.shape(), headway::DType::float32));
  });
}

int layer_steps_read(const LayerSteps* steps, int part, const char* name, float* values, std::int64_t count) {
  return guarded([&] {
    Tensor from;
    if (part == kOutput) from = steps->result.output;
    if (part == kAttentionWeights) from = steps->result.weights;
    if (part == kParameter) from = steps->parameter(name);
    if (part == kGradient) from = steps->gradient(name);
    if (!from.defined()) throw std::runtime_error("there is nothing to read yet");
    if (from.element_count() != count) throw std::runtime_error("what is read is " + from.describe());
    const headway::NoGradGuard no_gradients;
    Tensor::wrap(values, from.shape(), headway::DType::float32).copy_from(from);
  });
}

int layer_steps_set_threads(int count) {
  return guarded([&] { headway::set_num_threads(count); });
}

double layer_steps_float32_peak(int threads) { return bench::float32_peak(threads); }

const char* layer_steps_instruction_set() {
  static const std::string name = headway::instruction_set();
  return name.c_str();
}

const char* layer_steps_version() {
  static const std::string text = headway::version();
  return text.c_str();
}

const char* layer_steps_error() { return last_error.c_str(); }
