#include "models/model_front.h"

#include <optional>
#include <vector>

#include "base/check.h"
#include "nn/initial_values.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kTaps = 3;  // frames that a convolution of sound looks at

// "[batch, 3, 32, 48]"
std::string expected_features(const FrontOptions& options) {
  if (options.kind == FrontKind::sound) return "[batch, " + std::to_string(options.bins) + ", frames]";
  return "[batch, " + std::to_string(options.channels) + ", " + std::to_string(options.image_height) + ", " +
         std::to_string(options.image_width) + "]";
}

}  // namespace

// A convolution over 3 neighbouring frames, with a zero before the first and behind the last. Parameters as Conv1d's:
// weight [out, in, 3], bias [out].
class FrameConvolution : public Module {
 public:
  FrameConvolution(std::int64_t in, std::int64_t out, std::int64_t stride, DType dtype)
      : stride_(stride),
        weight_(add_parameter("weight", fan_in_uniform({out, in, kTaps}, in * kTaps, dtype))),
        bias_(add_parameter("bias", fan_in_uniform({out}, in * kTaps, dtype))) {}

  // gelu(convolution): [batch, frames, in] -> [batch, (frames - 1) / stride + 1, out]. The frames that each result
  // looks at are laid side by side, so that one product does it.
  Tensor forward(const Tensor& x) const {
    const Tensor zero = Tensor::zeros({x.size(0), 1, x.size(2)}, x.dtype(), x.device());
    const Tensor padded = concat({zero, x, zero}, 1);
    const std::int64_t frames = x.size(1), reach = (frames - 1) / stride_ * stride_ + 1;
    std::vector<Tensor> shifted;
    for (std::int64_t tap = 0; tap < kTaps; ++tap) shifted.push_back(padded.slice(1, tap, tap + reach, stride_));
    const Tensor& weight = weight_.get();
    const Tensor by_frame = weight.transpose(1, 2).reshape({weight.size(0), kTaps * weight.size(1)});
    return linear(concat(shifted, 2), by_frame, bias_.get(), Activation::gelu);
  }
  const Tensor& weight() const { return weight_.get(); }

 private:
  std::int64_t stride_;
  Parameter weight_;
  Parameter bias_;
};

void check_features(const char* function, const FrontOptions& options, const Tensor& features) {
  const std::string expected = expected_features(options);
  check(features.defined(), function, ": features is not given, expected floats ", expected);
  const bool is_sound = options.kind == FrontKind::sound;
  check(features.rank() == (is_sound ? 3 : 4) && is_floating(features.dtype()) && features.size(0) > 0, function,
        ": features is ", features, ", expected floats ", expected);
  if (is_sound) {
    check(features.size(1) == options.bins, function, ": features is ", features, ", which has ", features.size(1),
          " bins, and the model reads ", options.bins);
    check(features.size(2) > 0, function, ": features is ", features, ", expected at least one frame");
    return;
  }
  check(features.size(1) == options.channels, function, ": features is ", features, ", which has ", features.size(1),
        " channels, and the model reads ", options.channels);
  check(features.size(2) == options.image_height && features.size(3) == options.image_width, function,
        ": features are pictures of ", features.size(2), " x ", features.size(3), ", and the model reads ",
        options.image_height, " x ", options.image_width, " (height x width)");
}

struct ModelFront::Parts {
  FrontOptions options;
  std::optional<Linear> projection;
  Parameter class_token;         // (width)
  Parameter distillation_token;  // (width)
  std::optional<FrameConvolution> conv1;
  std::optional<FrameConvolution> conv2;

  Tensor patches(const Tensor& pictures) const;
};

ModelFront::ModelFront(const FrontOptions& options, std::int64_t width, DType dtype) {
  check_front(options);
  auto parts = std::make_shared<Parts>(Parts{
      .options = options, .projection = {}, .class_token = {}, .distillation_token = {}, .conv1 = {}, .conv2 = {}});
  if (options.kind == FrontKind::sound) {
    parts->conv1.emplace(options.bins, width, 1, dtype);
    parts->conv2.emplace(width, width, 2, dtype);
    add_module("conv1", *parts->conv1);
    add_module("conv2", *parts->conv2);
  } else {
    parts->projection.emplace(
        LinearOptions{.in_features = options.channels * options.patch_height * options.patch_width,
                      .out_features = width,
                      .bias = options.bias,
                      .dtype = dtype});
    add_module("projection", *parts->projection);
    const auto token = [&](const char* name) { return add_parameter(name, constant({width}, 0.0, dtype)); };
    if (options.class_token) parts->class_token = token("class_token");
    if (options.distillation_token) parts->distillation_token = token("distillation_token");
  }
  parts_ = parts;
}

// (batch, channels, height, width) -> (batch, positions, width of the model)
Tensor ModelFront::Parts::patches(const Tensor& pictures) const {
  const std::int64_t batch = pictures.size(0), channels = options.channels;
  const std::int64_t rows = options.image_height / options.patch_height;
  const std::int64_t columns = options.image_width / options.patch_width;
  const Tensor cut = pictures.reshape({batch, channels, rows, options.patch_height, columns, options.patch_width})
                         .permute({0, 2, 4, 1, 3, 5})
                         .reshape({batch, rows * columns, channels * options.patch_height * options.patch_width});
  const Tensor x = projection->forward(cut);
  std::vector<Tensor> all;
  for (const Parameter& token : {class_token, distillation_token}) {
    if (token.defined()) all.push_back(token.get().reshape({1, 1, x.size(2)}).expand({batch, 1, x.size(2)}));
  }
  if (all.empty()) return x;
  all.push_back(x);
  return concat(all, 1);
}

const Tensor& ModelFront::main_weight() const {
  return parts_->conv1 ? parts_->conv1->weight() : parts_->projection->weight().get();
}

Tensor ModelFront::forward(const Tensor& features) const {
  const Parts& parts = *parts_;
  if (parts.conv1) {
    const Tensor frames = features.transpose(1, 2);  // [batch, frames, bins]
    return parts.conv2->forward(parts.conv1->forward(frames));
  }
  return parts.patches(features);
}

}  // namespace headway::inline v0::internal
