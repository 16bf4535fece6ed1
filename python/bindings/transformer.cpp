// The Transformer, its encoder and decoder, and their layers.
#include "headway/transformer.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

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
    if (const nb::object value = take("activation"); value.is_valid()) {
      options_.activation = read_activation(name_ + ": activation", value);
    }
    options_.layer_norm_eps = number("layer_norm_eps", options_.layer_norm_eps);
    options_.norm_first = flag("norm_first", options_.norm_first);
    options_.bias = flag("bias", options_.bias);
    options_.batch_first = flag("batch_first", options_.batch_first);
    if (const nb::object value = take("dtype"); value.is_valid()) {
      if (!nb::isinstance<nb::str>(value)) refuse(name_ + ": dtype", value, "a name");
      options_.dtype = read_dtype(name_ + ": dtype", nb::cast<std::string>(value));
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
  bool flag(const char* name, bool otherwise) {
    const nb::object value = take(name);
    if (!value.is_valid()) return otherwise;
    if (!nb::isinstance<nb::bool_>(value)) refuse(name_ + ": " + name, value, "True or False");
    return value.ptr() == Py_True;
  }

  // A TypeError where anything was given that nobody took.
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
    "Options: d_model=512, nhead=8, dim_feedforward=2048, dropout=0.1, activation=\"relu\", layer_norm_eps=1e-5, "
    "norm_first=False, bias=True, batch_first=True, dtype=\"float32\".";
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
  TransformerOptions options;
  options.num_encoder_layers = arguments.integer("num_encoder_layers", options.num_encoder_layers);
  options.num_decoder_layers = arguments.integer("num_decoder_layers", options.num_decoder_layers);
  arguments.finish();
  const TransformerLayerOptions& layer = arguments.layer();
  options.d_model = layer.d_model;
  options.nhead = layer.nhead;
  options.dim_feedforward = layer.dim_feedforward;
  options.dropout = layer.dropout;
  options.activation = layer.activation;
  options.layer_norm_eps = layer.layer_norm_eps;
  options.batch_first = layer.batch_first;
  options.norm_first = layer.norm_first;
  options.bias = layer.bias;
  options.dtype = layer.dtype;
  new (self) Transformer(options);
}

nb::list give_all(const Arrays& arrays, const std::vector<Tensor>& tensors) {
  nb::list list;
  for (const Tensor& tensor : tensors) list.append(arrays.give(tensor));
  return list;
}

template <typename Encoder>
nb::object encode(const Encoder& self, Array source, const Mask* mask, const Mask* padding_mask, Array causal,
                  bool need_weights) {
  Arrays arrays("forward");
  std::vector<Tensor> weights;
  EncoderInput input;
  input.source = arrays.read("source", source);
  input.mask = mask_or_none(mask);
  input.padding_mask = mask_or_none(padding_mask);
  input.causal = read_causal("forward: causal", causal);
  if (need_weights) input.weights = &weights;
  const Tensor output = arrays.run([&] { return self.forward(input); });
  if (!need_weights) return arrays.give(output);
  return nb::make_tuple(arrays.give(output), give_all(arrays, weights));
}

template <typename Encoder>
void bind_encoder(nb::class_<Encoder, Module>& encoder) {
  for (const char* name : {"forward", "__call__"}) {
    encoder.def(name, &encode<Encoder>, "source"_a, nb::kw_only(), "mask"_a.none() = nb::none(),
                "padding_mask"_a.none() = nb::none(), "causal"_a.none() = nb::none(), "need_weights"_a = false,
                "[batch, length, d_model], or with need_weights also the weights [batch, heads, length, length] of "
                "every layer.");
  }
}

