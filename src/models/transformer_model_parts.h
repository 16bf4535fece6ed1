// What a TransformerModel consists of, and how one is made.
#pragma once

#include <optional>
#include <string>

#include "headway/transformer_model.h"
#include "models/model_head.h"
#include "models/transformer_stack.h"

namespace headway::inline v0 {

struct TransformerModel::Parts {
  TransformerModelOptions options;
  std::string family;                  // model_type of the config
  std::string config;                  // the text of config.json
  std::string generation_config;       // the text of generation_config.json; empty where there is none
  std::optional<Embedding> embedding;  // of all stacks that read tokens; none where the embeddings are separate
  std::optional<internal::TransformerStack> encoder;
  std::optional<internal::TransformerStack> decoder;
  std::optional<Linear> memory_projection;
  std::optional<Linear> pooler;
  std::optional<internal::ModelHead> head;
};

namespace internal {

// A model in training mode. Without initial values its parameters are uninitialised memory that is never written, until
// set_parameter() replaces them.
TransformerModel make_transformer_model(const TransformerModelOptions& options, std::string family, std::string config,
                                        std::string generation_config, DType dtype, bool with_initial_values);

}  // namespace internal
}  // namespace headway::inline v0
