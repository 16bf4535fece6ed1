// Results of attention for the same queries over different keys, which become one result over all of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headway/dtype.h"

namespace headway::inline v0::internal {

// Joins the part (rows, columns) to the output (rows, columns) by their log-sum-exps: with l the log-sum-exp of both,
// output = output * exp(logsumexp - l) + part * exp(part_logsumexp - l), and logsumexp = l. A row without keys, whose
// log-sum-exp is -infinity, adds nothing. All dense.
struct AttentionMerge {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  DType part_dtype = DType::float32;
  const std::byte* part = nullptr;            // (rows, columns)
  const std::byte* part_logsumexp = nullptr;  // (rows)
  DType sums_dtype = DType::float32;          // of everything else: float32 or float64
  std::byte* output = nullptr;                // (rows, columns)
  std::byte* logsumexp = nullptr;             // (rows)
};

}  // namespace headway::inline v0::internal