template <typename Decoder>
nb::object decode(const Decoder& self, Array target, Array memory, const Mask* target_mask, const Mask* memory_mask,
                  const Mask* target_padding_mask, const Mask* memory_padding_mask, Array target_causal,
                  bool need_weights) {
  Arrays arrays("forward");
  std::vector<Tensor> self_weights;
  std::vector<Tensor> memory_weights;
  DecoderInput input;
  input.target = arrays.read("target", target);
  input.memory = arrays.read("memory", memory);
  input.target_mask = mask_or_none(target_mask);
  input.memory_mask = mask_or_none(memory_mask);
  input.target_padding_mask = mask_or_none(target_padding_mask);
  input.memory_padding_mask = mask_or_none(memory_padding_mask);
  input.target_causal = read_causal("forward: target_causal", target_causal);
  if (need_weights) {
    input.self_weights = &self_weights;
    input.memory_weights = &memory_weights;
  }
  const Tensor output = arrays.run([&] { return self.forward(input); });
  if (!need_weights) return arrays.give(output);
  return nb::make_tuple(arrays.give(output), give_all(arrays, self_weights), give_all(arrays, memory_weights));
}

template <typename Decoder>
void bind_decoder(nb::class_<Decoder, Module>& decoder) {
  for (const char* name : {"forward", "__call__"}) {
    decoder.def(name, &decode<Decoder>, "target"_a, "memory"_a, nb::kw_only(), "target_mask"_a.none() = nb::none(),
                "memory_mask"_a.none() = nb::none(), "target_padding_mask"_a.none() = nb::none(),
                "memory_padding_mask"_a.none() = nb::none(), "target_causal"_a.none() = nb::none(),
                "need_weights"_a = false,
                "[batch, target_length, d_model], or with need_weights also the weights of self-attention and of "
                "attention to the memory, one array per layer.");
  }
}

nb::object decode_more(const TransformerDecoder& self, Array target, Array memory, DecoderCache& cache,
                       const Mask* memory_padding_mask) {
  Arrays arrays("decode");
  DecoderInput input;
  input.target = arrays.read("target", target);
  input.memory = arrays.read("memory", memory);
  input.memory_padding_mask = mask_or_none(memory_padding_mask);
  return arrays.map([&] { return self.forward(input, cache); });
}

nb::object transform(const Transformer& self, Array source, Array target, const Mask* source_mask,
                     const Mask* target_mask, const Mask* memory_mask, const Mask* source_padding_mask,
                     const Mask* target_padding_mask, const Mask* memory_padding_mask, Array source_causal,
                     Array target_causal) {
  Arrays arrays("Transformer");
  TransformerInput input;
  input.source = arrays.read("source", source);
  input.target = arrays.read("target", target);
  input.source_mask = mask_or_none(source_mask);
  input.target_mask = mask_or_none(target_mask);
  input.memory_mask = mask_or_none(memory_mask);
  input.source_padding_mask = mask_or_none(source_padding_mask);
  input.target_padding_mask = mask_or_none(target_padding_mask);
  input.memory_padding_mask = mask_or_none(memory_padding_mask);
  input.source_causal = read_causal("Transformer: source_causal", source_causal);
  input.target_causal = read_causal("Transformer: target_causal", target_causal);
  return arrays.map([&] { return self.forward(input); });
}

void bind_model(nb::module_& module) {
  nb::class_<Transformer, Module> model(module, "Transformer",
                                        "The Transformer of \"Attention Is All You Need\", parameters as "
                                        "torch.nn.Transformer's, batch first.");
  model.def("__init__", &make_transformer, "options"_a,
            "Options: those of a layer, num_encoder_layers=6, num_decoder_layers=6.");
  for (const char* name : {"forward", "__call__"}) {
    model.def(name, &transform, "source"_a, "target"_a, nb::kw_only(), "source_mask"_a.none() = nb::none(),
              "target_mask"_a.none() = nb::none(), "memory_mask"_a.none() = nb::none(),
              "source_padding_mask"_a.none() = nb::none(), "target_padding_mask"_a.none() = nb::none(),
              "memory_padding_mask"_a.none() = nb::none(), "source_causal"_a.none() = nb::none(),
              "target_causal"_a.none() = nb::none(), "The decoder's output [batch, target_length, d_model].");
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
              "memory_padding_mask"_a.none() = nb::none(),
              "New tokens after those in the cache, which grows by them; causality is implied.");
  bind_model(module);
}

}  // namespace headway::python
