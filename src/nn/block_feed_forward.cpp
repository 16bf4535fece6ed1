#include "nn/block_feed_forward.h"

#include "core/autograd.h"
#include "ops/linear.h"

namespace headway::inline v0::internal {
namespace {

LinearOptions to_hidden(const BlockOptions& options, std::int64_t features, Activation activation) {
  return {.in_features = options.width,
          .out_features = features,
          .bias = options.feed_forward_bias,
          .activation = activation,
          .dtype = options.dtype};
}

}  // namespace

BlockFeedForward::BlockFeedForward(const BlockOptions& options)
    : activation_(options.activation),
      hidden_(options.hidden),
      down_({.in_features = options.hidden,
             .out_features = options.width,
             .bias = options.feed_forward_bias,
             .dtype = options.dtype}),
      dropout_(options.activation_dropout) {
  if (options.gated && options.fused_gate_up) {
    gate_up_.emplace(to_hidden(options, 2 * options.hidden, Activation::none));
    add_module("gate_up", *gate_up_);
    if (options.dtype == DType::int8) gate_up_product_ = std::make_shared<QuantizedProduct>();
  } else {
    up_.emplace(to_hidden(options, options.hidden, options.gated ? Activation::none : options.activation));
    add_module("up", *up_);
  }
  if (options.gated && !gate_up_) {
    gate_.emplace(to_hidden(options, options.hidden, options.activation));
    add_module("gate", *gate_);
  }
  add_module("down", down_);
  add_module("dropout", dropout_);
}

Tensor BlockFeedForward::gated_hidden(const Tensor& x) const {
  if (gate_) return mul(gate_->forward(x), up_->forward(x));
  const Tensor& weight = gate_up_->weight().get();
  const Tensor& bias = gate_up_->bias().get();
  if (gate_up_product_) {
    return gate_up_product_->forward(x, {weight, gate_up_->weight_scale().get()}, bias,
                                     {.activation = activation_, .gated = true});
  }
  if (needs_gradient(x, weight, bias)) {
    const std::vector<Tensor> parts = linear_parts({x, x}, weight, bias, {hidden_, hidden_});
    return mul(activate(parts[0], activation_), parts[1]);
  }
  // The activation is part of the product of the gate.
  const auto part = [&](std::int64_t begin, Activation activation) {
    return linear(x, weight.slice(0, begin, begin + hidden_),
                  bias.defined() ? bias.slice(0, begin, begin + hidden_) : bias, activation);
  };
  return mul(part(0, activation_), part(hidden_, Activation::none));
}

Tensor BlockFeedForward::forward(const Tensor& x) const {
  if (!gate_ && !gate_up_) return down_.forward(dropout_.forward(*up_, x));
  return down_.forward(dropout_.forward(gated_hidden(x)));
}

}  // namespace headway::inline v0::internal
