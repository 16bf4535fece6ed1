// The products of a decoding step.
#include <cstdint>

#include "cuda/activation.cuh"
#include "cuda/backend.h"
#include "cuda/element.cuh"
#include "cuda/kernel_choice.h"
#include "cuda/launch.h"
#include "cuda/step_product.h"

namespace headway::inline v0::internal::cuda {
namespace {

// activation(first half of a row) * second half: y (rows, 2 * results) -> (rows, results).
template <typename T>
struct GateArguments {
  const T* y;
  T* result;
  std::int64_t rows, results;
  Activation activation;
};
template <typename T>
__global__ void gate_kernel(const __grid_constant__ GateArguments<T> a) {
  constexpr std::int64_t kThreads = 256;
  const std::int64_t step = gridDim.x * kThreads;
  for (std::int64_t i = blockIdx.x * kThreads + threadIdx.x; i < a.rows * a.results; i += step) {
    const T* y = a.y + i / a.results * 2 * a.results + i % a.results;
    a.result[i] = from_compute<T>(activated(a.activation, to_compute(y[0])) * to_compute(y[a.results]));
  }
}

Matrix dense_matrix(const Tensor& tensor) {
  return {.data = static_cast<std::byte*>(tensor.raw_data()),
          .row_stride = tensor.stride(0),
          .column_stride = 1,
          .dtype = tensor.dtype()};
}

}  // namespace

void CudaBackend::linear_step(const LinearStep& task) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = task.x.size(0), outputs = task.weight.size(0);
  if (rows == 0 || task.result.size(1) == 0) return;
  if (task.x.size(1) > 0 && tuned_kernels_wanted() && product_in_one_pass(task)) return;

  const DType dtype = task.x.dtype();
  Tensor x = task.x;
  if (task.norm.kind != StepNorm::none) {
    x = Tensor::empty(task.x.shape(), dtype, task.x.device());
    const DType statistics = dtype == DType::float64 ? DType::float64 : DType::float32;
    NormResult result = {.y = x, .mean = {}, .inverse = Tensor::empty({rows}, statistics, x.device())};
    if (task.norm.kind == StepNorm::layer) result.mean = Tensor::empty({rows}, statistics, x.device());
    norm(task.x.contiguous(), task.norm.weight, task.norm.bias, task.norm.epsilon, result);
  }
  const Tensor y = task.gated ? Tensor::empty({rows, outputs}, dtype, x.device()) : task.result;
  // What is added may be the result itself: then the product adds to it, where it does so in one rounding.
  const bool accumulates = task.added.defined();
  const Tensor sums = accumulates ? Tensor::empty({rows, outputs}, dtype, x.device()) : y;
  MatmulProblem problem = {.rows = rows, .columns = outputs, .depth = x.size(1)};
  problem.a = dense_matrix(x);
  problem.b = {.data = static_cast<std::byte*>(task.weight.raw_data()),
               .row_stride = 1,
               .column_stride = task.weight.stride(0),
               .dtype = dtype};
  problem.result = dense_matrix(sums);
  if (task.bias.defined()) problem.bias = static_cast<const std::byte*>(task.bias.raw_data());
  if (!task.gated) problem.activation = task.activation;
  matmul(problem);
  if (accumulates) {
    binary({.operation = Binary::add,
            .dtype = dtype,
            .columns = rows * outputs,
            .a = static_cast<const std::byte*>(task.added.raw_data()),
            .b = static_cast<const std::byte*>(sums.raw_data()),
            .result = static_cast<std::byte*>(task.result.raw_data())});
  }
  if (!task.gated) return;
  dispatch_elements(dtype, [&]<typename T>() {
    const GateArguments<T> a = {static_cast<const T*>(y.raw_data()), static_cast<T*>(task.result.raw_data()), rows,
                                task.result.size(1), task.activation};
    gate_kernel<T><<<grid_for(rows * a.results, 256), 256, 0, current_stream()>>>(a);
    check_launch("gate_kernel");
  });
}

}  // namespace headway::inline v0::internal::cuda
