// Layer norm and RMS norm of rows, forward and backward.
#include <algorithm>

#include "cuda/backend.h"
#include "cuda/reduce.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

template <typename T>
T* data_of(const Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.raw_data()) : nullptr;
}

// As the last dimension has it; 0 for rows without elements.
std::int64_t row_count(const Tensor& x) {
  const std::int64_t columns = x.size(-1);
  return columns == 0 ? 0 : x.element_count() / columns;
}

template <typename T>
struct NormCall {
  std::int64_t rows;
  std::int64_t features;
  Compute<T> epsilon;
  const T* x;           // (rows, features)
  const T* weight;      // (features); null: ones
  const T* bias;        // (features); null: zeros
  T* y;                 // (rows, features)
  Compute<T>* mean;     // (rows); null: RMS norm
  Compute<T>* inverse;  // (rows)
};

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with a mean of zero for RMS norm.
template <typename T, int kTeam, int kPack>
__global__ void norm_kernel(NormCall<T> call) {
  using Real = Compute<T>;
  const std::int64_t n = call.features;
  for (std::int64_t row = first_row<kTeam>(); row < call.rows; row += row_step<kTeam>()) {
    const T* x = call.x + row * n;
    T* y = call.y + row * n;
    Real mean = 0;
    if (call.mean) {
      mean = sum_row<Real, kTeam, kPack>(n,
                                         [&](std::int64_t i) {
                                           const auto v = load_values<kPack>(x + i);
                                           Real sum = 0;
#pragma unroll
                                           for (int j = 0; j < kPack; ++j) sum += v[j];
                                           return sum;
                                         }) /
             static_cast<Real>(n);
    }
    const Real squares = sum_row<Real, kTeam, kPack>(n, [&](std::int64_t i) {
      const auto v = load_values<kPack>(x + i);
      Real sum = 0;
#pragma unroll
      for (int j = 0; j < kPack; ++j) sum += (v[j] - mean) * (v[j] - mean);
      return sum;
    });
    const Real inverse = 1 / ::sqrt(squares / static_cast<Real>(n) + call.epsilon);
    if (team_rank<kTeam>() == 0) {
      if (call.mean) call.mean[row] = mean;
      call.inverse[row] = inverse;
    }
    for_each_pack<kTeam, kPack>(n, [&](std::int64_t i) {
      auto v = load_values<kPack>(x + i);
      const auto weight = load_values_or<kPack>(call.weight, i, Real(1));
      const auto bias = load_values_or<kPack>(call.bias, i, Real(0));
#pragma unroll
      for (int j = 0; j < kPack; ++j) v[j] = (v[j] - mean) * inverse * weight[j] + bias[j];
      store_values<kPack>(v, y + i);
    });
  }
}

template <typename T>
struct NormBackwardCall {
  std::int64_t rows;
  std::int64_t features;
  const T* x;                 // (rows, features)
  const T* weight;            // (features); null: ones
  const Compute<T>* mean;     // (rows); null: RMS norm
  const Compute<T>* inverse;  // (rows)
  const T* d_y;               // (rows, features)
};

// With x_hat = (x - mean) * inverse and g = d_y * weight: d_x = inverse * (g - mean(g) - x_hat * mean(g * x_hat)),
// where RMS norm has no mean(g). d_x (rows, features) may be d_y: a thread reads what it writes.
template <typename T, int kTeam, int kPack>
__global__ void norm_backward_kernel(NormBackwardCall<T> call, T* d_x) {
  using Real = Compute<T>;
  const std::int64_t n = call.features;
  for (std::int64_t row = first_row<kTeam>(); row < call.rows; row += row_step<kTeam>()) {
    const T* x = call.x + row * n;
    const T* d_y = call.d_y + row * n;
    const Real mean = call.mean ? call.mean[row] : Real(0), inverse = call.inverse[row];
    Real sum = 0, product = 0;  // of g, and of g * x_hat
    for_each_pack<kTeam, kPack>(n, [&](std::int64_t i) {
      const auto v = load_values<kPack>(x + i), d = load_values<kPack>(d_y + i);
      const auto weight = load_values_or<kPack>(call.weight, i, Real(1));
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const Real g = d[j] * weight[j];
        sum += g;
        product += g * ((v[j] - mean) * inverse);
      }
    });
    const Real g_mean = call.mean ? team_sum<kTeam>(sum) / static_cast<Real>(n) : Real(0);
    const Real g_x_hat = team_sum<kTeam>(product) / static_cast<Real>(n);
    for_each_pack<kTeam, kPack>(n, [&](std::int64_t i) {
      const auto v = load_values<kPack>(x + i);
      auto d = load_values<kPack>(d_y + i);
      const auto weight = load_values_or<kPack>(call.weight, i, Real(1));
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const Real x_hat = (v[j] - mean) * inverse;
        d[j] = inverse * (d[j] * weight[j] - g_mean - x_hat * g_x_hat);
      }
      store_values<kPack>(d, d_x + row * n + i);
    });
  }
}

constexpr int kTileColumns = 32, kTileRows = 8;  // threads of a block that sums columns

