// Norms, softmax, cross entropy and embeddings on the CPU. All tensors are dense; rows are the last dimension. Bits do
// not depend on the number of threads: how rows are cut and the order of sums follow from the shapes alone.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/rowwise_tasks.h"

namespace headway::inline v0::internal::cpu {

// Fills the result. Undefined weights are ones, undefined biases zeros.
void norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon, const NormResult& result);
void norm_backward(const NormBackwardInputs& inputs, const NormGradients& gradients);

void softmax(SoftmaxKind kind, const Tensor& x, const Tensor& y);
// d_x may be d_y itself.
void softmax_backward(SoftmaxKind kind, const Tensor& y, const Tensor& d_y, const Tensor& d_x);

// Fills logsumexp and the loss, of the logits' dtype: one per row, else the sum of all times `factor` in its one
// element.
void cross_entropy(const CrossEntropyRows& rows, double factor, bool per_row, const Tensor& loss);
// d_logits = (softmax - target distribution) * d_loss * factor; d_loss has one element, or one per row.
void cross_entropy_backward(const CrossEntropyRows& rows, const Tensor& d_loss, double factor, const Tensor& d_logits);

// output (tokens, features): rows of weight (count, features). Only the weight's last dimension need be dense.
void embedding(const Tensor& weight, const std::vector<std::int64_t>& indices, const Tensor& output);
// d_weight (count, features): each row is the sum of the rows of d_output whose index it is; negative indices have
// none.
void embedding_backward(const Tensor& d_output, const std::vector<std::int64_t>& indices, const Tensor& d_weight);

}  // namespace headway::inline v0::internal::cpu
