#include "models/model_head.h"

#include "base/check.h"
#include "nn/block_norm.h"
#include "nn/initial_values.h"
#include "nn/quantized_product.h"
#include "ops/frozen_row.h"

namespace headway::inline v0::internal {

// The output of a head. Parameters: weight, unless it is the embedding's; bias. Buffer of a weight in 8 bits:
// weight_scale.
class HeadOutput : public Module {
 public:
  HeadOutput(const HeadOptions& options, std::int64_t width, const std::optional<Embedding>& embedding, DType dtype)
      : frozen_row_(options.frozen_row) {
    const DType computing = computing_dtype(dtype);
    if (options.tied) {
      weight_ = embedding->weight();
      weight_scale_ = embedding->weight_scale();
    } else {
      add_weight(fan_in_uniform({options.labels, width}, width, computing), dtype);
    }
    if (options.bias && options.trained_bias) bias_ = add_parameter("bias", constant({options.labels}, 0.0, computing));
    // Initial values are of parameters alone.
    if (options.bias && !options.trained_bias) bias_ = add_buffer("bias", Tensor::zeros({options.labels}, computing));
    if (weight_scale_.defined()) product_ = std::make_shared<QuantizedProduct>();
  }
  Tensor forward(const Tensor& x) const {
    const Tensor& weight = weight_.get();
    if (product_) return product_->forward(x, {weight, weight_scale_.get()}, bias_.get());
    return linear(x, frozen_row_ ? with_frozen_row(weight, *frozen_row_) : weight, bias_.get());
  }

 private:
  void add_weight(const Tensor& weight, DType dtype) {
    if (dtype != DType::int8) {
      weight_ = add_parameter("weight", weight);
      return;
    }
    const QuantizedWeight quantized = initial_quantized(weight);
    weight_ = Parameter(quantized.values);
    add_parameter("weight", weight_);
    weight_scale_ = add_buffer("weight_scale", quantized.scales);
  }

  Parameter weight_;        // (labels, width)
  Parameter weight_scale_;  // (labels), of a weight in 8 bits
  Parameter bias_;          // (labels)
  std::shared_ptr<QuantizedProduct> product_;
  std::optional<std::int64_t> frozen_row_;
};

struct ModelHead::Parts {
  HeadOptions options;
  std::optional<Linear> dense;
  BlockNorm norm;
  HeadOutput output;
  Dropout dropout;
};

ModelHead::ModelHead(const HeadOptions& options, const StackOptions& stack, const std::optional<Embedding>& embedding,
                     DType dtype) {
  check(options.labels > 0, "TransformerModel: labels of the head is ", options.labels, ", expected more than 0");
  check(!options.tied || embedding.has_value(), "TransformerModel: the head is tied, and the model reads no tokens");
  const std::int64_t words = embedding ? embedding->weight().get().size(0) : 0;
  check(!options.tied || options.labels == words, "TransformerModel: the head has ", options.labels,
        " labels, expected the vocabulary's ", words, " where it is tied");
  auto parts = std::make_shared<Parts>(Parts{.options = options,
                                             .dense = {},
                                             .norm = {},
                                             .output = HeadOutput(options, stack.width, embedding, dtype),
                                             .dropout = Dropout(options.dropout)});
  if (options.dense) {
    parts->dense.emplace(LinearOptions{.in_features = stack.width,
                                       .out_features = stack.width,
                                       .bias = options.dense_bias,
                                       .activation = options.dense_activation,
                                       .dtype = dtype});
    add_module("dense", *parts->dense);
  }
  if (options.dense_norm) {
    parts->norm = BlockNorm::make({.kind = stack.norm,
                                   .width = stack.width,
                                   .epsilon = stack.norm_epsilon,
                                   .bias = stack.norm_bias,
                                   .dtype = dtype});
    add_module("norm", parts->norm.module());
  }
  add_module("output", parts->output);
  add_module("dropout", parts->dropout);
  parts_ = parts;
}

Tensor ModelHead::forward(const Tensor& hidden) const {
  const HeadOptions& options = parts_->options;
  Tensor x = hidden;
  if (options.dropout_before_dense) x = parts_->dropout.forward(x);
  if (parts_->dense) x = parts_->dense->forward(x);
  x = parts_->dropout.forward(parts_->norm.forward(x));
  if (options.logit_scale != 1.0) x = scale(x, options.logit_scale);
  const Tensor logits = parts_->output.forward(x);
  if (!options.softcap) return logits;
  return scale(tanh(scale(logits, 1.0 / *options.softcap)), *options.softcap);
}

}  // namespace headway::inline v0::internal
