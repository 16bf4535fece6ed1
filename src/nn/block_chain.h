// Blocks one after the other: the last sum of a block and the norm that the next one begins with are one pass.
#pragma once

#include "base/internal_api.h"
#include "headway/transformer_block.h"
#include "nn/block_norm.h"

namespace headway::inline v0::internal {

// What a block gets from the one before it and leaves for the one after it.
struct BlockLink {
  Tensor normed = {};  // the block's first norm of its input, then `next` of its output; undefined: unknown
  const BlockNorm* next = nullptr;  // the norm that follows; null: none
};

struct ChainedBlock {
  // The norm that the block begins with; null where it has none.
  HEADWAY_INTERNAL_API static const BlockNorm* first_norm(const TransformerBlock& block);
  HEADWAY_INTERNAL_API static BlockResult forward(const TransformerBlock& block, const BlockInput& input,
                                                  BlockLink& link);
};

}  // namespace headway::inline v0::internal
