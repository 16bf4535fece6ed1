// Attention by its formula in float64 (float64 inputs: long double), and the same computed naively in the inputs' own
// arithmetic. Results are compared with the first; the second gives the error bound.
#pragma once

#include <string>
#include <vector>

#include "headway/attention.h"

namespace headway_test {

// Row-major values of everything that the forward returns; `weights` is empty where none were requested.
struct ForwardValues {
  std::vector<double> output;     // [batch, heads, query_length, value_dim]
  std::vector<double> logsumexp;  // [batch, heads, query_length]
  std::vector<double> weights;    // [batch, heads, query_length, key_length] or [batch, query_length, key_length]
};

// Row-major gradients; `bias` and `sinks` are empty where none were given.
struct GradientValues {
  std::vector<double> query, key, value, bias, sinks;  // each shaped like its input
};

// For each result, how large the terms are that were summed up for its elements: the largest root of a sum of squares.
// Where terms cancel, rounding errors follow this and not the result.
struct ForwardSpread {
  double output = 0;
  double score = 0;      // the largest sum over a row of weight * |score|: a score's rounding error is relative to it
  double logsumexp = 0;  // the largest |logsumexp| of a row that is not empty
};
struct GradientSpread {
  double query = 0, key = 0, value = 0, bias = 0, sinks = 0;
};

// The forward at its most exact; `spread` is filled in when given.
ForwardValues reference_forward(const headway::AttentionBackward& problem, ForwardSpread* spread = nullptr);
// The gradients at their most exact.
GradientValues reference_backward(const headway::AttentionBackward& problem, GradientSpread* spread = nullptr);
// The result of a straightforward implementation in the inputs' dtype: 16-bit inputs compute in float, with the
// probabilities (and the scores' gradients) rounded to 16 bits before they are multiplied, and the results too.
ForwardValues naive_forward(const headway::AttentionBackward& problem);
GradientValues naive_backward(const headway::AttentionBackward& problem);

// How a result compares with the reference.
struct Comparison {
  double error = 0;  // largest absolute difference; infinity where a NaN or an infinity differs
  double bound = 0;
  std::string worst = {};  // the worst element in words
  double ratio() const {
    return error <= bound ? (error == 0 ? 0 : error / bound) : error / (bound > 0 ? bound : 1e-300);
  }
};

// What decides the bound of one result.
struct BoundOf {
  headway::DType storage;  // of the inputs
  double spread = 0;
  double score = 0;
  double logsumexp = 0;  // where probabilities are recomputed from it
};

// Compares `actual` with `exact`. The bound is twice the error of `naive` plus a floor; see the definition.
Comparison compare(const headway::Tensor& actual, const std::vector<double>& exact, const std::vector<double>& naive,
                   const BoundOf& bound_of);

}  // namespace headway_test
