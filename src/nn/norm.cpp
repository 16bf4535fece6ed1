#include "base/check.h"
#include "headway/layers.h"
#include "nn/initial_values.h"

namespace headway::inline v0 {

LayerNorm::LayerNorm(const LayerNormOptions& options) : options_(options) {
  internal::check(options.width > 0, "LayerNorm: width is ", options.width, ", expected more than 0");
  if (options.affine) {
    weight_ = add_parameter("weight", internal::constant({options.width}, 1.0, options.dtype));
    if (options.bias) bias_ = add_parameter("bias", internal::constant({options.width}, 0.0, options.dtype));
  }
}

Tensor LayerNorm::forward(const Tensor& x) const {
  internal::check(x.rank() > 0 && x.size(-1) == options_.width, "LayerNorm: x is ", x, ", expected a last size of ",
                  options_.width);
  return layer_norm(x, weight_.get(), bias_.get(), options_.epsilon);
}

RmsNorm::RmsNorm(const RmsNormOptions& options) : options_(options) {
  internal::check(options.width > 0, "RmsNorm: width is ", options.width, ", expected more than 0");
  if (options.affine) weight_ = add_parameter("weight", internal::constant({options.width}, 1.0, options.dtype));
}

Tensor RmsNorm::forward(const Tensor& x) const {
  internal::check(x.rank() > 0 && x.size(-1) == options_.width, "RmsNorm: x is ", x, ", expected a last size of ",
                  options_.width);
  return rms_norm(x, weight_.get(), options_.epsilon);
}

}  // namespace headway::inline v0
