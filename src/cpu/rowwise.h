// Norms, softmax, cross entropy and embeddings on the CPU. All tensors are dense; rows are the last dimension. Bits do
// not depend on the number of threads: how rows are cut and the order of sums follow from the shapes alone.
#pragma once

#include <cstdint>
#include <vector>

#include "headway/tensor.h"

namespace headway::inline v0::internal::cpu {

struct NormResult {
  Tensor y;        // of x's shape
  Tensor mean;     // (rows) float64 for float64, else float32; undefined: RMS norm
  Tensor inverse;  // (rows) likewise: 1 / sqrt(variance + epsilon)
};
// Fills the result. Undefined weights are ones, undefined biases zeros.
void norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon, const NormResult& result);

struct NormGradients {
  Tensor x;       // may be d_y itself; undefined: not wanted
  Tensor weight;  // (features); undefined: not wanted
  Tensor bias;    // (features); undefined: not wanted
};
struct NormBackwardInputs {
  Tensor x;
  Tensor weight;  // undefined: ones
  Tensor mean;    // undefined: RMS norm
  Tensor inverse;
  Tensor d_y;
};
void norm_backward(const NormBackwardInputs& inputs, const NormGradients& gradients);

enum class SoftmaxKind { softmax, logarithm };
void softmax(SoftmaxKind kind, const Tensor& x, const Tensor& y);
// d_x may be d_y itself.
void softmax_backward(SoftmaxKind kind, const Tensor& y, const Tensor& d_y, const Tensor& d_x);

struct CrossEntropyRows {
  Tensor logits;     // (rows, classes)
  Tensor targets;    // (rows) int64; negative where a row counts nothing
  Tensor logsumexp;  // (rows) float64 for float64, else float32
  double smoothing = 0;
};
// Fills logsumexp, and gives the loss of every row.
std::vector<double> cross_entropy(const CrossEntropyRows& rows);
// d_logits = (softmax - target distribution) * d_loss * factor; d_loss has one element, or one per row.
void cross_entropy_backward(const CrossEntropyRows& rows, const Tensor& d_loss, double factor, const Tensor& d_logits);

// output (tokens, features): rows of weight (count, features). Only the weight's last dimension need be dense.
void embedding(const Tensor& weight, const std::vector<std::int64_t>& indices, const Tensor& output);
// d_weight (count, features): each row is the sum of the rows of d_output whose index it is; negative indices have
// none.
void embedding_backward(const Tensor& d_output, const std::vector<std::int64_t>& indices, const Tensor& d_weight);

}  // namespace headway::inline v0::internal::cpu
