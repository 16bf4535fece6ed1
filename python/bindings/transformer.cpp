// The Transformer, its encoder and decoder, and their layers.
#include "headway/transformer.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>
#include <optional>

#include "bindings/arrays.h"

namespace headway::python {
namespace {

using namespace nb::literals;
using Array = nb::handle;

// The options of a layer from Python's keyword arguments, which are taken out of them.
class LayerArguments {
 public:
  LayerArguments(std::string name, const nb::kwargs& given) : name_(std::move(name)), given_(given) {
    options_.d_model = integer("d_model", options_.d_model);
    options_.nhead = integer("nhead", options_.nhead);
    options_.dim_feedforward = integer("dim_feedforward", options_.dim_feedforward);
    options_.dropout = number("dropout", options_.dropout);
    options_.attention_dropout = optional_number("attention_dropout");
    options_.activation_dropout = optional_number("activation_dropout");
    if (const nb::object value = take("activation"); value.is_valid()) {
      options_.activation = read_activation(name_ + ": activation", value);
    }
    options_.layer_norm_eps = number("layer_norm_eps", options_.layer_norm_eps);
    options_.norm_first = flag("norm_first", options_.norm_first);
    options_.bias = flag("bias", options_.bias);
    options_.batch_first = flag("batch_first", options_.batch_first);
    if (const nb::object value = take("dtype"); value.is_valid()) {
      options_.dtype = read_dtype(name_ + ": dtype", read_string(name_ + ": dtype", value));
    }
  }

  const TransformerLayerOptions& layer() const { return options_; }

  std::int64_t integer(const char* name, std::int64_t otherwise) {
    const nb::object value = take(name);
    return value.is_valid() ? read_integer(name_ + ": " + name, value) : otherwise;
  }
  double number(const char* name, double otherwise) {
    const nb::object value = take(name);
    return value.is_valid() ? read_number(name_ + ": " + name, value) : otherwise;
  }
  std::optional<double> optional_number(const char* name) {
    const nb::object value = take(name);
    if (!value.is_valid() || value.is_none()) return {};
    return read_number(name_ + ": " + name, value);
  }
  bool flag(const char* name, bool otherwise) {
    const nb::object value = take(name);
    if (!value.is_valid()) return otherwise;
    if (!nb::isinstance<nb::bool_>(value)) refuse(name_ + ": " + name, value, "True or False");
    return value.ptr() == Py_True;
  }

  // Throws a TypeError where an argument is unknown.
  void finish() const {
    for (const auto& [key, value] : given_) {
      throw nb::type_error((name_ + ": there is no option " + nb::cast<std::string>(key)).c_str());
    }
  }

 private:
  nb::object take(const char* name) {
    if (!given_.contains(name)) return {};
    return given_.attr("pop")(name);
  }

