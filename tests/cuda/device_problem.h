// Attention problems on the GPU: brought there as they lie in memory, run in poisoned memory, brought back.
#pragma once

#include "headway/attention.h"
#include "headway/device.h"
#include "support/bits.h"

namespace headway_test {

// The same values with the same strides and the same alignment in the GPU's memory; the gaps hold NaN.
headway::Tensor on_gpu(const headway::Tensor& tensor);
// All tensors of a problem. Masks and what is given per entry or per head may stay where they are: with `small` they
// are brought too.
headway::AttentionBackward on_gpu(const headway::AttentionBackward& problem, bool small = true);

// A copy on the CPU; undefined stays undefined.
headway::Tensor on_cpu(const headway::Tensor& tensor);
Named on_cpu(const Named& results);

// Leaves NaN in memory that the next allocations of these sizes are likely to get, and in some more for temporaries.
void poison_memory(const std::vector<headway::Tensor>& alike);

// Forward and backward on the GPU in poisoned memory; the results are on the CPU.
Named run_on_gpu(const headway::AttentionBackward& problem, bool small = true);
// The forward alone.
headway::AttentionResult forward_on_gpu(const headway::AttentionBackward& problem);

// Puts `value` into every query (with its gradient) that sees no key, and every key and value that no query sees.
// Returns how many rows that were.
int fill_hidden_rows(headway::AttentionBackward& problem, double value);

}  // namespace headway_test
