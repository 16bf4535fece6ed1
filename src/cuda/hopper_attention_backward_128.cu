// The Hopper backward's kernels for head dims of 72 to 128.
#include "cuda/hopper_backward_kernel.cuh"

namespace headway::inline v0::internal::cuda {

template void launch_backward<__nv_bfloat16, 128>(const BackwardParameters&, BackwardVariant);
template void launch_backward<__half, 128>(const BackwardParameters&, BackwardVariant);

}  // namespace headway::inline v0::internal::cuda
