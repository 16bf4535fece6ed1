#include "generate/decoder_step.h"

namespace headway::inline v0::internal {
namespace {

// x + f(x) with the norms around it: `y` is f's output before it is multiplied by its last matrix.
Tensor finish_sublayer(NormPlace place, const StepNormWeights& norm, const StepNormWeights& output_norm,
                       const PackedWeight& out, const Tensor& x, const Tensor& y) {
  switch (place) {
    case NormPlace::before:
      return linear_step(y, out, {.added = x});
    case NormPlace::after:
      return norm_step(linear_step(y, out, {.added = x}), norm);
    case NormPlace::both:
      break;
  }
  return add(x, norm_step(linear_step(y, out), output_norm));
}

const StepNormWeights& norm_before(NormPlace place, const StepNormWeights& norm) {
  static const auto* const none = new StepNormWeights();  // never destroyed, for threads that compute to the end
  return place == NormPlace::after ? *none : norm;
}

}  // namespace

Tensor project(const Tensor& x, const WeightParts& weights, const LinearStepOptions& options) {
  if (weights.size() == 1) return linear_step(x, weights.front(), options);
  const Tensor normed = norm_step(x, options.norm);
  std::vector<Tensor> parts;
  for (const PackedWeight& part : weights) parts.push_back(linear_step(normed, part));
  if (options.gated) return mul(activate(parts[0], options.activation), parts[1]);
  const Tensor joined = concat(parts, 1);
  return options.activation == Activation::none ? joined : activate(joined, options.activation);
}

Tensor project_attention(const AttentionWeights& weights, const Tensor& x) {
  return project(x, weights.in, {.norm = norm_before(weights.place, weights.norm)});
}

Tensor finish_attention(const AttentionWeights& weights, const Tensor& x, const Tensor& attended) {
  return finish_sublayer(weights.place, weights.norm, weights.output_norm, weights.out, x, attended);
}

Tensor project_memory(const AttentionWeights& weights, const Tensor& memory) {
  if (weights.memory_weight.defined()) return linear(memory, weights.memory_weight, weights.memory_bias);
  const std::int64_t sources = memory.size(0), length = memory.size(1);
  return linear_step(memory.reshape({sources * length, memory.size(2)}), weights.memory)
      .view({sources, length, weights.memory.outputs});
}

Tensor apply_feed_forward(const FeedForwardWeights& weights, const Tensor& x) {
  const Tensor hidden = project(
      x, weights.in,
      {.norm = norm_before(weights.place, weights.norm), .activation = weights.activation, .gated = weights.gated});
  return finish_sublayer(weights.place, weights.norm, weights.output_norm, weights.out, x, hidden);
}

Tensor embed_tokens(const DecoderWeights& weights, const Tensor& tokens, const Tensor& positions) {
  const Tensor& scales = weights.embedding_scales;
  const Tensor x =
      scales.defined()
          ? embed_step({weights.embedding, scales}, tokens, weights.positions, positions, weights.embedding_scale)
          : embed_step(weights.embedding, tokens, weights.positions, positions, weights.embedding_scale);
  return norm_step(x, weights.embedding_norm);
}

Tensor logits_of(const DecoderWeights& weights, const Tensor& x) {
  if (weights.logit_scale == 1.0 && weights.logit_softcap == 0.0) {
    return linear_step(x, weights.output, {.norm = weights.final_norm});
  }
  const Tensor logits = linear_step(scale(norm_step(x, weights.final_norm), weights.logit_scale), weights.output);
  if (weights.logit_softcap == 0.0) return logits;
  return scale(tanh(scale(logits, 1 / weights.logit_softcap)), weights.logit_softcap);
}

Tensor run_layers(const DecoderWeights& weights, std::size_t count, Tensor x, Attend attend_self,
                  Attend attend_source) {
  for (std::size_t i = 0; i < count; ++i) {
    const DecoderLayerWeights& layer = weights.layers[i];
    x = finish_attention(layer.self, x, attend_self(i, project_attention(layer.self, x)));
    if (layer.cross) x = finish_attention(*layer.cross, x, attend_source(i, project_attention(*layer.cross, x)));
    x = apply_feed_forward(layer.feed_forward, x);
  }
  return x;
}

}  // namespace headway::inline v0::internal
