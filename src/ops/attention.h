// The parts of attention() that other operations share.
#pragma once

#include "backend/attention_problem.h"
#include "core/autograd.h"
#include "headway/attention.h"

namespace headway::inline v0::internal {

// The forward of a checked problem, without a record. The output lies in memory in the order of the query's dimensions.
AttentionResult attention_forward(const AttentionProblem& problem);

// The forms of a checked problem's gradients beside those of query, key and value.
struct AttentionGradientForms {
  Tensor bias;   // as the caller passed it; undefined: its gradient is not needed
  Tensor sinks;  // likewise
};

// The gradients of a checked problem, into tensors that the caller may have allocated: those of gradients.query, key
// and value that are defined, with contiguous last dimensions. The others are allocated here, in the order of their
// inputs.
void attention_backward_into(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                             const AttentionGradientForms& forms, AttentionGradients& gradients);

// What attention() saves for its backward: the problem that its forward was computed from, and the result.
class SavedAttention {
 public:
  SavedAttention(AttentionProblem problem, const AttentionOptions& options, const AttentionResult& result);

  // Fills the gradients as attention_backward_into() does. The call's outputs are output, logsumexp and weights, and
  // its input number 3 is the bias. Throws where a saved tensor was changed in place.
  void backward(const BackwardCall& call, AttentionGradients& gradients) const;

 private:
  Saved query_;
  Saved key_;
  Saved value_;
  Saved mask_;
  Saved bias_;   // as the caller passed it
  Saved sinks_;  // likewise
  Saved output_;
  Saved logsumexp_;
  AttentionProblem problem_;  // its tensors are the saved ones
};

}  // namespace headway::inline v0::internal
