// A small network to train in tests: two layers with dropout between them, and batches made from their numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headway/module.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "headway/training.h"

namespace headway_test {

class TinyLayer : public headway::Module {
 public:
  TinyLayer(std::int64_t in, std::int64_t out, std::uint64_t seed, headway::DType dtype) {
    weight_ = add_parameter("weight", headway::Tensor::uniform({out, in}, -0.5, 0.5, seed, dtype));
    bias_ = add_parameter("bias", headway::Tensor::zeros({out}, dtype));
  }
  headway::Tensor forward(const headway::Tensor& x) const { return headway::linear(x, weight_.get(), bias_.get()); }

  headway::Parameter weight_;  // [out, in]
  headway::Parameter bias_;    // [out]
};

struct TinyOptions {
  std::int64_t width = 16;
  std::int64_t batch = 8;
  double dropout = 0.1;
  headway::DType dtype = headway::DType::float32;
  std::uint64_t seed = 7;
};

class TinyModel : public headway::Module {
 public:
  explicit TinyModel(const TinyOptions& options = {})
      : options_(options),
        first_(kInputs, options.width, options.seed, options.dtype),
        second_(options.width, kOutputs, options.seed + 1, options.dtype) {
    add_module("layers.0", first_);
    add_module("layers.1", second_);
  }

  // The mean squared error of the batch of that number; the random stream decides what is dropped.
  headway::Tensor loss(std::int64_t index) const {
    const auto seed = static_cast<std::uint64_t>(index) + 100;
    const headway::Tensor x =
        headway::Tensor::randn({options_.batch, kInputs}, seed, options_.dtype).to(first_.weight_.get().device());
    headway::Tensor hidden = headway::relu(first_.forward(x));
    hidden = headway::dropout(hidden, options_.dropout, headway::next_random_seed());
    const headway::Tensor error = second_.forward(hidden) - x.slice(1, 0, kOutputs);
    return headway::mean(error * error);
  }

  headway::BatchLoss operator()(const headway::BatchPosition& position) const {
    return {.loss = loss(position.index), .tokens = options_.batch};
  }

  static constexpr std::int64_t kInputs = 6;
  static constexpr std::int64_t kOutputs = 3;

  TinyOptions options_;
  TinyLayer first_;
  TinyLayer second_;
};

}  // namespace headway_test
