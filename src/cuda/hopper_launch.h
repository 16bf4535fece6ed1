// One call of the forward on Hopper, between the choice of its rules and that of its tiles.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "backend/attention_problem.h"
#include "cuda/hopper_schedule.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {

// A call with everything that does not depend on the tiles.
struct ForwardCall {
  const AttentionProblem& problem;
  const AttentionResult& result;
  std::vector<HopperSequence> sequences;  // of the problem
  int rule_set = rules::kPlain;
  bool is_short = false;
  ForwardParams params;         // without maps, tiles and counter
  unsigned* counter = nullptr;  // 0
};

// Starts a kernel that calls cudaGridDependencySynchronize() before anything else: its blocks may come to their places
// while the last ones of the stream's kernel before still run, where that one lets them.
template <typename... Parameters>
void launch_early(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, std::size_t shared_bytes,
                  const Parameters&... parameters) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = current_stream();
  config.attrs = &attribute;
  config.numAttrs = 1;
  check_cuda(cudaLaunchKernelEx(&config, kernel, parameters...), "cudaLaunchKernelEx");
}

// Starts the kernel for elements T and a padded dimension; defined for T = bfloat16 and float16 in the files of the
// dimensions.
template <typename T, int kDim>
void launch_forward(const ForwardCall& call);

}  // namespace headway::inline v0::internal::cuda
