// Softmax and its logarithm over rows, forward and backward.
#include "cuda/backend.h"
#include "cuda/reduce.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

// Rows of x (rows, classes) -> y (rows, classes). A row of -infinity alone, or with +infinity or NaN in it, gives NaN.
template <typename T, bool kLogarithm, int kTeam, int kPack>
__global__ void softmax_kernel(const T* x, std::int64_t rows, std::int64_t classes, T* y) {
  using Real = Compute<T>;
  for (std::int64_t row = first_row<kTeam>(); row < rows; row += row_step<kTeam>()) {
    const T* from = x + row * classes;
    T* to = y + row * classes;
    const PowerSum<Real> powers = power_sum_row<kTeam, kPack>(from, classes);
    const Real logarithm = ::log(powers.sum), inverse = 1 / powers.sum;
    for_each_pack<kTeam, kPack>(classes, [&](std::int64_t i) {
      auto v = load_values<kPack>(from + i);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const Real distance = v[j] - powers.largest;
        v[j] = kLogarithm ? distance - logarithm : ::exp(distance) * inverse;
      }
      store_values<kPack>(v, to + i);
    });
  }
}

// Softmax: d_x = y (d_y - sum of d_y y). Its logarithm: d_x = d_y - exp(y) * sum of d_y. All are (rows, classes); d_x
// may be d_y: a thread reads what it writes.
template <typename T, bool kLogarithm, int kTeam, int kPack>
__global__ void softmax_backward_kernel(const T* y, const T* d_y, std::int64_t rows, std::int64_t classes, T* d_x) {
  using Real = Compute<T>;
  for (std::int64_t row = first_row<kTeam>(); row < rows; row += row_step<kTeam>()) {
    const std::int64_t first = row * classes;
    const Real sum = sum_row<Real, kTeam, kPack>(classes, [&](std::int64_t i) {
      const auto p = load_values<kPack>(y + first + i), d = load_values<kPack>(d_y + first + i);
      Real part = 0;
#pragma unroll
      for (int j = 0; j < kPack; ++j) part += kLogarithm ? d[j] : p[j] * d[j];
      return part;
    });
    for_each_pack<kTeam, kPack>(classes, [&](std::int64_t i) {
      const auto p = load_values<kPack>(y + first + i);
      auto d = load_values<kPack>(d_y + first + i);
#pragma unroll
      for (int j = 0; j < kPack; ++j) d[j] = kLogarithm ? d[j] - ::exp(p[j]) * sum : p[j] * (d[j] - sum);
      store_values<kPack>(d, d_x + first + i);
    });
  }
}

// Calls f.template operator()<kLogarithm>().
template <typename Function>
void dispatch_kind(SoftmaxKind kind, const Function& f) {
  if (kind == SoftmaxKind::logarithm) return f.template operator()<true>();
  return f.template operator()<false>();
}

}  // namespace

void CudaBackend::softmax(SoftmaxKind kind, const Tensor& x, const Tensor& y) {
  const OnGpu here = on_gpu();
  if (x.element_count() == 0) return;
  const std::int64_t classes = x.size(-1), rows = x.element_count() / classes;
  dispatch_elements(x.dtype(), [&]<typename T>() {
    const T* from = static_cast<const T*>(x.raw_data());
    T* to = static_cast<T*>(y.raw_data());
    with_team<T>(classes, {from, to}, [&]<int kTeam, int kPack>() {
      dispatch_kind(kind, [&]<bool kLogarithm>() {
        softmax_kernel<T, kLogarithm, kTeam, kPack>
            <<<row_blocks<kTeam>(rows), kRowThreads, 0, current_stream()>>>(from, rows, classes, to);
        check_launch("softmax_kernel");
      });
    });
  });
}

void CudaBackend::softmax_backward(SoftmaxKind kind, const Tensor& y, const Tensor& d_y, const Tensor& d_x) {
  const OnGpu here = on_gpu();
  if (y.element_count() == 0) return;
  const std::int64_t classes = y.size(-1), rows = y.element_count() / classes;
  dispatch_elements(y.dtype(), [&]<typename T>() {
    const T* output = static_cast<const T*>(y.raw_data());
    const T* d_output = static_cast<const T*>(d_y.raw_data());
    T* to = static_cast<T*>(d_x.raw_data());
    with_team<T>(classes, {output, d_output, to}, [&]<int kTeam, int kPack>() {
      dispatch_kind(kind, [&]<bool kLogarithm>() {
        softmax_backward_kernel<T, kLogarithm, kTeam, kPack>
            <<<row_blocks<kTeam>(rows), kRowThreads, 0, current_stream()>>>(output, d_output, rows, classes, to);
        check_launch("softmax_backward_kernel");
      });
    });
  });
}

}  // namespace headway::inline v0::internal::cuda
