#include "video/model.h"

#include <map>

#include "support/flat_config.h"

namespace video {

using headway::Tensor;

DividedLayer::DividedLayer(const VideoOptions& options)
    : space_norm_({.width = options.width}),
      space_({.embed_dim = options.width, .num_heads = options.heads}),
      time_norm_({.width = options.width}),
      time_({.embed_dim = options.width, .num_heads = options.heads}),
      feed_forward_norm_({.width = options.width}),
      feed_forward_({.width = options.width, .hidden = options.hidden, .activation = headway::Activation::gelu}) {
  add_module("space_norm", space_norm_);
  add_module("space", space_);
  add_module("time_norm", time_norm_);
  add_module("time", time_);
  add_module("feed_forward_norm", feed_forward_norm_);
  add_module("feed_forward", feed_forward_);
}

DividedResult DividedLayer::forward(const Tensor& input, headway::Weights weights) const {
  const std::int64_t batch = input.size(0), times = input.size(1), places = input.size(2), width = input.size(3);
  // Space: the patches of one time look at each other. Times are part of the batch.
  Tensor x = input.reshape({batch * times, places, width});
  const auto space = space_.forward({.query = space_norm_.forward(x), .weights = weights});
  x = (x + space.output).reshape({batch, times, places, width});
  // Time: the patches of one place look at each other. Places are part of the batch.
  x = x.transpose(1, 2).reshape({batch * places, times, width});
  const auto time = time_.forward({.query = time_norm_.forward(x), .weights = weights});
  x = (x + time.output).reshape({batch, places, times, width}).transpose(1, 2).contiguous();
  return {
      .output = x + feed_forward_.forward(feed_forward_norm_.forward(x)), .space = space.weights, .time = time.weights};
}

VideoModel::VideoModel(const VideoOptions& options)
    : options_(options),
      patches_({.in_features = options.tubelet * options.patch * options.patch,
                .out_features = options.stem,
                .activation = headway::Activation::gelu}),
      tokens_({.in_features = options.stem, .out_features = options.width}),
      norm_({.width = options.width}),
      answer_({.embed_dim = options.width, .num_heads = options.heads}),
      answer_norm_({.width = options.width}),
      action_({.in_features = options.width, .out_features = kActionCount}),
      digit_({.in_features = options.width, .out_features = kDigits}) {
  const auto random = [&](std::int64_t rows) {
    return headway::scale(Tensor::randn({rows, options.width}, headway::next_random_seed()), 0.1);
  };
  add_module("patches", patches_);
  add_module("tokens", tokens_);
  space_positions_ = add_parameter("space_positions", random(options.places()));
  time_positions_ = add_parameter("time_positions", random(options.times()));
  for (std::int64_t i = 0; i < options.layers; ++i) {
    add_module("layers." + std::to_string(i), layers_.emplace_back(options));
  }
  add_module("norm", norm_);
  questions_ = add_parameter("questions", random(2));
  add_module("answer", answer_);
  add_module("answer_norm", answer_norm_);
  add_module("action", action_);
  add_module("digit", digit_);
}

VideoResult VideoModel::forward(const Tensor& clips, headway::Weights weights) const {
  const std::int64_t batch = clips.size(0), times = options_.times(), columns = options_.columns();
  const std::int64_t patch = options_.patch, places = options_.places();
  // Blocks of tubelet x patch x patch pixels: [batch, T, P, pixels of a block].
  std::vector<Tensor> blocks;
  for (std::int64_t place = 0; place < places; ++place) {
    const std::int64_t top = place / columns * options_.stride, left = place % columns * options_.stride;
    blocks.push_back(clips.slice(2, top, top + patch)
                         .slice(3, left, left + patch)
                         .reshape({batch, times, options_.tubelet * patch * patch}));
  }
  const Tensor pixels = (headway::stack(blocks, 2) - 0.25) * 4.0;  // about zero, with a deviation of about one
  Tensor x = tokens_.forward(patches_.forward(pixels)) + space_positions_.get() + time_positions_.get().unsqueeze(1);
  VideoResult result;
  for (const DividedLayer& layer : layers_) {
    const DividedResult step = layer.forward(x, weights);
    x = step.output;
    result.space.push_back(step.space);
    result.time.push_back(step.time);
  }
  // Two learned questions look at all patches of all times.
  const Tensor memory = norm_.forward(x.reshape({batch, times * places, options_.width}));
  const auto answer = answer_.forward(
      {.query = questions_.get().unsqueeze(0).expand({batch, 2, options_.width}), .key = memory, .weights = weights});
  const Tensor answers = answer_norm_.forward(answer.output);
  result.actions = action_.forward(answers.select(1, 0));
  result.digits = digit_.forward(answers.select(1, 1));
  result.answers = answer.weights;
  return result;
}

void VideoModel::save(const std::filesystem::path& directory) const {
  std::filesystem::create_directories(directory);
  example::save_weights(*this, directory / "model.safetensors");
  example::write_flat_config(directory / "config.json", {{"frames", kFrames},
                                                         {"side", kSide},
                                                         {"tubelet", options_.tubelet},
                                                         {"patch", options_.patch},
                                                         {"stride", options_.stride},
                                                         {"stem", options_.stem},
                                                         {"width", options_.width},
                                                         {"heads", options_.heads},
                                                         {"layers", options_.layers},
                                                         {"hidden", options_.hidden}});
}

VideoModel VideoModel::load(const std::filesystem::path& directory) {
  const example::FlatConfig config(directory / "config.json");
  config.expect("frames", kFrames);
  config.expect("side", kSide);
  VideoOptions options = {.tubelet = config.between("tubelet", 1, kFrames),
                          .patch = config.between("patch", 1, kSide),
                          .stride = config.between("stride", 1, kSide),
                          .stem = config.between("stem", 1, 16384),
                          .width = config.between("width", 1, 4096),
                          .heads = config.between("heads", 1, 64),
                          .layers = config.between("layers", 1, 64),
                          .hidden = config.between("hidden", 1, 16384)};
  config.check_divides("tubelet", kFrames);
  config.check_divides("heads", options.width);
  VideoModel model(options);
  example::load_weights(model, directory / "model.safetensors");
  return model;
}

}  // namespace video
