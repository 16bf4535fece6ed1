// Norms, softmax and cross entropy as every backend takes them. All tensors are dense; rows are the last dimension.
#pragma once

#include "core/random.h"
#include "headway/ops.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

struct NormResult {
  Tensor y;        // of x's shape
  Tensor mean;     // (rows) float64 for float64, else float32; undefined: RMS norm
  Tensor inverse;  // (rows) likewise: 1 / sqrt(variance + epsilon)
};

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

// A residual connection and its norm: sum = x + dropout(y), which is rounded to their dtype, and its layer norm.
struct AddNormInputs {
  Tensor x = {};
  Tensor y = {};             // of x's shape
  ElementDropout rule = {};  // of y's elements
  Tensor weight = {};        // undefined: ones
  Tensor bias = {};          // undefined: zeros
  double epsilon = 0;
};

struct AddNormBackwardInputs {
  NormBackwardInputs norm = {};  // of the sum
  Tensor d_sum = {};             // the gradient of the sum itself; undefined: zero
  ElementDropout rule = {};
};

struct AddNormGradients {
  Tensor x = {};       // may be d_y; undefined: not wanted
  Tensor y = {};       // memory of its own; undefined: not wanted
  Tensor weight = {};  // (features); undefined: not wanted
  Tensor bias = {};    // (features); undefined: not wanted
};

enum class SoftmaxKind { softmax, logarithm };

struct CrossEntropyRows {
  Tensor logits;     // (rows, classes)
  Tensor targets;    // (rows) int64; negative where a row is ignored
  Tensor logsumexp;  // (rows) float64 for float64, else float32
  double smoothing = 0;
};

}  // namespace headway::inline v0::internal
