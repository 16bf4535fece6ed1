// The gradient of an embedding's weight: rows that are sums of rows.
#pragma once

#include <algorithm>

#include "cpu/kernels/rowwise-inl.h"
#include "cpu/kernels/rowwise.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

template <typename T>
void embedding_backward_rows(const EmbeddingBackwardTask& task) {
  using Real = RealFor<T>;
  using V = hn::Vec<hn::ScalableTag<Real>>;
  const hn::ScalableTag<Real> d;
  const std::int64_t n = task.features;
  const T* d_output = static_cast<const T*>(task.d_output);
  for (std::int64_t row = task.begin; row < task.end; ++row) {
    T* d_weight = static_cast<T*>(task.d_weight) + row * n;
    const std::int64_t* first = task.order + task.starts[row];
    const std::int64_t* last = task.order + task.starts[row + 1];
    if (first == last) {
      std::fill_n(d_weight, n, T());
      continue;
    }
    for_each_vector(d, n, [&](std::int64_t i, auto part) HEADWAY_INNER {
      V sum = load(d, d_output + *first * n + i, part);
      for (const std::int64_t* token = first + 1; token < last; ++token) {
        sum = hn::Add(sum, load(d, d_output + *token * n + i, part));
      }
      store(d, sum, d_weight + i, part);
    });
  }
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
