// The Hopper backward's kernels for head dims up to 64.
#include "cuda/hopper_backward_kernel.cuh"

namespace headway::inline v0::internal::cuda {

template void launch_backward<__nv_bfloat16, 64>(const BackwardParameters&, BackwardVariant);
template void launch_backward<__half, 64>(const BackwardParameters&, BackwardVariant);

}  // namespace headway::inline v0::internal::cuda
