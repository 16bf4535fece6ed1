// GPT-2's decoder, which is a family by itself and a part of others.
#pragma once

#include <string>
#include <vector>

#include "models/family_options.h"

namespace headway::inline v0::internal {

// Vocabulary, ids, the decoder (with cross-attention where the config adds it) and its initial values; not the head.
void read_gpt2_decoder(const ModelConfig& config, TransformerModelOptions& options);
// The names of its tensors, which begin with `prefix`; not the head's.
std::vector<TensorName> gpt2_decoder_names(const std::string& prefix);

}  // namespace headway::inline v0::internal
