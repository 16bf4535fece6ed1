// The small layers, with the names, defaults and initial values of torch.nn.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "headway/export.h"
#include "headway/module.h"
#include "headway/ops.h"

namespace headway {
inline namespace v0 {

namespace internal {
class DeviceCopies;
class QuantizedProduct;
}  // namespace internal

struct LinearOptions {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  Activation activation = Activation::none;  // fused into the product
  // int8: a weight of whole numbers with a float32 scale for each row, for evaluation on the CPU; the rest is float32.
  DType dtype = DType::float32;
};
// activation(x W^T + b): [..., in_features] -> [..., out_features]. Parameters: weight, bias. Buffer of a weight in
// 8 bits: weight_scale.
class HEADWAY_API Linear : public Module {
 public:
  explicit Linear(const LinearOptions& options);
  Tensor forward(const Tensor& x) const;
  const Parameter& weight() const { return weight_; }
  // [out_features] float32; undefined unless the weight is int8.
  const Parameter& weight_scale() const { return weight_scale_; }
  const Parameter& bias() const { return bias_; }
  const LinearOptions& options() const { return options_; }

 private:
  LinearOptions options_;
  Parameter weight_;
  Parameter weight_scale_;
  Parameter bias_;
  std::shared_ptr<internal::QuantizedProduct> product_;  // of a weight in 8 bits
};

struct LayerNormOptions {
  std::int64_t width = 0;
  double epsilon = 1e-5;
  bool affine = true;
  bool bias = true;
  DType dtype = DType::float32;
};
// Normalises the last dimension. Parameters: weight, bias.
class HEADWAY_API LayerNorm : public Module {
 public:
  explicit LayerNorm(const LayerNormOptions& options);
  Tensor forward(const Tensor& x) const;
  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }
  const LayerNormOptions& options() const { return options_; }

 private:
  LayerNormOptions options_;
  Parameter weight_;
  Parameter bias_;
};

struct RmsNormOptions {
  std::int64_t width = 0;
  std::optional<double> epsilon = {};  // default: the dtype's machine epsilon
  bool affine = true;
  DType dtype = DType::float32;
};
// Divides the last dimension by its root mean square. Parameter: weight.
class HEADWAY_API RmsNorm : public Module {
 public:
  explicit RmsNorm(const RmsNormOptions& options);
  Tensor forward(const Tensor& x) const;

 private:
  RmsNormOptions options_;
  Parameter weight_;
};

struct EmbeddingOptions {
  std::int64_t count = 0;
  std::int64_t width = 0;
  std::optional<std::int64_t> padding_index = {};  // its row starts at zero and stays there
  DType dtype = DType::float32;                    // int8: as in LinearOptions
};
// Rows of a table by integer: [...] -> [..., width]. Parameter: weight. Buffer of one in 8 bits: weight_scale.
class HEADWAY_API Embedding : public Module {
 public:
  explicit Embedding(const EmbeddingOptions& options);
  Tensor forward(const Tensor& indices) const;
  const Parameter& weight() const { return weight_; }
  // [count] float32; undefined unless the weight is int8.
  const Parameter& weight_scale() const { return weight_scale_; }

 private:
  EmbeddingOptions options_;
  Parameter weight_;
  Parameter weight_scale_;
};

// Drops elements in training mode; the identity in evaluation mode.
class HEADWAY_API Dropout : public Module {
 public:
  explicit Dropout(double probability = 0.5);
  Tensor forward(const Tensor& x) const;
  // dropout(linear(x)); where possible, one tensor instead of two is kept for the backward pass.
  Tensor forward(const Linear& linear, const Tensor& x) const;
  // x + dropout(y) in one pass.
  Tensor add_to(const Tensor& x, const Tensor& y) const;
  // The same sum and its norm in one pass.
  AddNorm add_to(const Tensor& x, const Tensor& y, const LayerNorm& norm) const;

 private:
  double probability_;
};

struct PositionsOptions {
  std::int64_t max_length = 5000;
  std::int64_t width = 0;
  double dropout = 0.0;
  Sinusoid layout = Sinusoid::interleaved;  // of SinusoidalPositions
  DType dtype = DType::float32;
};
// Adds the paper's sines and cosines to x [batch, length, width]; `offset` is the position of the first row.
// No parameters. The table is not part of the state; each device that x is on gets a copy of it.
class HEADWAY_API SinusoidalPositions : public Module {
 public:
  explicit SinusoidalPositions(const PositionsOptions& options);
  Tensor forward(const Tensor& x, std::int64_t offset = 0) const;

 private:
  PositionsOptions options_;
  std::shared_ptr<internal::DeviceCopies> table_;  // (max_length, width)
  Dropout dropout_;
};

// Adds a learned row per position. Parameter: weight [max_length, width].
class HEADWAY_API LearnedPositions : public Module {
 public:
  explicit LearnedPositions(const PositionsOptions& options);
  Tensor forward(const Tensor& x, std::int64_t offset = 0) const;

 private:
  PositionsOptions options_;
  Parameter weight_;
  Dropout dropout_;
};

struct FeedForwardOptions {
  std::int64_t width = 0;
  std::int64_t hidden = 0;  // default: 4 * width
  Activation activation = Activation::relu;
  bool gated = false;  // linear2(activation(linear1(x)) * gate(x)), as in LLaMA with silu
  double dropout = 0.0;
  bool bias = true;
  DType dtype = DType::float32;
};
// Two products with an activation between: linear1, linear2, and gate where gated.
class HEADWAY_API FeedForward : public Module {
 public:
  explicit FeedForward(const FeedForwardOptions& options);
  Tensor forward(const Tensor& x) const;

 private:
  FeedForwardOptions options_;
  Linear linear1_;
  std::optional<Linear> gate_;
  Linear linear2_;
  Dropout dropout_;
};

}  // namespace v0
}  // namespace headway
