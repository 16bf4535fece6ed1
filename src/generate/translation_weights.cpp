// The decoder of a TranslationModel: Marian's, with norms after the sublayers.
#include <cmath>
#include <string>

#include "base/check.h"
#include "generate/parameter_reader.h"
#include "headway/autograd.h"

namespace headway::inline v0::internal {
namespace {

DecoderLayerWeights read_translation_layer(const ParameterReader& reader, const TranslationModelOptions& options) {
  const std::int64_t width = options.d_model, heads = options.decoder_attention_heads, head_dim = width / heads;
  const auto packed = [&](const std::string& weight, const std::string& bias) {
    return pack_weight(reader.get(weight), reader.get(bias));
  };
  const StepScores scores = {
      .heads = heads, .kv_heads = heads, .head_dim = head_dim, .scale = 1 / std::sqrt(static_cast<double>(head_dim))};
  DecoderLayerWeights layer;
  layer.self.place = NormPlace::after;
  layer.self.norm = reader.norm("norm1", NormKind::layer, 1e-5);
  layer.self.in = {packed("self_attn.in_proj_weight", "self_attn.in_proj_bias")};
  layer.self.out = packed("self_attn.out_proj.weight", "self_attn.out_proj.bias");
  layer.self.scores = scores;
  const Tensor weight = reader.get("multihead_attn.in_proj_weight"), bias = reader.get("multihead_attn.in_proj_bias");
  AttentionWeights& cross = layer.cross.emplace();
  cross.place = NormPlace::after;
  cross.norm = reader.norm("norm2", NormKind::layer, 1e-5);
  cross.in = {pack_weight(weight.slice(0, 0, width), bias.slice(0, 0, width))};
  cross.memory_weight = weight.slice(0, width, 3 * width);
  cross.memory_bias = bias.slice(0, width, 3 * width);
  cross.out = packed("multihead_attn.out_proj.weight", "multihead_attn.out_proj.bias");
  cross.scores = scores;
  layer.feed_forward.place = NormPlace::after;
  layer.feed_forward.norm = reader.norm("norm3", NormKind::layer, 1e-5);
  layer.feed_forward.in = {packed("linear1.weight", "linear1.bias")};
  layer.feed_forward.out = packed("linear2.weight", "linear2.bias");
  layer.feed_forward.activation = options.activation;
  return layer;
}

}  // namespace

DecoderWeights decoder_weights(const TranslationModel& model) {
  const NoGradGuard guard;
  const StateDict state = model.state_dict();
  const TranslationModelOptions& options = model.options();
  DecoderWeights weights;
  weights.embedding = state.at("shared.weight").detach().contiguous();
  const DType dtype = weights.embedding.dtype();
  check(dtype == DType::float32 || !weights.device().is_cpu(), "search: the model is of ", dtype,
        " on the CPU, expected float32");
  for (std::int64_t i = 0; i < options.decoder_layers; ++i) {
    const ParameterReader reader(state, "decoder.layers." + std::to_string(i) + ".");
    weights.layers.push_back(read_translation_layer(reader, options));
  }
  weights.output = pack_weight(weights.embedding, state.at("final_logits_bias").detach().reshape({options.vocab_size}));
  weights.positions = sinusoidal_positions(options.max_position_embeddings, options.d_model, Sinusoid::halves)
                          .to(dtype)
                          .to(weights.device());
  weights.embedding_scale = options.scale_embedding ? std::sqrt(static_cast<double>(options.d_model)) : 1.0;
  weights.most_positions = options.max_position_embeddings;
  weights.most_source = options.max_position_embeddings;
  weights.has_sources = true;
  return weights;
}

}  // namespace headway::inline v0::internal
