// HEADWAY_CUDA_KERNELS, for tests and comparisons: `portable` leaves the tuned kernels out; `apart` lets no kernel of a
// step start before the one before it has ended.
#pragma once

namespace headway::inline v0::internal::cuda {

bool tuned_kernels_wanted();
bool overlap_wanted();

}  // namespace headway::inline v0::internal::cuda
