#include "base/check.h"
#include "headway/layers.h"
#include "nn/initial_values.h"

namespace headway::inline v0 {

Linear::Linear(const LinearOptions& options) : options_(options) {
  internal::check(options.in_features > 0 && options.out_features > 0, "Linear: in_features is ", options.in_features,
                  " and out_features is ", options.out_features, ", expected both above 0");
  weight_ = add_parameter("weight", internal::fan_in_uniform({options.out_features, options.in_features},
                                                             options.in_features, options.dtype));
  if (options.bias) {
    bias_ = add_parameter("bias", internal::fan_in_uniform({options.out_features}, options.in_features, options.dtype));
  }
}

Tensor Linear::forward(const Tensor& x) const { return linear(x, weight_.get(), bias_.get(), options_.activation); }

}  // namespace headway::inline v0
