// How CLIP's parameters begin: normal, with deviations by width and depth.
#include <cmath>
#include <string_view>

#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "models/clip_config.h"

namespace headway::inline v0::internal {
namespace {

double inverse_root(double size) { return 1.0 / std::sqrt(size); }

// The deviation of a parameter with more than one dimension, or of the class token.
double deviation_of(std::string_view name, const ClipPlan& plan) {
  const bool is_text = name.starts_with("text.");
  const StackOptions& stack = is_text ? plan.options.text.encoder : plan.options.picture.encoder;
  const ClipInitialValues& initial = plan.initial_values;
  const double factor = is_text ? initial.text_factor : initial.picture_factor;
  const double by_width = inverse_root(static_cast<double>(stack.width)) * factor;
  const double by_depth = by_width * inverse_root(2.0 * static_cast<double>(stack.layers.size()));
  if (name == "text_projection.weight") {
    return inverse_root(static_cast<double>(plan.options.text.encoder.width)) * initial.factor;
  }
  if (name == "picture_projection.weight") {
    return inverse_root(static_cast<double>(plan.options.picture.encoder.width)) * initial.factor;
  }
  if (name.ends_with("class_token") || name.ends_with("attention.output.weight")) return by_width;
  if (name.ends_with("feed_forward.up.weight")) return by_width / std::sqrt(2.0);
  if (name.find(".layers.") != std::string_view::npos) return by_depth;
  return (is_text ? 0.02 : initial.picture_deviation) * factor;  // embeddings, positions, patches
}

}  // namespace

void set_clip_initial_values(const Module& model, const ClipPlan& plan) {
  const NoGradGuard guard;
  for (const auto& [name, parameter] : model.named_parameters()) {
    Tensor values = parameter.detach();
    if (name == "logit_scale") {
      values.fill(plan.options.initial_logit_scale);
    } else if (parameter.rank() == 1 && !name.ends_with("class_token")) {
      values.fill(name.ends_with("norm.weight") ? 1.0 : 0.0);
    } else {
      values.copy_from(scale(Tensor::randn(parameter.shape(), next_random_seed()), deviation_of(name, plan)));
    }
  }
}

}  // namespace headway::inline v0::internal