// parts (chunks, features): the sums over the rows of each chunk of d_y * x_hat, and of d_y. A part that is null is not
// wanted. Block (column tile, chunk).
template <typename T>
__global__ void norm_column_parts_kernel(NormBackwardCall<T> call, std::int64_t chunk_rows, Compute<T>* weight_parts,
                                         Compute<T>* bias_parts) {
  using Real = Compute<T>;
  __shared__ Real weight_sums[kTileRows][kTileColumns], bias_sums[kTileRows][kTileColumns];
  const std::int64_t n = call.features;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  const std::int64_t begin = blockIdx.y * chunk_rows;
  const std::int64_t end = begin + chunk_rows < call.rows ? begin + chunk_rows : call.rows;
  Real d_weight = 0, d_bias = 0;
  if (column < n) {
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kTileRows) {
      const Real d_y = to_compute(call.d_y[row * n + column]);
      if (weight_parts) {
        const Real mean = call.mean ? call.mean[row] : Real(0);
        d_weight += d_y * ((to_compute(call.x[row * n + column]) - mean) * call.inverse[row]);
      }
      d_bias += d_y;
    }
  }
  weight_sums[threadIdx.y][threadIdx.x] = d_weight;
  bias_sums[threadIdx.y][threadIdx.x] = d_bias;
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
  for (int row = 1; row < kTileRows; ++row) {
    d_weight += weight_sums[row][threadIdx.x];
    d_bias += bias_sums[row][threadIdx.x];
  }
  if (weight_parts) weight_parts[blockIdx.y * n + column] = d_weight;
  if (bias_parts) bias_parts[blockIdx.y * n + column] = d_bias;
}

// target (features) = the sum of parts (chunks, features) over the chunks, in their order.
template <typename T>
__global__ void join_parts_kernel(const Compute<T>* parts, std::int64_t chunks, std::int64_t features, T* target) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < features; i += step) {
    Compute<T> sum = 0;
#pragma unroll 8
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += parts[chunk * features + i];
    target[i] = from_compute<T>(sum);
  }
}

template <typename T>
void join_parts(const DeviceBuffer& parts, std::int64_t chunks, std::int64_t features, T* target) {
  constexpr int kThreads = 64;
  if (!target) return;
  join_parts_kernel<T><<<grid_for(features, kThreads), kThreads, 0, current_stream()>>>(parts.template as<Compute<T>>(),
                                                                                        chunks, features, target);
  check_launch("join_parts_kernel");
}

// d_weight (features) = sum of d_y * x_hat, d_bias (features) = sum of d_y; null where it is not wanted.
template <typename T>
void norm_column_sums(const NormBackwardCall<T>& call, T* d_weight, T* d_bias) {
  if (!d_weight && !d_bias) return;
  using Real = Compute<T>;
  constexpr std::int64_t kLeastRows = 32, kMostChunks = 128;
  const std::int64_t chunk_rows = std::max(kLeastRows, (call.rows + kMostChunks - 1) / kMostChunks);
  const std::int64_t chunks = (call.rows + chunk_rows - 1) / chunk_rows;
  const std::size_t bytes = static_cast<std::size_t>(chunks * call.features) * sizeof(Real);
  const DeviceBuffer weight_parts(d_weight ? bytes : 0), bias_parts(d_bias ? bytes : 0);  // (chunks, features)
  if (chunks > 0) {
    const dim3 grid(static_cast<unsigned>((call.features + kTileColumns - 1) / kTileColumns),
                    static_cast<unsigned>(chunks));
    norm_column_parts_kernel<T><<<grid, dim3(kTileColumns, kTileRows), 0, current_stream()>>>(
        call, chunk_rows, weight_parts.template as<Real>(), bias_parts.template as<Real>());
    check_launch("norm_column_parts_kernel");
  }
  join_parts(weight_parts, chunks, call.features, d_weight);
  join_parts(bias_parts, chunks, call.features, d_bias);
}

}  // namespace

void CudaBackend::norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                       const NormResult& result) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = row_count(x), features = x.size(-1);
  if (rows == 0 || add_norm_in_one_pass({.x = x, .weight = weight, .bias = bias, .epsilon = epsilon}, {}, result)) {
    return;
  }
  dispatch_elements(x.dtype(), [&]<typename T>() {
    using Real = Compute<T>;
    const NormCall<T> call = {rows,
                              features,
                              static_cast<Real>(epsilon),
                              data_of<const T>(x),
                              data_of<const T>(weight),
                              data_of<const T>(bias),
                              data_of<T>(result.y),
                              data_of<Real>(result.mean),
                              data_of<Real>(result.inverse)};
    with_team<T>(features, {call.x, call.weight, call.bias, call.y}, [&]<int kTeam, int kPack>() {
      norm_kernel<T, kTeam, kPack><<<row_blocks<kTeam>(rows), kRowThreads, 0, current_stream()>>>(call);
      check_launch("norm_kernel");
    });
  });
}

void CudaBackend::norm_backward(const NormBackwardInputs& inputs, const NormGradients& gradients) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = row_count(inputs.x), features = inputs.x.size(-1);
  if (features == 0 || add_norm_backward_in_one_pass(
                           {.norm = inputs}, {.x = gradients.x, .weight = gradients.weight, .bias = gradients.bias})) {
    return;
  }
  dispatch_elements(inputs.x.dtype(), [&]<typename T>() {
    using Real = Compute<T>;
    const NormBackwardCall<T> call = {rows,
                                      features,
                                      data_of<const T>(inputs.x),
                                      data_of<const T>(inputs.weight),
                                      data_of<const Real>(inputs.mean),
                                      data_of<const Real>(inputs.inverse),
                                      data_of<const T>(inputs.d_y)};
    // First what reads d_y alone: d_x may replace it.
    norm_column_sums(call, data_of<T>(gradients.weight), data_of<T>(gradients.bias));
    T* d_x = data_of<T>(gradients.x);
    if (!d_x || rows == 0) return;
    with_team<T>(features, {call.x, call.weight, call.d_y, d_x}, [&]<int kTeam, int kPack>() {
      norm_backward_kernel<T, kTeam, kPack><<<row_blocks<kTeam>(rows), kRowThreads, 0, current_stream()>>>(call, d_x);
      check_launch("norm_backward_kernel");
    });
  });
}

}  // namespace headway::inline v0::internal::cuda
