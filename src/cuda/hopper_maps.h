// Tensor maps: how bulk copies find a tile of a (batch, heads, rows, columns) tensor of 16-bit elements.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include "headway/tensor.h"

namespace headway::inline v0::internal::cuda {

// A tensor map, and in how many copies a tile goes: 1, or one for each 64 columns where zeros pad the columns.
struct HopperMap {
  CUtensorMap map;
  int loads;
};

// The driver's cuTensorMapEncodeTiled, found at run time so that nothing links to libcuda.
PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder();

// Bytes between neighbours of a dimension of 16-bit elements; a dimension of one has none, and any valid number will
// do.
cuuint64_t tensor_map_stride(const Tensor& tensor, int dim);

// True where bulk copies can go to and from the tensor: 16-byte rows, and no row twice.
bool fits_tensor_map(const Tensor& tensor);

// A map for tiles of `box_rows` rows and `padded_columns` columns, a multiple of 32 that is not below the tensor's. The
// tile is [64-column chunk][row][128 bytes] in shared memory, with the 128-byte swizzle.
HopperMap make_tensor_map(const Tensor& tensor, int box_rows, int padded_columns);

}  // namespace headway::inline v0::internal::cuda
