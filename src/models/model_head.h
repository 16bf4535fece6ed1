// What is computed from the last hidden states: logits of tokens, of texts, of the ends of an answer.
#pragma once

#include <memory>
#include <optional>

#include "headway/transformer_model.h"

namespace headway::inline v0::internal {

// Parameters: dense.{weight,bias}, norm.{weight,bias}, output.{weight,bias}.
class ModelHead : public Module {
 public:
  // `stack` has the width and the kind of norm; `embedding` is the output's weight where it is tied.
  ModelHead(const HeadOptions& options, const StackOptions& stack, const std::optional<Embedding>& embedding,
            DType dtype);
  // Logits [..., labels] of hidden states [..., width]; where texts are classified, of those that were chosen.
  Tensor forward(const Tensor& hidden) const;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace headway::inline v0::internal
