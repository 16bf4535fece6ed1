// The Hopper backward's kernels for head dims of 136 to 256.
#include "cuda/hopper_backward_kernel.cuh"

namespace headway::inline v0::internal::cuda {

template void launch_backward<__nv_bfloat16, 256>(const BackwardParameters&, BackwardVariant);
template void launch_backward<__half, 256>(const BackwardParameters&, BackwardVariant);

}  // namespace headway::inline v0::internal::cuda
