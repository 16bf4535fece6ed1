// What the config.json of a model with weights in 8 bits says beside that of the same model in floating numbers.
#pragma once

#include "models/model_config.h"

namespace headway::inline v0::internal {

// Whether the config is that of a directory in 8 bits, which save() has written. Throws where it names another method.
bool is_quantized(const ModelConfig& config);
// The same config of a model in floating numbers.
ModelConfig without_quantization(const ModelConfig& config);

}  // namespace headway::inline v0::internal
