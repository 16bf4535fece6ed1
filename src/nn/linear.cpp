#include "base/check.h"
#include "headway/layers.h"
#include "nn/initial_values.h"
#include "nn/quantized_product.h"

namespace headway::inline v0 {

Linear::Linear(const LinearOptions& options) : options_(options) {
  internal::check(options.in_features > 0 && options.out_features > 0, "Linear: in_features is ", options.in_features,
                  " and out_features is ", options.out_features, ", expected both above 0");
  const DType dtype = internal::computing_dtype(options.dtype);
  const Tensor weight =
      internal::fan_in_uniform({options.out_features, options.in_features}, options.in_features, dtype);
  Tensor bias;
  if (options.bias) bias = internal::fan_in_uniform({options.out_features}, options.in_features, dtype);
  if (options.dtype != DType::int8) {
    weight_ = add_parameter("weight", weight);
    bias_ = add_parameter("bias", bias);
    return;
  }
  const internal::QuantizedWeight quantized = internal::initial_quantized(weight);
  weight_ = Parameter(quantized.values);
  add_parameter("weight", weight_);
  weight_scale_ = add_buffer("weight_scale", quantized.scales);
  if (options.bias) {
    bias_ = Parameter(bias);
    add_parameter("bias", bias_);
  }
  product_ = std::make_shared<internal::QuantizedProduct>();
}

Tensor Linear::forward(const Tensor& x) const {
  if (!product_) return linear(x, weight_.get(), bias_.get(), options_.activation);
  return product_->forward(x, {weight_.get(), weight_scale_.get()}, bias_.get(), {.activation = options_.activation});
}

}  // namespace headway::inline v0
