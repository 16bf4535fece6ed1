// Training steps of Headway's modules on a GPU as a C interface, so that cuda_training_bench.py can time them beside
// PyTorch's in one process, on one stream. On failure, functions return null or a negative number;
// cuda_training_error() has the reason.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guarded.h"
#include "headway/autograd.h"
#include "headway/device.h"
#include "headway/error.h"
#include "headway/multi_head_attention.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "headway/transformer.h"

#define CUDA_TRAINING_API extern "C" __attribute__((visibility("default")))

using headway::CudaStreamGuard;
using headway::Device;
using headway::DType;
using headway::Shape;
using headway::Tensor;

enum CudaTrainingModel : std::int64_t { kAttentionLayer, kTransformer, kEncoder };

// All tensors are bfloat16.
struct CudaTrainingConfig {
  std::int64_t model;  // a CudaTrainingModel
  std::int64_t layers;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t feed_forward;
  std::int64_t batch;
  std::int64_t length;
  std::int64_t weights;  // 1: the attention layer returns its weights too, averaged over heads
  double dropout;
  double learning_rate;
  void* stream;     // a cudaStream_t, not null
  void* source;     // [batch, length, width] on the GPU, read in place: what the layer or the encoder reads
  void* target;     // likewise: what the decoder reads; null without one
  void* direction;  // likewise: the loss is mean(output * direction); the layer's output gets it as its gradient
};

// One model with its inputs and its optimizer.
class CudaTraining {
 public:
  explicit CudaTraining(const CudaTrainingConfig& config)
      : config_(config),
        source_(wrap(config.source, {config.batch, config.length, config.width})),
        direction_(wrap(config.direction, {config.batch, config.length, config.width})) {
    if (config.model == kAttentionLayer) {
      layer_.emplace(headway::MultiHeadAttentionOptions{
          .embed_dim = config.width, .num_heads = config.heads, .dropout = config.dropout, .dtype = DType::bfloat16});
      source_.set_requires_grad(true);
    } else if (config.model == kTransformer) {
      target_ = wrap(config.target, {config.batch, config.length, config.width});
      transformer_.emplace(headway::TransformerOptions{.layer = {.d_model = config.width,
                                                                 .nhead = config.heads,
                                                                 .dim_feedforward = config.feed_forward,
                                                                 .dropout = config.dropout,
                                                                 .dtype = DType::bfloat16},
                                                       .num_encoder_layers = config.layers,
                                                       .num_decoder_layers = config.layers});
    } else {
      encoder_.emplace(headway::TransformerStackOptions{.layer = {.d_model = config.width,
                                                                  .nhead = config.heads,
                                                                  .dim_feedforward = config.feed_forward,
                                                                  .dropout = config.dropout,
                                                                  .dtype = DType::bfloat16},
                                                        .num_layers = config.layers});
    }
    module().to(Device::cuda());
    if (!layer_) {
      optimizer_ = std::make_unique<headway::AdamW>(
          module(), headway::AdamOptions{.learning_rate = config.learning_rate, .master_weights = false});
    }
  }

  // Forward and backward; and AdamW, but for the layer alone.
  void step() {
    forward_backward();
    if (optimizer_) optimizer_->step();
  }

  // The output and the gradients of one forward and backward in evaluation mode; nothing is learned.
  void evaluate() {
    module().eval();
    forward_backward();
    module().train();
  }

  // Replaces a parameter by PyTorch's values.
  void load(const std::string& name, void* values) const {
    Tensor parameter = module().state_dict().at(name);
    const headway::NoGradGuard no_gradients;
    parameter.copy_from(wrap(values, parameter.shape()));
  }

  // Copies the last output ("output"), the source's gradient ("source") or a parameter's out.
  void read(const std::string& name, void* values) const {
    Tensor from;
    if (name == "output") from = output_;
    if (name == "source") from = source_.grad();
    for (const auto& one : module().named_parameters()) {
      if (one.name == name) from = one.tensor.grad();
    }
    if (!from.defined()) throw headway::Error("cuda_training_read: there is no " + name);
    wrap(values, from.shape()).copy_from(from);
  }

  void* stream() const { return config_.stream; }

 private:
  static Tensor wrap(void* data, const Shape& shape) {
    Shape strides = shape;
    std::int64_t stride = 1;
    for (int dim = shape.rank() - 1; dim >= 0; --dim) {
      strides[dim] = stride;
      stride *= shape[dim];
    }
    return Tensor::wrap(data, shape, strides, DType::bfloat16, {}, Device::cuda());
  }

  const headway::Module& module() const {
    if (transformer_) return *transformer_;
    if (encoder_) return *encoder_;
    return *layer_;
  }

  Tensor forward() const {
    if (transformer_) {
      return transformer_->forward({.source = source_, .target = target_, .target_causal = headway::Causal::top_left})
          .output;
    }
    if (encoder_) return encoder_->forward({.source = source_}).output;
    const headway::Weights weights = config_.weights != 0 ? headway::Weights::per_head : headway::Weights::none;
    return layer_->forward({.query = source_, .weights = weights}).output;
  }

  void forward_backward() {
    module().zero_grad();
    if (layer_) source_.set_grad({});
    const Tensor output = forward();
    if (layer_) {
      output.backward(direction_);
    } else {
      headway::mean(headway::mul(output, direction_)).backward();
    }
    output_ = output.detach();
  }

  CudaTrainingConfig config_;
  Tensor source_, target_, direction_, output_;
  std::optional<headway::MultiHeadAttention> layer_;
  std::optional<headway::Transformer> transformer_;
  std::optional<headway::TransformerEncoder> encoder_;
  std::unique_ptr<headway::AdamW> optimizer_;  // none for the layer alone
};

namespace {

// Runs the body on the stream that the model was made with.
template <typename Body>
int on_stream(const CudaTraining* training, const Body& body) {
  return guarded([&] {
    const CudaStreamGuard guard(Device::cuda(), training->stream());
    body();
  });
}

}  // namespace

CUDA_TRAINING_API CudaTraining* cuda_training_create(const CudaTrainingConfig* config) {
  CudaTraining* training = nullptr;
  guarded([&] {
    const CudaStreamGuard guard(Device::cuda(), config->stream);
    training = new CudaTraining(*config);
  });
  return training;
}

CUDA_TRAINING_API int cuda_training_step(CudaTraining* training) {
  return on_stream(training, [&] { training->step(); });
}

CUDA_TRAINING_API int cuda_training_evaluate(CudaTraining* training) {
  return on_stream(training, [&] { training->evaluate(); });
}

CUDA_TRAINING_API int cuda_training_load(const CudaTraining* training, const char* name, void* values) {
  return on_stream(training, [&] { training->load(name, values); });
}

CUDA_TRAINING_API int cuda_training_read(const CudaTraining* training, const char* name, void* values) {
  return on_stream(training, [&] { training->read(name, values); });
}

CUDA_TRAINING_API void cuda_training_destroy(CudaTraining* training) {
  on_stream(training, [&] { delete training; });
}

// The error of this thread's last failed call.
CUDA_TRAINING_API const char* cuda_training_error() { return last_error.c_str(); }
