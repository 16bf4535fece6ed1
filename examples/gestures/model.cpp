#include "gestures/model.h"

#include "support/flat_config.h"

namespace gestures {

using headway::Tensor;

GestureModel::GestureModel(const GestureOptions& options)
    : options_(options),
      points_({.in_features = 2, .out_features = options.width}),
      positions_({.max_length = kPoints + 1, .width = options.width}),
      encoder_({.layer = {.d_model = options.width,
                          .nhead = options.heads,
                          .dim_feedforward = options.hidden,
                          .dropout = 0.0,
                          .activation = headway::Activation::gelu,
                          .norm_first = true},
                .num_layers = options.layers,
                .final_norm = true}),
      output_({.in_features = options.width, .out_features = kClasses}) {
  add_module("points", points_);
  class_token_ =
      add_parameter("class_token", headway::scale(Tensor::randn({1, options.width}, headway::next_random_seed()), 0.1));
  add_module("positions", positions_);
  add_module("encoder", encoder_);
  add_module("output", output_);
}

GestureResult GestureModel::forward(const Tensor& points, headway::Weights weights) const {
  // A finger moves by a few hundredths of the picture's width.
  const Tensor x = points_.forward(points * 10.0);  // (batch, 16, width)
  const Tensor first = class_token_.get().unsqueeze(0).expand({points.size(0), 1, options_.width});
  const auto encoded =
      encoder_.forward({.source = positions_.forward(headway::concat({first, x}, 1)), .weights = weights});
  return {.logits = output_.forward(encoded.output.select(1, 0)), .weights = encoded.weights};
}

void GestureModel::save(const std::filesystem::path& directory) const {
  std::filesystem::create_directories(directory);
  example::save_weights(*this, directory / "model.safetensors");
  example::write_flat_config(directory / "config.json", {{"width", options_.width},
                                                         {"heads", options_.heads},
                                                         {"layers", options_.layers},
                                                         {"hidden", options_.hidden},
                                                         {"trained_on_blocks", options_.blocks ? 1 : 0}});
}

GestureModel GestureModel::load(const std::filesystem::path& directory) {
  const example::FlatConfig config(directory / "config.json");
  const GestureOptions options = {.width = config.between("width", 1, 4096),
                                  .heads = config.between("heads", 1, 64),
                                  .layers = config.between("layers", 1, 64),
                                  .hidden = config.between("hidden", 1, 16384),
                                  .blocks = config.between("trained_on_blocks", 0, 1) == 1};
  config.check_divides("heads", options.width);
  GestureModel model(options);
  example::load_weights(model, directory / "model.safetensors");
  return model;
}

}  // namespace gestures
