// What comes before and after the Hopper backward's kernel: statistics of rows, dQ from its sums, and the repair of
// rows that hidden NaN reached.
#pragma once

#include <cstdint>

#include "cuda/hopper_backward_work.cuh"
#include "headway/dtype.h"

namespace headway::inline v0::internal::cuda {

struct BackwardPasses {
  DType dtype = DType::bfloat16;
  int dim = 0;  // of the kernel: head_dim and value_dim rounded up
  RowTensor query, key, value, output, d_output;
  RowTensor d_query, d_key, d_value;
  const float* logsumexp = nullptr;    // (batch, heads, query_length)
  const float* d_logsumexp = nullptr;  // likewise, or null
  float* reference = nullptr;          // (batch, heads, padded_rows)
  float* delta = nullptr;              // likewise
  float* rest = nullptr;               // likewise, or null where nothing is added to the scores
  const float* sinks = nullptr;        // (heads), or null
  void* d_sinks = nullptr;             // (heads), or null
  DType sinks_dtype = DType::float32;  // of d_sinks
  int* suspicious = nullptr;           // (1): set where something that is not finite may have crossed a mask
  bool hides = false;                  // whether anything is masked at all
};

// The bias's gradient, whose planes (query_length, key_length) are float32.
struct BiasSums {
  float* target = nullptr;  // (batch, heads, query_length, key_length)
  int batch = 1, heads = 1;
};

// reference = logsumexp * log2(e) and delta = sum(dO * O) - d_logsumexp; rows of padding get +inf and 0. Clears the
// sums of dQ.
void prepare_backward_rows(const BackwardParameters& p, const BackwardPasses& passes);

// Splits the log-sum-exps that bias, ALiBi or sinks made large in two, reference and rest, by summing those rows once
// more: float32 holds a row's maximum or the logarithm of its sum, not both. One warp a row.
void refine_large_rows(const BackwardParameters& p, const BackwardPasses& passes);

// The gradient of the sinks, one more score in each softmax.
void sum_sink_gradients(const BackwardParameters& p, const BackwardPasses& passes);

// dQ = scale * its sums, from the order of accumulators to rows.
void finish_query_gradient(const BackwardParameters& p, const BackwardPasses& passes);

// Adds the planes of a launch's heads, at p.d_bias, to those of the bias's gradient; one dimension or both of
// (batch, heads) are broadcast.
void sum_bias_gradient(const BackwardParameters& p, const BiasSums& sums);

// Tensor cores multiply what a mask hides by zero, and 0 * NaN is NaN. Where such a thing may have happened, computes
// the gradients that are not finite once more, one warp a row, from what is seen alone.
void repair_gradients(const BackwardParameters& p, const BackwardPasses& passes);

}  // namespace headway::inline v0::internal::cuda
