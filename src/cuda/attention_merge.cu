// Joining results of attention over different keys: a warp for each row.
#include "backend/attention_merge.h"
#include "cuda/backend.h"
#include "cuda/element.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kMergeThreads = 256, kWarp = 32;

template <typename Part, typename Real>
__global__ void merge_attention_kernel(std::int64_t rows, std::int64_t columns, const Part* parts,
                                       const Real* part_logsumexp, Real* outputs, Real* logsumexp) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (kMergeThreads / kWarp);
  for (std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * kMergeThreads + threadIdx.x) / kWarp; row < rows;
       row += warps) {
    const Real old = logsumexp[row], more = part_logsumexp[row];
    __syncwarp();
    if (more == -static_cast<Real>(INFINITY)) continue;
    const Real largest = ::fmax(old, more);
    const Real sum = largest + ::log(::exp(old - largest) + ::exp(more - largest));
    const Real factor = ::exp(old - sum), part_factor = ::exp(more - sum);
    for (std::int64_t i = row * columns + lane; i < (row + 1) * columns; i += kWarp) {
      const Real kept = factor == 0 ? Real(0) : outputs[i] * factor;
      outputs[i] = kept + static_cast<Real>(to_compute(parts[i])) * part_factor;
    }
    if (lane == 0) logsumexp[row] = sum;
  }
}

template <typename Part, typename Real>
void launch_merge(const AttentionMerge& task) {
  merge_attention_kernel<Part, Real>
      <<<grid_for(task.rows, kMergeThreads / kWarp), kMergeThreads, 0, current_stream()>>>(
          task.rows, task.columns, reinterpret_cast<const Part*>(task.part),
          reinterpret_cast<const Real*>(task.part_logsumexp), reinterpret_cast<Real*>(task.output),
          reinterpret_cast<Real*>(task.logsumexp));
  check_launch("merge_attention_kernel");
}

}  // namespace

void CudaBackend::merge_attention(const AttentionMerge& task) {
  const OnGpu here = on_gpu();
  if (task.rows == 0) return;
  dispatch_elements(task.part_dtype, [&]<typename Part>() {
    if (task.sums_dtype == DType::float64) {
      launch_merge<Part, double>(task);
    } else {
      launch_merge<Part, float>(task);
    }
  });
}

}  // namespace headway::inline v0::internal::cuda
