#include "cuda/kernel_choice.h"

#include <cstdlib>
#include <string_view>

namespace headway::inline v0::internal::cuda {
namespace {

std::string_view kernel_choice() {
  const char* choice = std::getenv("HEADWAY_CUDA_KERNELS");
  return choice ? choice : "";
}

}  // namespace

bool tuned_kernels_wanted() { return kernel_choice() != "portable"; }
bool overlap_wanted() { return kernel_choice().empty(); }

}  // namespace headway::inline v0::internal::cuda
