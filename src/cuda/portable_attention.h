// Attention on any GPU: every option, dtype and size, by plain products of tiles in shared memory.
#pragma once

#include "backend/attention_problem.h"
#include "cuda/attention_call.h"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {

// Fills result.output and result.logsumexp.
void portable_attention(const AttentionProblem& problem, AttentionResult& result);

// Fills result.weights from result.logsumexp.
void portable_attention_weights(const AttentionProblem& problem, const AttentionResult& result);

// Fills the gradients that are defined.
void portable_attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                                 AttentionGradients& gradients);

// P = exp(S - reference - rest). Next to a log-sum-exp of -1e9, as a bias makes it, the logarithm of the sum would be
// lost: such rows have their maximum as the reference and the logarithm as the rest. Rows without keys have +infinity.
struct RowReferences {
  void* reference = nullptr;  // (batch, heads, query_length), float or double
  void* rest = nullptr;       // likewise
};

// Fills the references, which are allocated, from the log-sum-exp.
void find_references(UploadedCall& uploaded, const Tensor& logsumexp, DType dtype, const RowReferences& references);

// delta (batch, heads, query_length), float or double: sum(dO * O) - d_logsumexp.
void find_deltas(const AttentionCall& call, const AttentionBackwardInputs& inputs, DType dtype, void* delta);

// d_sinks (heads), of any floating dtype, for inputs of `dtype`.
void sum_sinks(const AttentionCall& call, const RowReferences& references, const void* delta, DType dtype,
               const Tensor& d_sinks);

// Bytes of a (batch, heads, query_length) array of what the problem is computed in.
std::size_t row_array_bytes(const AttentionProblem& problem);

}  // namespace headway::inline v0::internal::cuda
