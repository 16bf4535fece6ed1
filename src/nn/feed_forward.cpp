#include "base/check.h"
#include "headway/layers.h"

namespace headway::inline v0 {
namespace {

FeedForwardOptions with_hidden(FeedForwardOptions options) {
  if (options.hidden == 0) options.hidden = 4 * options.width;
  return options;
}

LinearOptions inner(const FeedForwardOptions& options, Activation activation) {
  return {.in_features = options.width,
          .out_features = options.hidden,
          .bias = options.bias,
          .activation = activation,
          .dtype = options.dtype};
}

}  // namespace

FeedForward::FeedForward(const FeedForwardOptions& options)
    : options_(with_hidden(options)),
      linear1_(inner(options_, options_.activation)),
      linear2_({.in_features = options_.hidden,
                .out_features = options_.width,
                .bias = options_.bias,
                .dtype = options_.dtype}),
      dropout_(options.dropout) {
  add_module("linear1", linear1_);
  if (options_.gated) {
    gate_.emplace(inner(options_, Activation::none));
    add_module("gate", *gate_);
  }
  add_module("linear2", linear2_);
  add_module("dropout", dropout_);
}

Tensor FeedForward::forward(const Tensor& x) const {
  if (!gate_) return linear2_.forward(dropout_.forward(linear1_, x));
  return linear2_.forward(dropout_.forward(mul(linear1_.forward(x), gate_->forward(x))));
}

}  // namespace headway::inline v0
