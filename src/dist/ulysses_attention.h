// Attention whose heads are dealt out: every rank computes some of them over the whole sequence.
#pragma once

#include "core/autograd.h"
#include "dist/sequence_call.h"
#include "headway/attention.h"

namespace headway::inline v0::internal {

// This rank's heads: the problem over the whole sequence, and its results.
struct UlyssesHeads {
  AttentionProblem problem;
  Tensor output;
  Tensor logsumexp;
};

// The forward, without a record. Where `heads` is not null it is filled for the backward.
AttentionResult ulysses_forward(const SequenceCall& call, UlyssesHeads* heads);

// d_output, d_weights and d_logsumexp of the inputs are this rank's tokens'. Every rank sends all three but the weights
// that were not returned, so that ranks need not agree on which of them are zero.
AttentionGradients ulysses_backward(const SequenceCall& call, const UlyssesHeads& heads,
                                    const AttentionBackwardInputs& inputs, const Tensor& bias, const Tensor& sinks);

}  // namespace headway::inline v0::internal
