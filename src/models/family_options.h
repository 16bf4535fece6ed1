// What families have in common when they read a config.json.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/family.h"

namespace headway::inline v0::internal {

// Rotary positions from rope_parameters, which may have an object for each type of layers, or from rope_theta and
// rope_scaling, as older files have them.
struct RotaryDefaults {
  double base = 10000.0;
  std::int64_t head_dim = 0;
  std::int64_t max_length = 0;
  const char* layer_type = "full_attention";  // whose object is read
  const char* base_field = "rope_theta";      // of older files
  bool scaled = true;                         // whether older files' rope_scaling is for this type of layers
};
RotaryPositions read_rotary(const ModelConfig& config, const RotaryDefaults& defaults);

// layer_types of the config, one for each layer; without them those that `otherwise` gives.
std::vector<std::string> read_layer_types(const ModelConfig& config, std::int64_t layers,
                                          const std::function<bool(std::int64_t)>& otherwise_sliding);

// Names of the classes: id2label, or LABEL_0, LABEL_1, ... where there are none.
std::vector<std::string> read_labels(const ModelConfig& config);

// Ids, labels and initial values, which almost all families have alike. `vocab_size` must be set.
struct TokenDefaults {
  std::optional<std::int64_t> bos = {};
  std::optional<std::int64_t> eos = {};
  std::optional<std::int64_t> pad = {};
};
void read_tokens(const ModelConfig& config, const TokenDefaults& defaults, TransformerModelOptions& options);

// The head of classes and of spans: `labels` and the number of outputs; and the vocabulary of a language model.
void set_head_size(const ModelConfig& config, TransformerModelOptions& options);

// `layers` blocks with the same options.
std::vector<BlockOptions> same_layers(std::int64_t layers, const BlockOptions& block);

}  // namespace headway::inline v0::internal
