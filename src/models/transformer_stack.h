// An encoder or a decoder: embeddings, positions, blocks, the norm after them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "headway/transformer_model.h"

namespace headway::inline v0::internal {

struct StackInput {
  Tensor tokens = {};    // int64 [batch, length]
  Tensor features = {};  // in the place of tokens
  std::int64_t batch = 0;
  std::int64_t length = 0;  // positions of the stack
  PerEntry lengths = {};
  Mask padding_mask = {};  // [batch, length], or [batch, keys] with a cache
  CumulativeLengths packed = {};
  Tensor token_types = {};  // int64 [batch, length]
  Tensor positions = {};    // int64 [batch, length]
  Tensor memory = {};       // [batch, source_length, width]
  PerEntry memory_lengths = {};
  Mask memory_padding_mask = {};
  ModelCache* cache = nullptr;
  Weights weights = Weights::none;
};

struct StackResult {
  Tensor hidden;  // [batch, length, width]
  std::vector<Tensor> weights;
  std::vector<Tensor> cross_weights;
};

class TransformerStack : public Module {
 public:
  // `shared`: the embedding of all stacks; without one, the stack has its own, unless it reads features.
  TransformerStack(const StackOptions& options, const TransformerModelOptions& model,
                   const std::optional<Embedding>& shared, bool is_decoder, DType dtype);
  StackResult forward(const char* function, const StackInput& input) const;
  // None where it reads features.
  const std::optional<Embedding>& embedding() const;
  const std::vector<TransformerBlock>& layers() const;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace headway::inline v0::internal
