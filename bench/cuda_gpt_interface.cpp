// Training a GPT of Headway's on a GPU as a C interface, so that cuda_gpt_bench.py can time it beside PyTorch in one
// process. On failure, functions return null or a negative number; cuda_gpt_error() has the reason.
#include <cstdint>
#include <optional>
#include <string>

#include "guarded.h"
#include "headway/autograd.h"
#include "headway/device.h"
#include "headway/ops.h"
#include "headway/training.h"
#include "headway/transformer_model.h"

#define CUDA_GPT_API extern "C" __attribute__((visibility("default")))

using headway::Device;
using headway::DType;
using headway::Tensor;

struct CudaGptConfig {
  const char* config;  // the text of a config.json
  std::int64_t batch;
  std::int64_t length;
  double learning_rate;
  double weight_decay;
  double clip_norm;
};

// Steps of training.
struct CudaGptSteps {
  const std::int64_t* tokens;  // [batches, batch, length + 1]; step s takes batch s % batches
  std::int64_t batches;
  std::int64_t steps;
  double loss;  // the result: of the last step
};

// A model in bfloat16, its optimizer with float32 weights.
class CudaGpt {
 public:
  explicit CudaGpt(const CudaGptConfig& config)
      : config_(config), model_(headway::TransformerModel::from_config(config.config, DType::bfloat16)) {
    model_.to(Device::cuda());
    optimizer_.emplace(model_,
                       headway::AdamOptions{
                           .learning_rate = config.learning_rate, .beta2 = 0.99, .weight_decay = config.weight_decay});
  }

  // The loss of one batch [batch, length + 1] in evaluation mode.
  double evaluate(const std::int64_t* tokens) const {
    const headway::NoGradGuard no_gradients;
    model_.eval();
    const double loss = loss_of(tokens).item();
    model_.train();
    return loss;
  }

  double train(const CudaGptSteps& steps) {
    const std::int64_t values = config_.batch * (config_.length + 1);
    const auto loss = [&](const headway::BatchPosition& position) {
      return headway::BatchLoss{.loss = loss_of(steps.tokens + position.index % steps.batches * values),
                                .tokens = config_.batch * config_.length};
    };
    return headway::train(model_, *optimizer_, headway::constant_schedule(config_.learning_rate), loss,
                          {.steps = steps.steps, .clip_norm = config_.clip_norm})
        .loss;
  }

  // Replaces a parameter by float32 values on the CPU.
  void load(const std::string& name, void* values) const {
    const headway::NoGradGuard no_gradients;
    Tensor parameter = model_.state_dict().at(name);
    parameter.copy_from(Tensor::wrap(values, parameter.shape(), DType::float32).to(parameter.dtype()));
  }

 private:
  Tensor loss_of(const std::int64_t* tokens) const {
    const std::int64_t batch = config_.batch, length = config_.length;
    const Tensor all = Tensor::wrap(tokens, {batch, length + 1});
    const Tensor logits = model_.forward({.tokens = all.slice(1, 0, length).contiguous()}).logits;
    return headway::cross_entropy(logits, all.slice(1, 1, length + 1).contiguous().to(logits.device()));
  }

  CudaGptConfig config_;
  headway::TransformerModel model_;
  std::optional<headway::AdamW> optimizer_;
};

CUDA_GPT_API CudaGpt* cuda_gpt_create(const CudaGptConfig* config) {
  CudaGpt* made = nullptr;
  guarded([&] { made = new CudaGpt(*config); });
  return made;
}

CUDA_GPT_API int cuda_gpt_load(const CudaGpt* gpt, const char* name, void* values) {
  return guarded([&] { gpt->load(name, values); });
}

CUDA_GPT_API int cuda_gpt_evaluate(const CudaGpt* gpt, const std::int64_t* tokens, double* loss) {
  return guarded([&] { *loss = gpt->evaluate(tokens); });
}

CUDA_GPT_API int cuda_gpt_train(CudaGpt* gpt, CudaGptSteps* steps) {
  return guarded([&] { steps->loss = gpt->train(*steps); });
}

CUDA_GPT_API void cuda_gpt_destroy(CudaGpt* gpt) { delete gpt; }

CUDA_GPT_API const char* cuda_gpt_error() { return last_error.c_str(); }
