// attention(), MultiHeadAttention, and the layers and models of the Transformer.
#include "conformance/cases.h"
#include "headway/attention.h"
#include "headway/multi_head_attention.h"
#include "headway/transformer.h"

namespace headway_test {

using headway::Activation;
using headway::Causal;
using headway::DType;
using headway::Mask;
using headway::Tensor;

namespace {

Tensor find(const TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? Tensor() : found->second;
}

// torch's boolean masks say what must not be looked at.
Mask drop(const Tensor& mask) { return mask.defined() ? Mask::drop(mask) : Mask(); }

Causal causal(const FixtureOptions& options, const std::string& name) {
  return options.flag(name) ? Causal::top_left : Causal::none;
}

headway::Weights weights(const FixtureOptions& options) {
  if (!options.flag("need_weights")) return headway::Weights::none;
  return options.flag("average_weights") ? headway::Weights::mean : headway::Weights::per_head;
}

// torch joins batch and heads in the first of three dimensions; here they are two: [batch, heads, query, key].
Tensor with_heads(const Tensor& mask, std::int64_t heads) {
  if (!mask.defined() || mask.rank() != 3) return mask;
  return mask.reshape({mask.size(0) / heads, heads, mask.size(1), mask.size(2)});
}

TorchCase make_attention_case(const FixtureOptions& options) {
  return {{}, [options](const TensorMap& in) {
            Tensor mask = find(in, "mask");  // torch's has no batch where it has three dimensions
            if (mask.defined() && mask.rank() == 3) mask = mask.unsqueeze(0);
            const bool boolean = mask.defined() && mask.dtype() == DType::boolean;
            const auto result = headway::attention(in.at("query"), in.at("key"), in.at("value"),
                                                   {.causal = causal(options, "causal"),
                                                    .mask = boolean ? Mask::drop(mask) : Mask(),
                                                    .bias = boolean ? Tensor() : mask,
                                                    .scale = options.optional_real("scale")});
            return TensorMap{{"output", result.output}};
          }};
}

TorchCase make_multi_head_case(const FixtureOptions& options, DType dtype) {
  const headway::MultiHeadAttention layer({.embed_dim = options.integer("embed_dim"),
                                           .num_heads = options.integer("num_heads"),
                                           .kdim = options.optional_integer("kdim"),
                                           .vdim = options.optional_integer("vdim"),
                                           .bias = options.flag("bias", true),
                                           .add_bias_kv = options.flag("add_bias_kv"),
                                           .add_zero_attn = options.flag("add_zero_attn"),
                                           .batch_first = options.flag("batch_first", true),
                                           .dtype = dtype});
  return {layer, [layer, options](const TensorMap& in) {
            const Tensor mask = with_heads(find(in, "mask"), options.integer("num_heads"));
            const bool boolean = mask.defined() && mask.dtype() == DType::boolean;
            const auto result = layer.forward({.query = in.at("query"),
                                               .key = find(in, "key"),
                                               .value = find(in, "value"),
                                               .causal = causal(options, "causal"),
                                               .key_padding_mask = drop(find(in, "padding")),
                                               .mask = boolean ? Mask::drop(mask) : Mask(),
                                               .bias = boolean ? Tensor() : mask,
                                               .weights = weights(options)});
            TensorMap results = {{"output", result.output}};
            if (result.weights.defined()) results["weights"] = result.weights;
            return results;
          }};
}

Activation feed_forward_activation(const FixtureOptions& options) {
  return options.has("activation") && options.text("activation") == "gelu" ? Activation::gelu : Activation::relu;
}

headway::TransformerLayerOptions layer_options(const FixtureOptions& options, DType dtype) {
  return {.d_model = options.integer("d_model"),
          .nhead = options.integer("nhead"),
          .dim_feedforward = options.integer("dim_feedforward"),
          .dropout = 0.0,
          .activation = feed_forward_activation(options),
          .layer_norm_eps = options.real("layer_norm_eps", 1e-5),
          .batch_first = options.flag("batch_first", true),
          .norm_first = options.flag("norm_first"),
          .bias = options.flag("bias", true),
          .dtype = dtype};
}

headway::TransformerOptions model_options(const FixtureOptions& options, DType dtype) {
  return {.layer = layer_options(options, dtype),
          .num_encoder_layers = options.integer("num_encoder_layers"),
          .num_decoder_layers = options.integer("num_decoder_layers")};
}

Mask head_mask(const FixtureOptions& options, const TensorMap& in, const std::string& name) {
  return drop(with_heads(find(in, name), options.integer("nhead")));
}

template <typename Encoder>
TorchCase encoder_case(const Encoder& encoder, const FixtureOptions& options) {
  return {encoder, [encoder, options](const TensorMap& in) {
            return TensorMap{{"output", encoder
                                            .forward({.source = in.at("source"),
                                                      .mask = head_mask(options, in, "source_mask"),
                                                      .padding_mask = drop(find(in, "source_padding")),
                                                      .causal = causal(options, "source_causal")})
                                            .output}};
          }};
}

template <typename Decoder>
TorchCase decoder_case(const Decoder& decoder, const FixtureOptions& options) {
  return {decoder, [decoder, options](const TensorMap& in) {
            return TensorMap{{"output", decoder
                                            .forward({.target = in.at("target"),
                                                      .memory = in.at("memory"),
                                                      .target_mask = head_mask(options, in, "target_mask"),
                                                      .memory_mask = head_mask(options, in, "memory_mask"),
                                                      .target_padding_mask = drop(find(in, "target_padding")),
                                                      .memory_padding_mask = drop(find(in, "memory_padding")),
                                                      .target_causal = causal(options, "target_causal")})
                                            .output}};
          }};
}

TorchCase make_transformer_case(const FixtureOptions& options, DType dtype) {
  const headway::Transformer model(model_options(options, dtype));
  return {model, [model, options](const TensorMap& in) {
            return TensorMap{{"output", model
                                            .forward({.source = in.at("source"),
                                                      .target = in.at("target"),
                                                      .source_mask = head_mask(options, in, "source_mask"),
                                                      .target_mask = head_mask(options, in, "target_mask"),
                                                      .memory_mask = head_mask(options, in, "memory_mask"),
                                                      .source_padding_mask = drop(find(in, "source_padding")),
                                                      .target_padding_mask = drop(find(in, "target_padding")),
                                                      .memory_padding_mask = drop(find(in, "memory_padding")),
                                                      .source_causal = causal(options, "source_causal"),
                                                      .target_causal = causal(options, "target_causal")})
                                            .output}};
          }};
}

}  // namespace

TorchCase make_attending_case(const FixtureOptions& options, DType dtype) {
  const std::string kind = options.text("kind");
  if (kind == "attention") return make_attention_case(options);
  if (kind == "multi_head_attention") return make_multi_head_case(options, dtype);
  if (kind == "transformer") return make_transformer_case(options, dtype);
  if (kind == "encoder_layer") {
    return encoder_case(headway::TransformerEncoderLayer(layer_options(options, dtype)), options);
  }
  if (kind == "decoder_layer") {
    return decoder_case(headway::TransformerDecoderLayer(layer_options(options, dtype)), options);
  }
  if (kind != "encoder" && kind != "decoder") return {};
  const headway::TransformerStackOptions stack = {.layer = layer_options(options, dtype),
                                                  .num_layers = options.integer("num_layers"),
                                                  .final_norm = options.flag("final_norm")};
  if (kind == "encoder") return encoder_case(headway::TransformerEncoder(stack), options);
  return decoder_case(headway::TransformerDecoder(stack), options);
}

}  // namespace headway_test
