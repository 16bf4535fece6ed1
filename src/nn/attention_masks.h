// How a layer's masks become attention()'s.
#pragma once

#include <cstdint>

#include "headway/attention.h"

namespace headway::inline v0::internal {

// What the masks of one call have to fit.
struct MaskShape {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t query_length = 0;
  std::int64_t key_length = 0;    // without the extra keys
  std::int64_t extra_keys = 0;    // learned or zero keys after the others, which every query sees
  std::int64_t query_offset = 0;  // the first query's position among the keys
};

struct LayerMasks {
  Mask padding = {};  // [batch, key_length]
  Mask mask = {};     // 2-D, 3-D or 4-D, as MultiHeadAttentionInput says
  Tensor bias = {};   // likewise
  Causal causal = Causal::none;
};

// Sets mask, bias, causal, key_lengths and query_offset of the options; throws where a shape does not fit.
void set_masks(const LayerMasks& masks, const MaskShape& shape, AttentionOptions& options);

}  // namespace headway::inline v0::internal
