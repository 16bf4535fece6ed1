#include "nn/block_norm.h"

#include "nn/initial_values.h"
#include "nn/quantized_product.h"

namespace headway::inline v0::internal {

PlusOneNorm::PlusOneNorm(const BlockNormOptions& options) : epsilon_(options.epsilon) {
  weight_ = add_parameter("weight", constant({options.width}, 0.0, options.dtype));
}

Tensor PlusOneNorm::forward(const Tensor& x) const {
  if (item_size(x.dtype()) != 2) return rms_norm(x, add(weight_.get(), 1.0), epsilon_);
  // In 16 bits, 1 + weight would lose most of the weight.
  return rms_norm(x.to(DType::float32), add(weight_.get().to(DType::float32), 1.0), epsilon_).to(x.dtype());
}

BlockNorm BlockNorm::make(const BlockNormOptions& given) {
  BlockNormOptions options = given;
  options.dtype = computing_dtype(given.dtype);
  BlockNorm norm;
  switch (options.kind) {
    case NormKind::layer:
      norm.layer_.emplace(LayerNormOptions{
          .width = options.width, .epsilon = options.epsilon, .bias = options.bias, .dtype = options.dtype});
      break;
    case NormKind::rms:
      norm.rms_.emplace(RmsNormOptions{.width = options.width, .epsilon = options.epsilon, .dtype = options.dtype});
      break;
    case NormKind::rms_plus_one:
      norm.plus_one_.emplace(options);
      break;
  }
  return norm;
}

const Module& BlockNorm::module() const {
  if (layer_) return *layer_;
  if (rms_) return *rms_;
  return *plus_one_;
}

Tensor BlockNorm::forward(const Tensor& x) const {
  if (layer_) return layer_->forward(x);
  if (rms_) return rms_->forward(x);
  return plus_one_ ? plus_one_->forward(x) : x;
}

AddNorm BlockNorm::add_to(const Dropout& dropout, const Tensor& x, const Tensor& y) const {
  if (layer_) return dropout.add_to(x, y, *layer_);
  const Tensor sum = dropout.add_to(x, y);
  return {.normed = forward(sum), .sum = sum};
}

}  // namespace headway::inline v0::internal
