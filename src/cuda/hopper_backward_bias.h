// The gradient of a bias on Hopper's tensor cores.
#pragma once

#include <cuda.h>

#include "cuda/hopper_backward_work.cuh"
#include "headway/dtype.h"

namespace headway::inline v0::internal::cuda {

struct BiasGradient {
  CUtensorMap key, value;              // copies of 64 rows and 64 columns
  float* data = nullptr;               // (batch, heads, query_length, key_length)
  int batch = 1, heads = 1;            // 1 where the bias is broadcast
  int query_tiles = 0, key_tiles = 0;  // chosen by the launch, as are the splits
  int splits = 1;                      // parts of the heads that are summed up on their own
};

// gradient.data = dS, summed over the heads and batch entries that share a plane of the bias, in a fixed order. p: of
// BackwardRules::bias, its statistics of rows computed.
void add_up_bias_gradient(const BackwardParameters& p, BiasGradient gradient, DType dtype, int dim);

}  // namespace headway::inline v0::internal::cuda
