// Attention whose keys and values travel from rank to rank.
#pragma once

#include "core/autograd.h"
#include "dist/sequence_call.h"
#include "dist/sequence_pieces.h"
#include "headway/attention.h"

namespace headway::inline v0::internal {

// The forward, without a record. Sets call.has_whole_rows where it turns out to be needed.
AttentionResult ring_forward(SequenceCall& call);

// What the backward needs beside the call: this rank's part of the forward's results and of their gradients, undefined
// where zero, as attention_backward_into() takes them.
AttentionGradients ring_backward(const SequenceCall& call, const AttentionBackwardInputs& inputs, const Tensor& bias,
                                 const Tensor& sinks);

// ---- what both share ----

// The dtype of sums: float64 for float64, else float32.
DType sums_dtype(const AttentionProblem& problem);
// The dtype in which pieces leave the device: that of sums where it can.
DType piece_dtype(const AttentionProblem& problem);
// sum += more for dense tensors of one shape, where `sum` may be undefined: zero. `more` is converted.
void add_to(Tensor& sum, const Tensor& more, DType dtype);
// A piece of a call that has all keys of its queries, with sinks and weights.
AttentionProblem whole_rows_problem(const SequenceCall& call, const Tensor& key, const Tensor& value,
                                    const SequencePiece& piece);
// The keys and values of all ranks in the order of the sequence, around the ring.
struct WholeKeys {
  Tensor key;
  Tensor value;
};
WholeKeys gather_keys(const SequenceCall& call, const Tensor& key, const Tensor& value);

}  // namespace headway::inline v0::internal
