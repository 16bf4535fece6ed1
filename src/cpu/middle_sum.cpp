// Sums over the middle one of three dimensions, in float64.
#include <algorithm>
#include <vector>

#include "base/divide.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "core/thread_pool.h"
#include "cpu/backend.h"

namespace headway::inline v0::internal::cpu {
namespace {

constexpr std::int64_t kSumStrip = 64;    // inner elements of a task: a row of sums that stays in registers and L1
constexpr std::int64_t kSumChunk = 4096;  // middle elements of a task where there is nothing beside them

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
  const std::int64_t chunks = divide_up(sizes.middle, kSumChunk);
  std::vector<double> parts(static_cast<std::size_t>(sizes.outer * chunks));  // (outer, chunks)
  parallel_for(sizes.outer * chunks, [&](std::int64_t task, int) {
    const std::int64_t begin = task % chunks * kSumChunk;
    const std::int64_t count = std::min(kSumChunk, sizes.middle - begin);
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
  const std::int64_t strips = divide_up(sizes.inner, kSumStrip);
  parallel_for(sizes.outer * strips, [&](std::int64_t task, int) {
    const std::int64_t begin = task % strips * kSumStrip;
    const std::int64_t columns = std::min(kSumStrip, sizes.inner - begin);
    const T* row = x + task / strips * sizes.middle * sizes.inner + begin;
    double sums[kSumStrip] = {};
    for (std::int64_t i = 0; i < sizes.middle; ++i, row += sizes.inner) {
      for (std::int64_t c = 0; c < columns; ++c) sums[c] += to_double(row[c]);
    }
    T* to = target + task / strips * sizes.inner + begin;
    for (std::int64_t c = 0; c < columns; ++c) to[c] = convert<T>(sums[c]);
  });
}

}  // namespace

void CpuBackend::middle_sum(const MiddleSum& task) {
  dispatch_floating(task.dtype, [&]<typename T>() {
    const T* x = reinterpret_cast<const T*>(task.x);
    T* target = reinterpret_cast<T*>(task.target);
    if (task.inner == 1) {
      sum_rows(x, target, task);
    } else {
      sum_columns(x, target, task);
    }
  });
}

}  // namespace headway::inline v0::internal::cpu
