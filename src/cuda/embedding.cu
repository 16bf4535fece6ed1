// Embeddings: rows of a weight, and its gradient as sums of rows.
#include <bit>
#include <span>

#include "cuda/backend.h"
#include "cuda/reduce.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

// output (tokens, units) = rows `indices` of weight, which are `stride` units apart. A warp per token.
template <typename Unit>
__global__ void embedding_kernel(const Unit* weight, std::int64_t stride, const std::int64_t* indices,
                                 std::int64_t tokens, std::int64_t units, Unit* output) {
  for (std::int64_t token = first_row<kWarp>(); token < tokens; token += row_step<kWarp>()) {
    const Unit* from = weight + indices[token] * stride;
    for_each_pack<kWarp, 1>(units, [&](std::int64_t i) { output[token * units + i] = from[i]; });
  }
}

// Calls f with a value of the largest type, of up to 16 bytes, of which all the byte counts and addresses are
// multiples.
template <typename Function>
void with_unit(std::uintptr_t bits, const Function& f) {
  switch (std::countr_zero(bits | 16)) {
    case 4:
      return f(uint4());
    case 3:
      return f(uint2());
    case 2:
      return f(std::uint32_t());
    default:
      return f(std::uint16_t());
  }
}

// Tokens by the row of the weight that they took. The entries of a row are in ascending order.
struct UsedRows {
  std::vector<std::int64_t> rows;    // those with tokens
  std::vector<std::int64_t> starts;  // (used rows + 1): the first token of each in `order`
  std::vector<std::int64_t> order;   // (tokens that count)
};

// A counting sort, without the negative indices.
UsedRows sort_tokens(const std::vector<std::int64_t>& indices, std::int64_t count) {
  UsedRows used;
  std::vector<std::int64_t> next(static_cast<std::size_t>(count));  // how many; then where a row's next token goes
  for (const std::int64_t index : indices) {
    if (index >= 0) ++next[static_cast<std::size_t>(index)];
  }
  std::int64_t total = 0;
  for (std::int64_t row = 0; row < count; ++row) {
    std::int64_t& place = next[static_cast<std::size_t>(row)];
    const std::int64_t tokens = place;
    place = total;
    if (tokens == 0) continue;
    used.rows.push_back(row);
    used.starts.push_back(total);
    total += tokens;
  }
  used.starts.push_back(total);
  used.order.resize(static_cast<std::size_t>(total));
  for (std::size_t token = 0; token < indices.size(); ++token) {
    if (indices[token] < 0) continue;
    std::int64_t& place = next[static_cast<std::size_t>(indices[token])];
    used.order[static_cast<std::size_t>(place++)] = static_cast<std::int64_t>(token);
  }
  return used;
}

// Row rows[r] of d_weight (count, features) = the sum of the rows order[starts[r]] .. order[starts[r + 1] - 1] of
// d_output (tokens, features), in that order. A block per used row.
template <typename T, int kPack>
__global__ void embedding_backward_kernel(const T* d_output, std::int64_t features, std::int64_t used_rows,
                                          const std::int64_t* rows, const std::int64_t* starts,
                                          const std::int64_t* order, T* d_weight) {
  for (std::int64_t r = blockIdx.x; r < used_rows; r += gridDim.x) {
    const std::int64_t begin = starts[r], end = starts[r + 1];
    for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * kPack; i < features; i += blockDim.x * kPack) {
      Values<Compute<T>, kPack> sum = load_values<kPack>(d_output + order[begin] * features + i);
#pragma unroll 4
      for (std::int64_t k = begin + 1; k < end; ++k) {
        const auto v = load_values<kPack>(d_output + order[k] * features + i);
#pragma unroll
        for (int j = 0; j < kPack; ++j) sum[j] += v[j];
      }
      store_values<kPack>(sum, d_weight + rows[r] * features + i);
    }
  }
}

}  // namespace

void CudaBackend::embedding(const Tensor& weight, const std::vector<std::int64_t>& indices, const Tensor& output) {
  const OnGpu here = on_gpu();
  const auto tokens = static_cast<std::int64_t>(indices.size());
  const auto item = static_cast<std::int64_t>(item_size(weight.dtype()));
  const std::int64_t row_bytes = weight.size(1) * item, stride_bytes = weight.stride(0) * item;
  if (tokens == 0 || row_bytes == 0) return;
  const DeviceBuffer device_indices = upload(std::span(indices));  // (tokens)
  const auto bits = static_cast<std::uintptr_t>(row_bytes | stride_bytes) |
                    reinterpret_cast<std::uintptr_t>(weight.raw_data()) |
                    reinterpret_cast<std::uintptr_t>(output.raw_data());
  with_unit(bits, [&]<typename Unit>(Unit) {
    constexpr std::int64_t kBytes = sizeof(Unit);
    embedding_kernel<Unit><<<row_blocks<kWarp>(tokens), kRowThreads, 0, current_stream()>>>(
        static_cast<const Unit*>(weight.raw_data()), stride_bytes / kBytes, device_indices.as<std::int64_t>(), tokens,
        row_bytes / kBytes, static_cast<Unit*>(output.raw_data()));
    check_launch("embedding_kernel");
  });
}

void CudaBackend::embedding_backward(const Tensor& d_output, const std::vector<std::int64_t>& indices,
                                     const Tensor& d_weight) {
  const OnGpu here = on_gpu();
  const std::int64_t features = d_weight.size(1);
  if (d_weight.element_count() == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(d_weight.element_count()) * item_size(d_weight.dtype());
  check_cuda(cudaMemsetAsync(d_weight.raw_data(), 0, bytes, current_stream()), "cudaMemsetAsync");
  const UsedRows used = sort_tokens(indices, d_weight.size(0));
  if (used.rows.empty()) return;
  const auto used_rows = static_cast<std::int64_t>(used.rows.size());
  const DeviceBuffer rows = upload(std::span(used.rows)), starts = upload(std::span(used.starts)),
                     order = upload(std::span(used.order));
  dispatch_elements(d_weight.dtype(), [&]<typename T>() {
    const T* from = static_cast<const T*>(d_output.raw_data());
    T* to = static_cast<T*>(d_weight.raw_data());
    with_team<T>(features, {from, to}, [&]<int, int kPack>() {
      constexpr int kThreads = 64;
      embedding_backward_kernel<T, kPack><<<grid_for(used_rows, 1), kThreads, 0, current_stream()>>>(
          from, features, used_rows, rows.as<std::int64_t>(), starts.as<std::int64_t>(), order.as<std::int64_t>(), to);
      check_launch("embedding_backward_kernel");
    });
  });
}

}  // namespace headway::inline v0::internal::cuda