  std::string name_;
  nb::kwargs given_;
  TransformerLayerOptions options_;
};

constexpr const char* kLayerText =
    "Options: d_model=512, nhead=8, dim_feedforward=2048, dropout=0.1, attention_dropout and activation_dropout "
    "(default: dropout), activation=\"relu\", layer_norm_eps=1e-5, norm_first=False, bias=True, batch_first=True, "
    "dtype=\"float32\".";
constexpr const char* kStackText = "Options: those of a layer, num_layers=6, final_norm=False.";

template <typename Layer>
void make_layer(Layer* self, const nb::kwargs& given) {
  const LayerArguments arguments(nb::cast<std::string>(nb::type<Layer>().attr("__name__")), given);
  arguments.finish();
  new (self) Layer(arguments.layer());
}

template <typename Stack>
void make_stack(Stack* self, const nb::kwargs& given) {
  LayerArguments arguments(nb::cast<std::string>(nb::type<Stack>().attr("__name__")), given);
  TransformerStackOptions options = {.layer = arguments.layer()};
  options.num_layers = arguments.integer("num_layers", options.num_layers);
  options.final_norm = arguments.flag("final_norm", options.final_norm);
  arguments.finish();
  new (self) Stack(options);
}

void make_transformer(Transformer* self, const nb::kwargs& given) {
  LayerArguments arguments("Transformer", given);
  TransformerOptions options = {.layer = arguments.layer()};
  options.num_encoder_layers = arguments.integer("num_encoder_layers", options.num_encoder_layers);
  options.num_decoder_layers = arguments.integer("num_decoder_layers", options.num_decoder_layers);
  arguments.finish();
  new (self) Transformer(options);
}

// A layer's weights, or a list of them for a stack of layers.
nb::object give_weights(const Arrays& arrays, const Tensor& weights) { return arrays.give(weights); }
nb::list give_weights(const Arrays& arrays, const std::vector<Tensor>& tensors) {
  nb::list list;
  for (const Tensor& tensor : tensors) list.append(arrays.give(tensor));
  return list;
}

template <typename Encoder>
nb::object encode(const Encoder& self, Array source, Array source_lengths, Array mask, Array padding_mask, Array causal,
                  Array return_weights) {
  Arrays arrays("forward");
  EncoderInput input;
  input.source = arrays.read("source", source);
  input.source_lengths = arrays.read_per_entry("source_lengths", source_lengths);
  input.mask = arrays.read_mask("mask", mask);
  input.padding_mask = arrays.read_mask("padding_mask", padding_mask);
  input.causal = read_causal("forward: causal", causal);
  input.weights = read_weights("forward: return_weights", return_weights);
  const auto result = arrays.run([&] { return self.forward(input); });
  if (input.weights == Weights::none) return arrays.give(result.output);
  return nb::make_tuple(arrays.give(result.output), give_weights(arrays, result.weights));
}

template <typename Encoder>
void bind_encoder(nb::class_<Encoder, Module>& encoder) {
  for (const char* name : {"forward", "__call__"}) {
    encoder.def(name, &encode<Encoder>, "source"_a, nb::kw_only(), "source_lengths"_a.none() = nb::none(),
                "mask"_a.none() = nb::none(), "padding_mask"_a.none() = nb::none(), "causal"_a.none() = nb::none(),
                "return_weights"_a = false,
                "[batch, length, d_model], or with return_weights also the weights: True for [batch, heads, length, "
                "length], \"mean\" for their mean over heads; a list with those of every layer for an encoder.");
  }
}

template <typename Decoder>
nb::object decode(const Decoder& self, Array target, Array memory, Array target_lengths, Array memory_lengths,
                  Array target_mask, Array memory_mask, Array target_padding_mask, Array memory_padding_mask,
                  Array target_causal, Array return_weights) {
  Arrays arrays("forward");
  DecoderInput input;
  input.target = arrays.read("target", target);
  input.memory = arrays.read("memory", memory);
  input.target_lengths = arrays.read_per_entry("target_lengths", target_lengths);
  input.memory_lengths = arrays.read_per_entry("memory_lengths", memory_lengths);
  input.target_mask = arrays.read_mask("target_mask", target_mask);
  input.memory_mask = arrays.read_mask("memory_mask", memory_mask);
  input.target_padding_mask = arrays.read_mask("target_padding_mask", target_padding_mask);
  input.memory_padding_mask = arrays.read_mask("memory_padding_mask", memory_padding_mask);
  input.target_causal = read_causal("forward: target_causal", target_causal);
  input.weights = read_weights("forward: return_weights", return_weights);
  const auto result = arrays.run([&] { return self.forward(input); });
  if (input.weights == Weights::none) return arrays.give(result.output);
  return nb::make_tuple(arrays.give(result.output), give_weights(arrays, result.self_weights),
                        give_weights(arrays, result.memory_weights));
}

template <typename Decoder>
void bind_decoder(nb::class_<Decoder, Module>& decoder) {
  for (const char* name : {"forward", "__call__"}) {
    decoder.def(name, &decode<Decoder>, "target"_a, "memory"_a, nb::kw_only(), "target_lengths"_a.none() = nb::none(),
                "memory_lengths"_a.none() = nb::none(), "target_mask"_a.none() = nb::none(),
                "memory_mask"_a.none() = nb::none(), "target_padding_mask"_a.none() = nb::none(),
                "memory_padding_mask"_a.none() = nb::none(), "target_causal"_a.none() = nb::none(),
                "return_weights"_a = false,
                "[batch, target_length, d_model], or with return_weights (True or \"mean\") also the weights of "
                "self-attention and of attention to the memory; lists with those of every layer for a decoder.");
  }
}

nb::object decode_more(const TransformerDecoder& self, Array target, Array memory, DecoderCache& cache,
                       Array memory_lengths, Array memory_padding_mask) {
  Arrays arrays("decode");
  DecoderInput input;
  input.target = arrays.read("target", target);
  input.memory = arrays.read("memory", memory);
  input.memory_lengths = arrays.read_per_entry("memory_lengths", memory_lengths);
  input.memory_padding_mask = arrays.read_mask("memory_padding_mask", memory_padding_mask);
  return arrays.map([&] { return self.forward(input, cache).output; });
}

nb::object transform(const Transformer& self, Array source, Array target, Array source_lengths, Array target_lengths,
                     Array source_mask, Array target_mask, Array memory_mask, Array source_padding_mask,
                     Array target_padding_mask, Array memory_padding_mask, Array source_causal, Array target_causal,
                     Array return_weights) {
  Arrays arrays("Transformer");
  TransformerInput input;
  input.source = arrays.read("source", source);
  input.target = arrays.read("target", target);
  input.source_lengths = arrays.read_per_entry("source_lengths", source_lengths);
  input.target_lengths = arrays.read_per_entry("target_lengths", target_lengths);
  input.source_mask = arrays.read_mask("source_mask", source_mask);
  input.target_mask = arrays.read_mask("target_mask", target_mask);
  input.memory_mask = arrays.read_mask("memory_mask", memory_mask);
  input.source_padding_mask = arrays.read_mask("source_padding_mask", source_padding_mask);
  input.target_padding_mask = arrays.read_mask("target_padding_mask", target_padding_mask);
  input.memory_padding_mask = arrays.read_mask("memory_padding_mask", memory_padding_mask);
  input.source_causal = read_causal("Transformer: source_causal", source_causal);
  input.target_causal = read_causal("Transformer: target_causal", target_causal);
  input.weights = read_weights("Transformer: return_weights", return_weights);
  const TransformerResult result = arrays.run([&] { return self.forward(input); });
  if (input.weights == Weights::none) return arrays.give(result.output);
  return nb::make_tuple(arrays.give(result.output), give_weights(arrays, result.encoder_weights),
                        give_weights(arrays, result.decoder_weights), give_weights(arrays, result.cross_weights));
}

void bind_model(nb::module_& module) {
  nb::class_<Transformer, Module> model(module, "Transformer",
                                        "The Transformer of \"Attention Is All You Need\", parameters as "
                                        "torch.nn.Transformer's, batch first.");
  model.def("__init__", &make_transformer, "options"_a,
            "Options: those of a layer, num_encoder_layers=6, num_decoder_layers=6.");
  for (const char* name : {"forward", "__call__"}) {
    model.def(name, &transform, "source"_a, "target"_a, nb::kw_only(), "source_lengths"_a.none() = nb::none(),
              "target_lengths"_a.none() = nb::none(), "source_mask"_a.none() = nb::none(),
              "target_mask"_a.none() = nb::none(), "memory_mask"_a.none() = nb::none(),
              "source_padding_mask"_a.none() = nb::none(), "target_padding_mask"_a.none() = nb::none(),
              "memory_padding_mask"_a.none() = nb::none(), "source_causal"_a.none() = nb::none(),
              "target_causal"_a.none() = nb::none(), "return_weights"_a = false,
              "The decoder's output [batch, target_length, d_model]; with return_weights (True or \"mean\") also the "
              "weights of the encoder's and the decoder's self-attention and of the attention between them, lists with "
              "those of every layer. source_lengths hide a source's padding from both sides.");
  }
  model.def_prop_ro(
      "encoder", [](const Transformer& self) { return self.encoder(); }, "The encoder, shared.");
  model.def_prop_ro(
      "decoder", [](const Transformer& self) { return self.decoder(); }, "The decoder, shared.");
}

}  // namespace

void bind_transformer(nb::module_& module) {
  nb::class_<TransformerEncoderLayer, Module> encoder_layer(module, "TransformerEncoderLayer",
                                                            "Self-attention, then a feed-forward network.");
  encoder_layer.def("__init__", &make_layer<TransformerEncoderLayer>, "options"_a, kLayerText);
  bind_encoder(encoder_layer);
  nb::class_<TransformerDecoderLayer, Module> decoder_layer(
      module, "TransformerDecoderLayer", "Self-attention, attention to the memory, a feed-forward network.");
  decoder_layer.def("__init__", &make_layer<TransformerDecoderLayer>, "options"_a, kLayerText);
  bind_decoder(decoder_layer);
  nb::class_<TransformerEncoder, Module> encoder(module, "TransformerEncoder", "Encoder layers, one after another.");
  encoder.def("__init__", &make_stack<TransformerEncoder>, "options"_a, kStackText);
  bind_encoder(encoder);
  nb::class_<DecoderCache>(module, "DecoderCache", "Keys and values that a decoder has computed so far.")
      .def(nb::init<>())
      .def("__len__", &DecoderCache::length)
      .def("reorder", &DecoderCache::reorder, "entries"_a, "Keeps the given batch entries in the given order.");
  nb::class_<TransformerDecoder, Module> decoder(module, "TransformerDecoder", "Decoder layers, one after another.");
  decoder.def("__init__", &make_stack<TransformerDecoder>, "options"_a, kStackText);
  bind_decoder(decoder);
  decoder.def("decode", &decode_more, "target"_a, "memory"_a, "cache"_a, nb::kw_only(),
              "memory_lengths"_a.none() = nb::none(), "memory_padding_mask"_a.none() = nb::none(),
              "New tokens after those in the cache, which grows by them; causality is implied.");
  bind_model(module);
}

}  // namespace headway::python
