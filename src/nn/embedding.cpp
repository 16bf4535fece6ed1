#include "base/check.h"
#include "headway/layers.h"
#include "nn/initial_values.h"
#include "nn/quantized_product.h"

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
  Tensor weight = internal::normal({options.count, options.width}, internal::computing_dtype(options.dtype));
  if (padding && !internal::skips_initial_values()) weight.select(0, *padding).fill(0);
  if (options.dtype != DType::int8) {
    weight_ = add_parameter("weight", weight);
    return;
  }
  const internal::QuantizedWeight quantized = internal::initial_quantized(weight);
  weight_ = Parameter(quantized.values);
  add_parameter("weight", weight_);
  weight_scale_ = add_buffer("weight_scale", quantized.scales);
}

Tensor Embedding::forward(const Tensor& indices) const {
  if (weight_scale_.defined()) return internal::quantized_rows({weight_.get(), weight_scale_.get()}, indices);
  return embedding(weight_.get(), indices, options_.padding_index);
}

}  // namespace headway::inline v0
