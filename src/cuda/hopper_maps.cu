#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/hopper_maps.h"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

PFN_cuTensorMapEncodeTiled_v12000 find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
             "cudaGetDriverEntryPointByVersion");
  check(found == cudaDriverEntryPointSuccess, "cuda: the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

}  // namespace

PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
  static const PFN_cuTensorMapEncodeTiled_v12000 encoder = find_encoder();
  return encoder;
}

cuuint64_t tensor_map_stride(const Tensor& tensor, int dim) {
  return static_cast<cuuint64_t>(tensor.size(dim) == 1 ? (tensor.size(3) + 7) / 8 * 8 : tensor.stride(dim)) * 2;
}

bool fits_tensor_map(const Tensor& tensor) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  if (reinterpret_cast<std::uintptr_t>(tensor.raw_data()) % 16 != 0 || tensor.size(3) % 8 != 0) return false;
  for (int dim = 0; dim < 3; ++dim) {
    if (tensor.size(dim) >= std::int64_t{1} << 31) return false;
    if (tensor.size(dim) == 1) continue;
    const std::int64_t stride = tensor.stride(dim);
    if (stride <= 0 || stride % 8 != 0 || stride * 2 >= kMostBytes) return false;
  }
  return tensor.stride(3) == 1;
}

HopperMap make_tensor_map(const Tensor& tensor, int box_rows, int padded_columns) {
  const auto columns = static_cast<cuuint64_t>(tensor.size(3)),
             chunks = static_cast<cuuint64_t>(padded_columns + 63) / 64;
  const bool is_whole = columns == 64 * chunks;  // then all chunks come at once; else zeros end each row
  const auto rows = static_cast<cuuint64_t>(tensor.size(2)), heads = static_cast<cuuint64_t>(tensor.size(1));
  const cuuint64_t sizes[5] = {is_whole ? 64 : columns, rows, is_whole ? chunks : 1, heads,
                               static_cast<cuuint64_t>(tensor.size(0))};
  const cuuint64_t strides[4] = {tensor_map_stride(tensor, 2), 128, tensor_map_stride(tensor, 1),
                                 tensor_map_stride(tensor, 0)};
  const cuuint32_t box[5] = {64, static_cast<cuuint32_t>(box_rows), static_cast<cuuint32_t>(is_whole ? chunks : 1), 1,
                             1};
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  HopperMap result;
  result.loads = is_whole ? 1 : static_cast<int>(chunks);
  const CUtensorMapDataType type =
      tensor.dtype() == DType::float16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUresult error = tensor_map_encoder()(&result.map, type, 5, tensor.raw_data(), sizes, strides, box, steps,
                                              CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(error == CUDA_SUCCESS, "cuda: cuTensorMapEncodeTiled failed for ", tensor, " with error ",
        static_cast<int>(error));
  return result;
}

}  // namespace headway::inline v0::internal::cuda
