// How the tensors of a Marian file become the parameters of a TranslationModel, and back.
#pragma once

#include <string>
#include <vector>

#include "headway/tensor.h"
#include "headway/translation_model.h"

namespace headway::inline v0::internal {

// One parameter: its tensors in a file, joined along the first dimension.
struct MarianTensor {
  std::string parameter;            // "encoder.layers.0.self_attn.in_proj_weight"
  std::vector<std::string> pieces;  // "model.encoder.layers.0.self_attn.q_proj.weight", k_proj, v_proj
  Shape piece_shape;
};

// Every parameter but the embedding and the bias of the logits.
std::vector<MarianTensor> marian_layer_tensors(const TranslationModelOptions& options);

}  // namespace headway::inline v0::internal
