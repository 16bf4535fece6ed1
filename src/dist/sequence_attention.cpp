// sequence_attention() and ring_attention(): the choice of a method, and the record.
#include <memory>
#include <utility>

#include "base/check.h"
#include "core/autograd.h"
#include "dist/ring_attention.h"
#include "dist/ulysses_attention.h"
#include "headway/autograd.h"
#include "ops/attention.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// What the backward needs. The tensors of the problems are held as Saved: without records, and checked for changes.
class SavedSequence {
 public:
  SavedSequence(const char* function, SequenceCall call, UlyssesHeads heads, const AttentionOptions& options,
                const AttentionResult& result)
      : bias_(function, options.bias), sinks_(function, options.sinks) {
    for (Tensor* tensor : tensors_of(call.whole)) saved_.emplace_back(function, *tensor);
    if (!call.by_ulysses) {
      output_ = Saved(function, result.output);
      logsumexp_ = Saved(function, result.logsumexp);
    }
    for (Tensor* tensor : tensors_of(call.whole)) *tensor = tensor->defined() ? tensor->detach() : Tensor();
    for (Tensor* tensor : tensors_of(heads.problem)) *tensor = tensor->defined() ? tensor->detach() : Tensor();
    call_ = std::move(call);
    heads_ = std::move(heads);
  }

  AttentionGradients backward(const BackwardCall& call) const {
    for (const Saved& saved : saved_) saved.get();  // throws where one was changed
    AttentionBackwardInputs inputs;
    inputs.d_output = call.d_output(0);
    inputs.d_logsumexp = call.d_output(1);
    inputs.d_weights = call.d_output(2);
    const Tensor bias = call.wants(3) ? bias_.get() : Tensor(), sinks = sinks_.get();
    if (call_.by_ulysses) return ulysses_backward(call_, heads_, inputs, bias, sinks);
    inputs.output = output_.get();
    inputs.logsumexp = logsumexp_.get();
    return ring_backward(call_, inputs, bias, sinks);
  }

 private:
  static std::vector<Tensor*> tensors_of(AttentionProblem& problem) {
    return {&problem.query, &problem.key, &problem.value, &problem.mask, &problem.bias};
  }

  std::vector<Saved> saved_;
  Saved bias_;   // as the caller passed it
  Saved sinks_;  // likewise
  Saved output_, logsumexp_;
  SequenceCall call_;
  UlyssesHeads heads_;
};

AttentionResult attention_over_ranks(const char* function, const Tensor& query, const Tensor& key, const Tensor& value,
                                     const AttentionOptions& options, const Communicator& ranks,
                                     const SequenceParallelOptions& parallel) {
  const bool recorded = needs_gradient(query, key, value, options.bias, options.sinks);
  SequenceCall call = make_sequence_call(function, query, key, value, options, ranks, parallel);
  const NoGradGuard guard;  // operations inside are not recorded
  UlyssesHeads heads;
  const AttentionResult result =
      call.by_ulysses ? ulysses_forward(call, recorded ? &heads : nullptr) : ring_forward(call);
  if (recorded) {
    // Functions are copied; what is saved is not.
    const auto saved = std::make_shared<SavedSequence>(function, std::move(call), std::move(heads), options, result);
    record(function, {query, key, value, options.bias, options.sinks},
           {result.output, result.logsumexp, result.weights}, [saved](BackwardCall& backward) -> Tensors {
             const NoGradGuard quiet;
             AttentionGradients gradients = saved->backward(backward);
             return {gradients.query, gradients.key, gradients.value, gradients.bias, gradients.sinks};
           });
  }
  return result;
}

}  // namespace
}  // namespace internal

AttentionResult sequence_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionOptions& options, const Communicator& ranks,
                                   const SequenceParallelOptions& parallel) {
  if (ranks.is_alone()) return attention(query, key, value, options);
  return internal::attention_over_ranks("sequence_attention", query, key, value, options, ranks, parallel);
}

AttentionResult ring_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                               const AttentionOptions& options, const Communicator& ranks,
                               const SequenceParallelOptions& parallel) {
  if (ranks.is_alone()) return attention(query, key, value, options);
  internal::check(parallel.method != SequenceMethod::ulysses, "ring_attention: method is ulysses, expected ring");
  SequenceParallelOptions ring = parallel;
  ring.method = SequenceMethod::ring;
  return internal::attention_over_ranks("ring_attention", query, key, value, options, ranks, ring);
}

}  // namespace headway::inline v0
