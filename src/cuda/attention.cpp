// Attention on the GPU: which kernels compute a call.
#include "cuda/backend.h"
#include "cuda/decode_attention.h"
#include "cuda/float_attention.h"
#include "cuda/hopper_attention.h"
#include "cuda/hopper_attention_backward.h"
#include "cuda/kernel_choice.h"
#include "cuda/portable_attention.h"
#include "cuda/tuned_weights.h"

namespace headway::inline v0::internal::cuda {
namespace {

// The tuned kernels draw dropout from the first row, column and head on.
bool tuned_kernels_fit(const AttentionProblem& problem) { return tuned_kernels_wanted() && !problem.shifts_dropout(); }

}  // namespace

void CudaBackend::attention(const AttentionProblem& problem, AttentionResult& result) {
  const OnGpu here = on_gpu();
  const bool tuned = tuned_kernels_fit(problem);
  const bool done = tuned && (decode_attention(problem, result) || hopper_attention(problem, result) ||
                              float_attention(problem, result));
  if (!done) portable_attention(problem, result);
  if (problem.weights == Weights::none) return;
  if (!tuned || !tuned_weights(problem, result)) portable_attention_weights(problem, result);
}

void CudaBackend::attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                                     AttentionGradients& gradients) {
  const OnGpu here = on_gpu();
  const bool done = tuned_kernels_fit(problem) && (hopper_attention_backward(problem, inputs, gradients) ||
                                                   float_attention_backward(problem, inputs, gradients));
  if (!done) portable_attention_backward(problem, inputs, gradients);
}

}  // namespace headway::inline v0::internal::cuda
