// The parts of attention() that other operations share.
#pragma once

#include "core/autograd.h"
#include "headway/attention.h"

namespace headway::inline v0::internal {

// attention() without a record. The output lies in memory in the order of the query's dimensions.
AttentionResult attention_forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options);

// attention_backward() into tensors that the caller may have allocated: those of gradients.query, key and value that
// are defined, with contiguous last dimensions. The others are allocated here, in the order of their inputs.
void attention_backward_into(const AttentionBackward& arguments, AttentionGradients& gradients);

// What every attention keeps for its backward beside query, key and value.
class SavedAttention {
 public:
  SavedAttention(const AttentionOptions& options, const AttentionResult& result);

  // The arguments without query, key and value. The call's outputs are output, logsumexp and weights.
  AttentionBackward arguments(const BackwardCall& call) const;

 private:
  AttentionOptions options_;  // without its tensors that may be changed in place
  bool true_keeps_;
  Saved mask_;
  Saved bias_;
  Saved sinks_;
  Saved output_;
  Saved logsumexp_;
  Saved weights_;
};

}  // namespace headway::inline v0::internal
