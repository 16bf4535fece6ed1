// The checks of a model's input, and its stacks' share of it.
#pragma once

#include "models/text_rows.h"
#include "models/transformer_stack.h"

namespace headway::inline v0::internal {

// The names that messages have for the parts of one text input.
struct TextNames {
  const char* tokens = "tokens";
  const char* lengths = "lengths";
  const char* padding_mask = "padding_mask";
};

// One stack's share of a call, checked and on the CPU. `cached`: tokens before these.
StackInput checked_text(const char* function, const TextNames& names, const Tensor& tokens, const PerEntry& lengths,
                        const Mask& padding_mask, const TransformerModelOptions& options, std::int64_t cached);

// The share of the stack that reads ModelInput::tokens.
StackInput checked_tokens(const char* function, const ModelInput& input, const TransformerModelOptions& options,
                          const StackOptions& stack, std::int64_t cached);

TextRows rows_of(const StackInput& input);

// The stack's forward pass; also of packed texts whose scores have a bias.
StackResult run_stack(const TransformerStack& stack, const StackOptions& options, const char* function,
                      const StackInput& input);

}  // namespace headway::inline v0::internal
