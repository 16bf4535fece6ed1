// Rows of an output that a masked NaN or infinity has spoilt.
#pragma once

#include "cuda/attention_call.h"

namespace headway::inline v0::internal::cuda {

// Results that may hold such rows.
struct SpoiltRows {
  HeadRows output;            // (batch, heads, query_length, value_dim), of 16 bits
  float* logsumexp;           // (batch, heads, query_length)
  unsigned* not_finite;       // set where there may be one; cleared by the repair
  unsigned* repaired_blocks;  // 0 before and after
};

// Where *rows.not_finite is set: computes the rows whose output is not finite again, so that a key or value behind a
// mask is never touched. Dimensions are at most 256. Else costs a short launch.
void repair_rows(const AttentionCall& call, DType dtype, const SpoiltRows& rows);

}  // namespace headway::inline v0::internal::cuda
