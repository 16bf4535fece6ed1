// The decoders that are built like Llama: rotary positions, RMS norms, gated feed-forward networks, grouped heads.
#pragma once

#include "models/family_options.h"

namespace headway::inline v0::internal {

// The defaults in which the families differ.
struct LlamaDefaults {
  std::int64_t vocab_size = 32000;
  std::int64_t width = 4096;
  std::int64_t hidden = 11008;
  std::int64_t layers = 32;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;  // 0: width / heads
  std::int64_t max_length = 2048;
  double norm_epsilon = 1e-6;
  bool tied = false;
  const char* activation_field = "hidden_act";
  const char* activation = "silu";
  TokenDefaults tokens = {};
};

// Sizes, norms, feed-forward network and the head; rotary positions and windows are set by set_rotary().
TransformerModelOptions read_llama_layout(const ModelConfig& config, HeadKind kind, const LlamaDefaults& defaults);
// The same rotary positions in every layer.
void set_rotary(const ModelConfig& config, TransformerModelOptions& options);
// A window of the last `length` tokens, in these layers.
void set_window(std::int64_t length, BlockOptions& block);

std::vector<TensorName> llama_names(const TransformerModelOptions& options);
// A family with Llama's names.
Family llama_family(const char* model_type, const char* class_name,
                    TransformerModelOptions (*read)(const ModelConfig&, HeadKind));

}  // namespace headway::inline v0::internal
