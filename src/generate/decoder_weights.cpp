#include "generate/decoder_weights.h"

#include <cmath>
#include <string>

#include "base/check.h"
#include "headway/autograd.h"

namespace headway::inline v0::internal {
namespace {

// Reads parameters of one layer by name.
class LayerReader {
 public:
  LayerReader(const StateDict& state, std::int64_t layer)
      : state_(state), prefix_("decoder.layers." + std::to_string(layer) + ".") {}

  Tensor get(const std::string& name) const { return state_.at(prefix_ + name).detach(); }
  PackedWeight packed(const std::string& weight, const std::string& bias) const {
    return pack_weight(get(weight), get(bias));
  }
  NormWeights norm(const std::string& name) const { return {get(name + ".weight"), get(name + ".bias")}; }

 private:
  const StateDict& state_;
  std::string prefix_;
};

DecoderLayerWeights read_layer(const LayerReader& reader, std::int64_t width) {
  DecoderLayerWeights layer;
  layer.self_in = reader.packed("self_attn.in_proj_weight", "self_attn.in_proj_bias");
  layer.self_out = reader.packed("self_attn.out_proj.weight", "self_attn.out_proj.bias");
  layer.self_norm = reader.norm("norm1");
  const Tensor weight = reader.get("multihead_attn.in_proj_weight"), bias = reader.get("multihead_attn.in_proj_bias");
  layer.cross_query = pack_weight(weight.slice(0, 0, width), bias.slice(0, 0, width));
  layer.cross_memory_weight = weight.slice(0, width, 3 * width);
  layer.cross_memory_bias = bias.slice(0, width, 3 * width);
  layer.cross_out = reader.packed("multihead_attn.out_proj.weight", "multihead_attn.out_proj.bias");
  layer.cross_norm = reader.norm("norm2");
  layer.first = reader.packed("linear1.weight", "linear1.bias");
  layer.second = reader.packed("linear2.weight", "linear2.bias");
  layer.last_norm = reader.norm("norm3");
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
    weights.layers.push_back(read_layer(LayerReader(state, i), options.d_model));
  }
  weights.output = pack_weight(weights.embedding, state.at("final_logits_bias").detach().reshape({options.vocab_size}));
  weights.positions = sinusoidal_positions(options.max_position_embeddings, options.d_model, Sinusoid::halves)
                          .to(dtype)
                          .to(weights.device());
  weights.heads = options.decoder_attention_heads;
  weights.activation = options.activation;
  weights.embedding_scale = options.scale_embedding ? std::sqrt(static_cast<double>(options.d_model)) : 1.0;
  weights.start_token = options.decoder_start_token_id;
  weights.excluded_token = options.pad_token_id;
  return weights;
}

}  // namespace headway::inline v0::internal
