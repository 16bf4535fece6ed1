#include "models/model_initial_values.h"

#include <cmath>
#include <string>
#include <string_view>

#include "headway/autograd.h"
#include "headway/random.h"

namespace headway::inline v0::internal {
namespace {

using Rule = InitialValues::Rule;

bool has_part(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

// The deviation of one parameter's values.
class Deviations {
 public:
  explicit Deviations(const TransformerModelOptions& options) : options_(options) {}

  const InitialValues& rule_of(std::string_view name) const {
    const bool own = options_.encoder_initial_values && name.starts_with("encoder.");
    return own ? *options_.encoder_initial_values : options_.initial_values;
  }

  double of(std::string_view name) {
    deviation_ = rule_of(name).deviation;
    switch (rule_of(name).rule) {
      case Rule::deit:
        // Tokens and positions begin at zero.
        return name.ends_with("_token") || has_part(name, ".positions.") ? 0.0 : deviation_;
      case Rule::normal:
        return deviation_;
      case Rule::gpt2:
        return is_residual(name) ? by_depth(name) : deviation_;
      case Rule::modernbert:
        return of_modernbert(name);
      case Rule::t5:
        return deviation_ * of_t5(name);
    }
    return deviation_;
  }

  const StackOptions& stack_of(std::string_view name) const {
    const bool only_encoder = options_.kind == ModelKind::encoder;
    return only_encoder || name.substr(0, 8) == "encoder." ? options_.encoder : options_.decoder;
  }

 private:
  static bool is_residual(std::string_view name) {
    return has_part(name, ".attention.output.") || has_part(name, ".cross.output.") ||
           has_part(name, ".feed_forward.down.");
  }
  // Each of two residual connections per layer adds to the variance.
  double by_depth(std::string_view name) const {
    return deviation_ / std::sqrt(2.0 * static_cast<double>(stack_of(name).layers.size()));
  }

  double of_modernbert(std::string_view name) const {
    const bool classifies = options_.head.kind != HeadKind::language_model;
    if (has_part(name, "head.output.") && classifies) return inverse_root(stack_of(name).width);
    return is_residual(name) || has_part(name, "head.") ? by_depth(name) : deviation_;
  }

  double of_t5(std::string_view name) const {
    const StackOptions& stack = stack_of(name);
    if (has_part(name, "embedding.")) return 1.0;
    if (has_part(name, "head.output.")) {
      const bool plain = options_.head.kind == HeadKind::language_model || options_.head.kind == HeadKind::tokens;
      return plain ? 1.0 : inverse_root(stack.width);
    }
    if (stack.layers.empty()) return inverse_root(stack.width);
    const BlockOptions& layer = stack.layers.front();
    const std::int64_t head_dim = layer.head_dim > 0 ? layer.head_dim : layer.width / layer.heads;
    if (has_part(name, ".down.")) return inverse_root(layer.hidden > 0 ? layer.hidden : 4 * layer.width);
    if (has_part(name, ".query.")) return inverse_root(layer.width * head_dim);
    if (has_part(name, ".output.")) return inverse_root(layer.heads * head_dim);
    return inverse_root(layer.width);
  }

  static double inverse_root(std::int64_t size) { return 1.0 / std::sqrt(static_cast<double>(size)); }

  const TransformerModelOptions& options_;
  double deviation_ = 0.0;
};

// Standard normal values; those beyond the cutoff are drawn again.
Tensor truncated_normal(const Shape& shape, double cutoff) {
  const Tensor values = Tensor::randn(shape, next_random_seed());
  float* value = values.data<float>();
  for (bool again = true; again;) {
    again = false;
    Tensor others;
    for (std::int64_t i = 0; i < values.element_count(); ++i) {
      if (std::abs(value[i]) <= cutoff) continue;
      if (!others.defined()) others = Tensor::randn(shape, next_random_seed());
      value[i] = others.data<float>()[i];
      again = true;
    }
  }
  return values;
}

// The weight of a norm, which multiplies by 1 at first.
double norm_weight(const InitialValues& initial, NormKind kind) {
  const double factor = initial.rule == Rule::t5 ? initial.deviation : 1.0;
  return kind == NormKind::rms_plus_one ? 0.0 : factor;
}

}  // namespace

void set_initial_values(const Module& model, const TransformerModelOptions& options) {
  const NoGradGuard guard;
  Deviations deviations(options);
  for (const auto& [name, parameter] : model.named_parameters()) {
    Tensor values = parameter.detach();
    const InitialValues& initial = deviations.rule_of(name);
    if (parameter.rank() == 1 && !name.ends_with("_token")) {
      const bool is_norm_weight = name.ends_with("norm.weight");
      values.fill(is_norm_weight ? norm_weight(initial, deviations.stack_of(name).norm) : 0.0);
      continue;
    }
    const Tensor drawn = initial.rule == Rule::modernbert ? truncated_normal(parameter.shape(), initial.cutoff)
                                                          : Tensor::randn(parameter.shape(), next_random_seed());
    values.copy_from(scale(drawn, deviations.of(name)));
    const bool is_embedding = name == "embedding.weight" || name.ends_with("coder.embedding.weight");
    if (is_embedding && options.padding_row) values.select(0, *options.padding_row).fill(0);
  }
}

}  // namespace headway::inline v0::internal
