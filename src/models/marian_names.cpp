#include "models/marian_names.h"

namespace headway::inline v0::internal {
namespace {

class Names {
 public:
  explicit Names(const TranslationModelOptions& options) : d_model_(options.d_model) {
    for (std::int64_t i = 0; i < options.encoder_layers; ++i) encoder_layer(i, options.encoder_ffn_dim);
    for (std::int64_t i = 0; i < options.decoder_layers; ++i) decoder_layer(i, options.decoder_ffn_dim);
  }

  std::vector<MarianTensor> take() { return std::move(tensors_); }

 private:
  void encoder_layer(std::int64_t layer, std::int64_t ffn_dim) {
    begin("encoder.layers." + std::to_string(layer) + ".");
    attention("self_attn", "self_attn");
    norm("norm1", "self_attn_layer_norm");
    feed_forward(ffn_dim);
    norm("norm2", "final_layer_norm");
  }

  void decoder_layer(std::int64_t layer, std::int64_t ffn_dim) {
    begin("decoder.layers." + std::to_string(layer) + ".");
    attention("self_attn", "self_attn");
    norm("norm1", "self_attn_layer_norm");
    attention("multihead_attn", "encoder_attn");
    norm("norm2", "encoder_attn_layer_norm");
    feed_forward(ffn_dim);
    norm("norm3", "final_layer_norm");
  }

  void begin(const std::string& prefix) { prefix_ = prefix; }

  void add(const std::string& parameter, const std::vector<std::string>& pieces, const Shape& shape) {
    MarianTensor tensor = {.parameter = prefix_ + parameter, .pieces = {}, .piece_shape = shape};
    for (const std::string& piece : pieces) tensor.pieces.push_back("model." + prefix_ + piece);
    tensors_.push_back(std::move(tensor));
  }

  void attention(const std::string& ours, const std::string& theirs) {
    const auto three = [&](const std::string& what) -> std::vector<std::string> {
      return {theirs + ".q_proj." + what, theirs + ".k_proj." + what, theirs + ".v_proj." + what};
    };
    add(ours + ".in_proj_weight", three("weight"), {d_model_, d_model_});
    add(ours + ".in_proj_bias", three("bias"), {d_model_});
    add(ours + ".out_proj.weight", {theirs + ".out_proj.weight"}, {d_model_, d_model_});
    add(ours + ".out_proj.bias", {theirs + ".out_proj.bias"}, {d_model_});
  }

  void norm(const std::string& ours, const std::string& theirs) {
    add(ours + ".weight", {theirs + ".weight"}, {d_model_});
    add(ours + ".bias", {theirs + ".bias"}, {d_model_});
  }

  void feed_forward(std::int64_t ffn_dim) {
    add("linear1.weight", {"fc1.weight"}, {ffn_dim, d_model_});
    add("linear1.bias", {"fc1.bias"}, {ffn_dim});
    add("linear2.weight", {"fc2.weight"}, {d_model_, ffn_dim});
    add("linear2.bias", {"fc2.bias"}, {d_model_});
  }

  std::int64_t d_model_;
  std::string prefix_;
  std::vector<MarianTensor> tensors_;
};

}  // namespace

std::vector<MarianTensor> marian_layer_tensors(const TranslationModelOptions& options) { return Names(options).take(); }

}  // namespace headway::inline v0::internal
