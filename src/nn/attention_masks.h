// How a layer's lengths and masks become attention()'s.
#pragma once

#include <cstdint>

#include "base/internal_api.h"
#include "headway/attention.h"

namespace headway::inline v0::internal {

// The sizes that the masks of one call must match.
struct MaskShape {
  const char* function = "MultiHeadAttention";  // in messages
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t query_length = 0;
  std::int64_t key_length = 0;    // without the extra keys
  std::int64_t extra_keys = 0;    // learned or zero keys before the others, which every query sees
  std::int64_t query_offset = 0;  // the first query's position among the keys
  DType dtype = DType::float32;   // the query's
  Device device = Device::cpu();  // the query's
};

struct LayerMasks {
  PerEntry key_lengths = {};
  Mask padding = {};  // [batch, key_length]
  Mask mask = {};     // [query_length, key_length], or four dimensions that broadcast
  Tensor bias = {};   // likewise
  Causal causal = Causal::none;
};

// Sets mask, bias, causal, key_lengths and query_offset of the options; throws where a shape does not fit.
void set_masks(const LayerMasks& masks, const MaskShape& shape, AttentionOptions& options);

// Brings lengths and a padding mask to the host, once for all layers of a stack: attention() reads them there, and
// a copy for each layer would wait for the device each time.
HEADWAY_INTERNAL_API void bring_to_host(PerEntry& lengths, Mask& padding);

// Lengths on the host, each from 0 to `most`; throws in the function's name where one is not, or where their number is
// neither one nor the batch. Undefined ones stay undefined.
HEADWAY_INTERNAL_API PerEntry checked_lengths(const char* function, const char* argument, const PerEntry& lengths,
                                              std::int64_t batch, std::int64_t most);

}  // namespace headway::inline v0::internal
