#include "base/check.h"
#include "headway/layers.h"
#include "nn/initial_values.h"

namespace headway::inline v0 {

Embedding::Embedding(const EmbeddingOptions& options) : options_(options) {
  internal::check(options.count > 0 && options.width > 0, "Embedding: count is ", options.count, " and width is ",
                  options.width, ", expected both above 0");
  auto& padding = options_.padding_index;
  if (padding) {
    internal::check(*padding >= -options.count && *padding < options.count, "Embedding: padding_index is ", *padding,
                    ", expected one of ", options.count, " rows");
    if (*padding < 0) *padding += options.count;
  }
  Tensor weight = internal::normal({options.count, options.width}, options.dtype);
  if (padding && !internal::skips_initial_values()) weight.select(0, *padding).fill(0);
  weight_ = add_parameter("weight", weight);
}

Tensor Embedding::forward(const Tensor& indices) const {
  return embedding(weight_.get(), indices, options_.padding_index);
}

}  // namespace headway::inline v0
