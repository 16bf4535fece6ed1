#include "cuda/hopper_launch.cuh"

namespace headway::inline v0::internal::cuda {

template void launch_forward<__nv_bfloat16, 64>(const ForwardCall& call);
template void launch_forward<__half, 64>(const ForwardCall& call);

}  // namespace headway::inline v0::internal::cuda
