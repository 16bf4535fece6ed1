// How the parameters of a model begin.
#pragma once

#include "headway/transformer_model.h"

namespace headway::inline v0::internal {

// Draws all parameters by options.initial_values, from the process's stream of seeds: as Hugging Face's transformers
// does it for the family.
void set_initial_values(const Module& model, const TransformerModelOptions& options);

}  // namespace headway::inline v0::internal
