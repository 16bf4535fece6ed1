// Joining results of attention over different keys.
#include <cmath>
#include <limits>

#include "backend/attention_merge.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "cpu/backend.h"
#include "cpu/chunks.h"

namespace headway::inline v0::internal::cpu {
namespace {

template <typename Real, typename Part>
void merge_attention_rows(const AttentionMerge& task, std::int64_t first, std::int64_t count) {
  const auto* parts = reinterpret_cast<const Part*>(task.part);
  const auto* part_logsumexp = reinterpret_cast<const Real*>(task.part_logsumexp);
  auto* outputs = reinterpret_cast<Real*>(task.output);
  auto* logsumexp = reinterpret_cast<Real*>(task.logsumexp);
  for (std::int64_t row = first; row < first + count; ++row) {
    const Real old = logsumexp[row], more = part_logsumexp[row];
    if (more == -std::numeric_limits<Real>::infinity()) continue;
    const Real largest = std::fmax(old, more);
    const Real sum = largest + std::log(std::exp(old - largest) + std::exp(more - largest));
    const Real factor = std::exp(old - sum), part_factor = std::exp(more - sum);
    const Part* part = parts + row * task.columns;
    Real* output = outputs + row * task.columns;
    if (factor == 0) {
      for (std::int64_t c = 0; c < task.columns; ++c) output[c] = convert<Real>(part[c]) * part_factor;
    } else {
      for (std::int64_t c = 0; c < task.columns; ++c) {
        output[c] = output[c] * factor + convert<Real>(part[c]) * part_factor;
      }
    }
    logsumexp[row] = sum;
  }
}

}  // namespace

void CpuBackend::merge_attention(const AttentionMerge& task) {
  for_chunks(task.rows, task.columns + 1, [&](std::int64_t first, std::int64_t count) {
    dispatch_floating(task.part_dtype, [&]<typename Part>() {
      if (task.sums_dtype == DType::float64) {
        merge_attention_rows<double, Part>(task, first, count);
      } else {
        merge_attention_rows<float, Part>(task, first, count);
      }
    });
  });
}

}  // namespace headway::inline v0::internal::cpu
