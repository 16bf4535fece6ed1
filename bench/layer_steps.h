// Headway's layer and Transformer as a C interface, so that layer_bench.py can time their steps beside PyTorch's in one
// process. On failure, functions return null or a negative number; layer_steps_error() has the reason.
#pragma once

#include <cstdint>

#define LAYER_STEPS_API extern "C" __attribute__((visibility("default")))

struct LayerSteps;  // one model with its inputs and its optimizer

// All tensors are float32.
struct LayerStepsConfig {
  std::int64_t layers;  // of the encoder and of the decoder; 0: one MultiHeadAttention alone
  std::int64_t width;   // embed_dim or d_model
  std::int64_t heads;
  std::int64_t feed_forward;  // of the Transformer
  std::int64_t batch;
  std::int64_t length;
  std::int64_t training;  // 1: forward, loss, backward, AdamW; 0: forward in evaluation, without gradients
  std::int64_t weights;   // of the layer alone: 0 none, 1 averaged over heads, 2 one matrix per head
  double dropout;
  double learning_rate;
};

// Each is [batch, length, width], read in place; null makes random ones.
struct LayerStepsInputs {
  float* source;     // what the layer or the encoder reads
  float* target;     // what the decoder reads
  float* direction;  // the loss is mean(output * direction)
};

enum LayerStepsPart { kOutput = 0, kAttentionWeights = 1, kParameter = 2, kGradient = 3 };

LAYER_STEPS_API LayerSteps* layer_steps_create(const LayerStepsConfig* config, const LayerStepsInputs* inputs);
LAYER_STEPS_API void layer_steps_destroy(LayerSteps* steps);

// One step of the kind that the configuration names.
LAYER_STEPS_API int layer_steps_run(LayerSteps* steps);
// The output in evaluation mode without gradients, for layer_steps_read(); nothing is learned.
LAYER_STEPS_API int layer_steps_evaluate(LayerSteps* steps);
// The loss of the last training step.
LAYER_STEPS_API double layer_steps_loss(const LayerSteps* steps);

// Overwrites a parameter, named as in torch's state_dict(), with `count` values.
LAYER_STEPS_API int layer_steps_load(LayerSteps* steps, const char* name, float* values, std::int64_t count);
// Copies a result of the last step out, row-major; the name is that of a parameter where the part needs one.
LAYER_STEPS_API int layer_steps_read(const LayerSteps* steps, int part, const char* name, float* values,
                                     std::int64_t count);

LAYER_STEPS_API int layer_steps_set_threads(int count);
LAYER_STEPS_API double layer_steps_float32_peak(int threads);
LAYER_STEPS_API const char* layer_steps_instruction_set();
LAYER_STEPS_API const char* layer_steps_version();
// The error of this thread's last failed call.
LAYER_STEPS_API const char* layer_steps_error();
