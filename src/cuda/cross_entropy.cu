// Cross entropy of rows of logits, forward and backward.
#include "cuda/backend.h"
#include "cuda/reduce.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

template <typename T>
struct CrossEntropyCall {
  std::int64_t rows;
  std::int64_t classes;
  double smoothing;
  const T* logits;              // (rows, classes)
  const std::int64_t* targets;  // (rows); negative: the row is ignored
  Compute<T>* logsumexp;        // (rows); unchanged where a row is ignored
};

template <typename T>
CrossEntropyCall<T> call_of(const CrossEntropyRows& rows) {
  return {rows.targets.element_count(),
          rows.logits.size(-1),
          rows.smoothing,
          static_cast<const T*>(rows.logits.raw_data()),
          static_cast<const std::int64_t*>(rows.targets.raw_data()),
          static_cast<Compute<T>*>(rows.logsumexp.raw_data())};
}

// losses (rows): -(1 - smoothing) log p[target] - smoothing * mean(log p), with log p = x - logsumexp.
template <typename T, int kTeam, int kPack>
__global__ void cross_entropy_kernel(CrossEntropyCall<T> call, double* losses) {
  using Real = Compute<T>;
  const std::int64_t n = call.classes;
  for (std::int64_t row = first_row<kTeam>(); row < call.rows; row += row_step<kTeam>()) {
    const std::int64_t target = call.targets[row];
    if (target < 0) {
      if (team_rank<kTeam>() == 0) losses[row] = 0;
      continue;
    }
    const T* x = call.logits + row * n;
    const PowerSum<Real> powers = power_sum_row<kTeam, kPack>(x, n);
    const Real logarithm = ::log(powers.sum);
    double loss = -(static_cast<double>(to_compute(x[target]) - powers.largest) - logarithm);
    if (call.smoothing != 0) {
      const Real distances = sum_row<Real, kTeam, kPack>(n, [&](std::int64_t i) {
        const auto v = load_values<kPack>(x + i);
        Real sum = 0;
#pragma unroll
        for (int j = 0; j < kPack; ++j) sum += v[j] - powers.largest;
        return sum;
      });
      const double of_all = logarithm - static_cast<double>(distances) / static_cast<double>(n);
      loss = (1 - call.smoothing) * loss + call.smoothing * of_all;
    }
    if (team_rank<kTeam>() == 0) {
      call.logsumexp[row] = powers.largest + logarithm;
      losses[row] = loss;
    }
  }
}

// target (rows) = losses (rows).
template <typename Real>
__global__ void store_losses_kernel(const double* losses, std::int64_t rows, Real* target) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
    target[row] = static_cast<Real>(losses[row]);
  }
}

// One block: target (1) = factor * the sum of losses (rows).
template <typename Real>
__global__ void sum_losses_kernel(const double* losses, std::int64_t rows, double factor, Real* target) {
  const double sum = sum_row<double, kRowThreads, 1>(rows, [&](std::int64_t row) { return losses[row]; });
  if (threadIdx.x == 0) *target = static_cast<Real>(sum * factor);
}

// d_logits (rows, classes) = (softmax - target distribution) * d_loss * factor, and zero where a row is ignored.
// d_loss (rows), or (1) for all of them.
template <typename T, int kTeam, int kPack>
__global__ void cross_entropy_backward_kernel(CrossEntropyCall<T> call, const Compute<T>* d_loss, bool one_d_loss,
                                              double factor, T* d_logits) {
  using Real = Compute<T>;
  const std::int64_t n = call.classes;
  const Real spread = static_cast<Real>(call.smoothing / static_cast<double>(n));
  const Real of_target = static_cast<Real>(1 - call.smoothing);
  for (std::int64_t row = first_row<kTeam>(); row < call.rows; row += row_step<kTeam>()) {
    const std::int64_t target = call.targets[row];
    const bool counts = target >= 0;
    const Real logsumexp = counts ? call.logsumexp[row] : Real(0);
    const Real scale = static_cast<Real>(static_cast<double>(d_loss[one_d_loss ? 0 : row]) * factor);
    for_each_pack<kTeam, kPack>(n, [&](std::int64_t i) {
      auto v = load_values<kPack>(call.logits + row * n + i);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const Real p = ::exp(v[j] - logsumexp);
        const Real share = i + j == target ? of_target : Real(0);
        v[j] = counts ? (p - share - spread) * scale : Real(0);
      }
      store_values<kPack>(v, d_logits + row * n + i);
    });
  }
}

}  // namespace

void CudaBackend::cross_entropy(const CrossEntropyRows& rows, double factor, bool per_row, const Tensor& loss) {
  const OnGpu here = on_gpu();
  dispatch_elements(rows.logits.dtype(), [&]<typename T>() {
    const CrossEntropyCall<T> call = call_of<T>(rows);
    const DeviceBuffer buffer(static_cast<std::size_t>(call.rows) * sizeof(double));
    double* losses = buffer.template as<double>();  // (rows)
    Compute<T>* target = static_cast<Compute<T>*>(loss.raw_data());
    if (call.rows > 0) {
      with_team<T>(call.classes, {call.logits}, [&]<int kTeam, int kPack>() {
        cross_entropy_kernel<T, kTeam, kPack>
            <<<row_blocks<kTeam>(call.rows), kRowThreads, 0, current_stream()>>>(call, losses);
        check_launch("cross_entropy_kernel");
      });
    }
    if (!per_row) {
      sum_losses_kernel<<<1, kRowThreads, 0, current_stream()>>>(losses, call.rows, factor, target);
      check_launch("sum_losses_kernel");
    } else if (call.rows > 0) {
      store_losses_kernel<<<grid_for(call.rows, kRowThreads), kRowThreads, 0, current_stream()>>>(losses, call.rows,
                                                                                                  target);
      check_launch("store_losses_kernel");
    }
  });
}

void CudaBackend::cross_entropy_backward(const CrossEntropyRows& rows, const Tensor& d_loss, double factor,
                                         const Tensor& d_logits) {
  const OnGpu here = on_gpu();
  if (rows.logits.element_count() == 0) return;
  dispatch_elements(rows.logits.dtype(), [&]<typename T>() {
    const CrossEntropyCall<T> call = call_of<T>(rows);
    const Compute<T>* d_losses = static_cast<const Compute<T>*>(d_loss.raw_data());
    const bool one_d_loss = d_loss.element_count() == 1;
    T* to = static_cast<T*>(d_logits.raw_data());
    with_team<T>(call.classes, {call.logits, to}, [&]<int kTeam, int kPack>() {
      cross_entropy_backward_kernel<T, kTeam, kPack>
          <<<row_blocks<kTeam>(call.rows), kRowThreads, 0, current_stream()>>>(call, d_losses, one_d_loss, factor, to);
      check_launch("cross_entropy_backward_kernel");
    });
  });
}

}  // namespace headway::inline v0::internal::cuda
