// Products of few rows with a weight, as a decoding step has them: what counts is how fast the weight is read. Norms of
// the rows, bias, activation, gates and what is added are part of the pass.
#pragma once

#include "backend/decoding_tasks.h"

namespace headway::inline v0::internal::cuda {

// The task in one pass; false, with nothing done, where it has too many rows, is not of aligned 16-bit numbers, or the
// GPU is older than Hopper.
bool product_in_one_pass(const LinearStep& task);

}  // namespace headway::inline v0::internal::cuda
