// Sums over broadcast dimensions.
#include <algorithm>

#include "backend/backend.h"
#include "base/check.h"
#include "core/autograd.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "core/strided_copy.h"
#include "core/tensor_impl.h"
#include "core/thread_pool.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kColumns = 64;  // inner elements of a task: a row of sums that stays in registers and L1
constexpr std::int64_t kChunk = 4096;  // middle elements of a task where there is nothing beside them

template <typename T>
double to_double(T value) {
  return convert<double>(value);
}

// Sums of `count` neighbours, in eight lanes that a compiler turns into vectors.
template <typename T>
double sum_run(const T* values, std::int64_t count) {
  double lanes[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int lane = 0; lane < 8; ++lane) lanes[lane] += to_double(values[i + lane]);
  }
  double sum = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
  for (; i < count; ++i) sum += to_double(values[i]);
  return sum;
}

template <typename T>
void sum_rows(const T* x, T* target, const MiddleSum& sizes) {
  const std::int64_t chunks = (sizes.middle + kChunk - 1) / kChunk;
  std::vector<double> parts(static_cast<std::size_t>(sizes.outer * chunks));  // (outer, chunks)
  parallel_for(sizes.outer * chunks, [&](std::int64_t task, int) {
    const std::int64_t begin = task % chunks * kChunk;
    const std::int64_t count = std::min(kChunk, sizes.middle - begin);
    parts[static_cast<std::size_t>(task)] = sum_run(x + task / chunks * sizes.middle + begin, count);
  });
  for (std::int64_t row = 0; row < sizes.outer; ++row) {
    double sum = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += parts[static_cast<std::size_t>(row * chunks + chunk)];
    target[row] = convert<T>(sum);
  }
}

template <typename T>
void sum_columns(const T* x, T* target, const MiddleSum& sizes) {
  const std::int64_t strips = (sizes.inner + kColumns - 1) / kColumns;
  parallel_for(sizes.outer * strips, [&](std::int64_t task, int) {
    const std::int64_t begin = task % strips * kColumns;
    const std::int64_t columns = std::min(kColumns, sizes.inner - begin);
    const T* row = x + task / strips * sizes.middle * sizes.inner + begin;
    double sums[kColumns] = {};
    for (std::int64_t i = 0; i < sizes.middle; ++i, row += sizes.inner) {
      for (std::int64_t c = 0; c < columns; ++c) sums[c] += to_double(row[c]);
    }
    T* to = target + task / strips * sizes.inner + begin;
    for (std::int64_t c = 0; c < columns; ++c) to[c] = convert<T>(sums[c]);
  });
}

}  // namespace

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int added = x.rank() - shape.rank();
  // Kept dimensions first, summed ones last, then one sum over neighbours; or the other way round where the summed ones
  // lead, as for a bias.
  std::vector<int> kept, summed;
  for (int dim = 0; dim < x.rank(); ++dim) {
    const bool is_summed = dim < added || (shape[dim - added] == 1 && x.shape()[dim] != 1);
    (is_summed ? summed : kept).push_back(dim);
  }
  MiddleSum sizes;
  for (const int dim : summed) sizes.middle *= x.shape()[dim];
  std::int64_t kept_count = 1;
  for (const int dim : kept) kept_count *= x.shape()[dim];
  const bool summed_lead = kept.empty() || summed.empty() || summed.back() < kept.front();
  std::vector<int> order = summed_lead ? summed : kept;
  order.insert(order.end(), (summed_lead ? kept : summed).begin(), (summed_lead ? kept : summed).end());
  const Tensor dense = x.detach().permute(order).contiguous();
  (summed_lead ? sizes.inner : sizes.outer) = kept_count;
  Tensor target = Tensor::empty(shape, x.dtype(), x.device());
  if (target.element_count() == 0) return target;
  if (!x.device().is_cpu()) {
    sizes.dtype = x.dtype();
    sizes.x = static_cast<const std::byte*>(dense.raw_data());
    sizes.target = static_cast<std::byte*>(target.raw_data());
    device_backend(x.device()).middle_sum(sizes);
    return target;
  }
  dispatch_floating(x.dtype(), [&]<typename T>() {
    if (sizes.inner == 1) {
      sum_rows(dense.data<T>(), target.data<T>(), sizes);
    } else {
      sum_columns(dense.data<T>(), target.data<T>(), sizes);
    }
  });
  return target;
}

}  // namespace headway::inline v0::internal
