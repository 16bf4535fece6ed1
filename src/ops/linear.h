// What products with a weight matrix share.
#pragma once

#include <cstdint>
#include <vector>

#include "core/autograd.h"
#include "headway/ops.h"

namespace headway::inline v0::internal {

// A tensor [..., features] as one matrix.
Tensor as_rows(const Tensor& tensor);

// Throws unless x [..., in], weight [out, in] and bias [out], which may be undefined, fit together.
void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

// result (tokens, out) = x (tokens, in) W^T + bias without a record; all matrices may have any strides.
void linear_into(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& result);

// dropout(linear(x, weight, bias, activation), probability, seed), which after a relu saves one tensor instead of two
// for the backward pass.
Tensor linear_dropout(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                      double probability, std::uint64_t seed);

// dX = dY W for d (tokens, out), in x's shape, added to the accumulated gradient of input number `input` of the call
// where the device can do so in the product.
Tensor linear_input_gradient(const Tensor& d, const Tensor& weight, const Shape& x_shape, BackwardCall& call,
                             std::size_t input);

// xs[i] W_i^T + b_i for blocks W_i of the rows of one weight, and b_i of its bias, of the given sizes. The gradient of
// the weight is written in place, part by part. Undefined xs have an undefined result.
std::vector<Tensor> linear_parts(const std::vector<Tensor>& xs, const Tensor& weight, const Tensor& bias,
                                 const std::vector<std::int64_t>& sizes);

}  // namespace headway::inline v0::internal
