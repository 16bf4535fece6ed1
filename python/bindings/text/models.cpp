// TransformerModel: models of every family, and the keys and values of their decoders.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <utility>

#include "bindings/text/text_bindings.h"
#include "headway/quantization.h"
#include "headway/transformer_model.h"

namespace headway::python {
namespace {

using namespace nb::literals;
using Array = nb::handle;

constexpr std::array kKinds = {"encoder", "decoder", "encoder_decoder"};
constexpr std::array kHeads = {"none", "language_model", "sequence", "tokens", "span"};

TransformerModel load(Array directory, Array dtype, Array device, bool mapped, Array new_head,
                      const std::vector<std::string>& new_labels) {
  ModelLoading loading;
  loading.dtype = read_optional_dtype("load_model: dtype", dtype);
  loading.device = read_device("load_model: device", device);
  loading.mapped = mapped;
  if (!new_head.is_none()) {
    const std::vector<std::string_view> names(kHeads.begin(), kHeads.end());
    loading.new_head = static_cast<HeadKind>(read_choice("load_model: new_head", new_head, names));
  }
  loading.new_labels = new_labels;
  const std::filesystem::path path = read_path("load_model: directory", directory);
  const LockReleased released;
  return TransformerModel::load(path, loading);
}

// The text of a config.json from a str or a dict.
TransformerModel from_config(Array config, const std::string& dtype) {
  nb::object text = nb::borrow(config);
  if (!nb::isinstance<nb::str>(config)) {
    if (!nb::isinstance<nb::dict>(config)) refuse("from_config: config", config, "a dict or the text of a config.json");
    text = call_python(nb::module_::import_("json").attr("dumps"), config);
  }
  return TransformerModel::from_config(read_string("from_config: config", text),
                                       read_dtype("from_config: dtype", dtype));
}

void save(const TransformerModel& self, Array directory, Array dtype) {
  const std::filesystem::path path = read_path("save: directory", directory);
  const std::optional<DType> as = read_optional_dtype("save: dtype", dtype);
  const LockReleased released;
  self.save(path, as);
}

std::pair<std::int64_t, std::int64_t> quantize_directory(Array directory, Array output) {
  const std::filesystem::path from = read_path("quantize: directory", directory);
  const std::filesystem::path to = read_path("quantize: output", output);
  const LockReleased released;
  const QuantizedSizes sizes = quantize(from, to);
  return {sizes.before, sizes.after};
}

// json.loads(text), None for an empty text.
nb::object parse_json(const std::string& text) {
  if (text.empty()) return nb::none();
  return call_python(nb::module_::import_("json").attr("loads"), text);
}

nb::object id_or_none(const std::optional<std::int64_t>& id) { return id ? nb::cast(*id) : nb::object(nb::none()); }

nb::dict describe_options(const TransformerModel& self) {
  const TransformerModelOptions& options = self.options();
  const StackOptions& stack = options.kind == ModelKind::encoder ? options.encoder : options.decoder;
  nb::dict result;
  result["kind"] = kKinds[static_cast<std::size_t>(options.kind)];
  result["head"] = kHeads[static_cast<std::size_t>(options.head.kind)];
  result["vocab_size"] = options.vocab_size;
  result["width"] = stack.width;
  result["max_positions"] = stack.max_positions;
  result["encoder_layers"] = options.encoder.layers.size();
  result["decoder_layers"] = options.decoder.layers.size();
  if (!stack.layers.empty()) {
    const BlockOptions& block = stack.layers.front();
    result["heads"] = block.heads;
    result["kv_heads"] = block.kv_heads == 0 ? block.heads : block.kv_heads;
    result["head_dim"] = block.head_dim == 0 ? block.width / block.heads : block.head_dim;
  }
  result["labels"] = options.labels;
  result["bos_id"] = id_or_none(options.bos_id);
  result["eos_ids"] = options.eos_ids;
  result["pad_id"] = id_or_none(options.pad_id);
  result["decoder_start_id"] = id_or_none(options.decoder_start_id);
  return result;
}

nb::list give_all(const Arrays& arrays, const std::vector<Tensor>& tensors) {
  nb::list list;
  for (const Tensor& tensor : tensors) list.append(arrays.give(tensor));
  return list;
}

nb::object give_result(const Arrays& arrays, const ModelResult& result) {
  return call_python(result_type("ModelResult"), arrays.give(result.logits), arrays.give(result.hidden),
                     arrays.give(result.pooled), arrays.give(result.memory), give_all(arrays, result.encoder_weights),
                     give_all(arrays, result.decoder_weights), give_all(arrays, result.cross_weights));
}

CumulativeLengths read_packed(Arrays& arrays, Array value) {
  if (value.is_none()) return {};
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    return read_integers(arrays.argument("packed"), value, "a sequence of integers or an array of them");
  }
  return arrays.read("packed", value);
}

// What the source is given by, for forward(), encode() and calls.
struct SourceArguments {
  Array tokens, lengths;
  Array padding_mask;
  Array packed, token_types, positions;
  Array features;
};
ModelInput read_source(Arrays& arrays, const SourceArguments& given) {
  ModelInput input;
  input.tokens = read_tokens(arrays, "tokens", given.tokens);
  input.lengths = arrays.read_per_entry("lengths", given.lengths);
  input.padding_mask = arrays.read_mask("padding_mask", given.padding_mask);
  input.packed = read_packed(arrays, given.packed);
  input.token_types = read_tokens(arrays, "token_types", given.token_types);
  input.positions = read_tokens(arrays, "positions", given.positions);
  input.features = arrays.read("features", given.features);
  return input;
}

ModelInput read_input(Arrays& arrays, const SourceArguments& source, Array target, Array target_lengths,
                      Array target_padding_mask, bool last_only) {
  ModelInput input = read_source(arrays, source);
  input.target = read_tokens(arrays, "target", target);
  input.target_lengths = arrays.read_per_entry("target_lengths", target_lengths);
  input.target_padding_mask = arrays.read_mask("target_padding_mask", target_padding_mask);
  input.last_only = last_only;
  return input;
}

nb::object forward(const TransformerModel& self, Array tokens, Array lengths, Array padding_mask, Array packed,
                   Array token_types, Array positions, Array target, Array target_lengths, Array target_padding_mask,
                   Array features, bool last_only, Array return_weights) {
  Arrays arrays("forward");
  ModelInput input = read_input(arrays, {tokens, lengths, padding_mask, packed, token_types, positions, features},
                                target, target_lengths, target_padding_mask, last_only);
  input.weights = read_weights("forward: return_weights", return_weights);
  return give_result(arrays, arrays.run([&] { return self.forward(input); }));
}

nb::object call(const TransformerModel& self, Array tokens, Array lengths, Array padding_mask, Array packed,
                Array token_types, Array positions, Array target, Array target_lengths, Array target_padding_mask,
                Array features, bool last_only) {
  Arrays arrays("model");
  const ModelInput input = read_input(arrays, {tokens, lengths, padding_mask, packed, token_types, positions, features},
                                      target, target_lengths, target_padding_mask, last_only);
  const ModelResult result = arrays.run([&] { return self.forward(input); });
  return arrays.give(result.logits.defined() ? result.logits : result.hidden);
}

nb::object encode(const TransformerModel& self, Array tokens, Array lengths, Array padding_mask, Array packed,
                  Array token_types, Array positions, Array features, Array return_weights) {
  Arrays arrays("encode");
  ModelInput input = read_source(arrays, {tokens, lengths, padding_mask, packed, token_types, positions, features});
  input.weights = read_weights("encode: return_weights", return_weights);
  return give_result(arrays, arrays.run([&] { return self.encode(input); }));
}

nb::object decode(const TransformerModel& self, Array tokens, ModelCache& cache, Array memory, Array memory_lengths,
                  Array padding_mask, Array positions, bool last_only, Array return_weights) {
  Arrays arrays("decode");
  ModelInput input;
  input.tokens = read_tokens(arrays, "tokens", tokens);
  input.padding_mask = arrays.read_mask("padding_mask", padding_mask);
  input.positions = read_tokens(arrays, "positions", positions);
  input.last_only = last_only;
  input.weights = read_weights("decode: return_weights", return_weights);
  const Tensor states = arrays.read("memory", memory);
  const PerEntry lengths = arrays.read_per_entry("memory_lengths", memory_lengths);
  return give_result(arrays, arrays.run([&] { return self.decode(input, cache, states, lengths); }));
}

constexpr const char* kInputText =
    "tokens: ids [batch, length], an array or lists; of an encoder-decoder the source. lengths: non-padding tokens of "
    "each entry, which come first; or padding_mask [batch, length], a Mask with padding at any position; or packed, "
    "where texts that lie end to end in [1, total] begin and the last one ends. token_types and positions are shaped "
    "like tokens. target: the decoder's ids in an encoder-decoder. features: in the place of tokens where the encoder "
    "reads pictures [batch, channels, height, width] or sounds [batch, bins, frames]; lengths are then positions of "
    "the encoder.";

void bind_calls(nb::class_<TransformerModel, Module>& model) {
  model.def("__call__", &call, "tokens"_a.none() = nb::none(), nb::kw_only(), "lengths"_a.none() = nb::none(),
            "padding_mask"_a.none() = nb::none(), "packed"_a.none() = nb::none(), "token_types"_a.none() = nb::none(),
            "positions"_a.none() = nb::none(), "target"_a.none() = nb::none(), "target_lengths"_a.none() = nb::none(),
            "target_padding_mask"_a.none() = nb::none(), "features"_a.none() = nb::none(), "last_only"_a = false,
            "The head's logits, or the last hidden states of a model without a head. Arguments as forward()'s.");
  model.def("forward", &forward, "tokens"_a.none() = nb::none(), nb::kw_only(), "lengths"_a.none() = nb::none(),
            "padding_mask"_a.none() = nb::none(), "packed"_a.none() = nb::none(), "token_types"_a.none() = nb::none(),
            "positions"_a.none() = nb::none(), "target"_a.none() = nb::none(), "target_lengths"_a.none() = nb::none(),
            "target_padding_mask"_a.none() = nb::none(), "features"_a.none() = nb::none(), "last_only"_a = false,
            "return_weights"_a = false,
            ("All results, a headway.ModelResult. " + std::string(kInputText) +
             " last_only: logits of each entry's last token alone. return_weights: True for the attention weights of "
             "every layer and head, \"mean\" for their mean over heads.")
                .c_str());
  model.def("encode", &encode, "tokens"_a.none() = nb::none(), nb::kw_only(), "lengths"_a.none() = nb::none(),
            "padding_mask"_a.none() = nb::none(), "packed"_a.none() = nb::none(), "token_types"_a.none() = nb::none(),
            "positions"_a.none() = nb::none(), "features"_a.none() = nb::none(), "return_weights"_a = false,
            "The encoder alone: result.hidden is the memory [batch, length, width] for decode().");
  model.def("decode", &decode, "tokens"_a, "cache"_a, nb::kw_only(), "memory"_a.none() = nb::none(),
            "memory_lengths"_a.none() = nb::none(), "padding_mask"_a.none() = nb::none(),
            "positions"_a.none() = nb::none(), "last_only"_a = false, "return_weights"_a = false,
            "The decoder on new tokens [batch, length] after those in the cache, a headway.ModelCache, which grows by "
            "them. memory: the encoder's of an encoder-decoder. padding_mask covers all tokens so far.");
  model.def(
      "logits_of",
      [](const TransformerModel& self, Array hidden) {
        Arrays arrays("logits_of");
        const Tensor states = arrays.read("hidden", hidden);
        return arrays.map([&] { return self.logits_of(states); });
      },
      "hidden"_a, "Logits of hidden states [..., width] by the output of a language model.");
}

void bind_cache(nb::module_& module) {
  nb::class_<ModelCache>(module, "ModelCache", "Keys and values that a model's decoder has computed so far.")
      .def(nb::init<>())
      .def("__len__", &ModelCache::length)
      .def("reorder", &ModelCache::reorder, "entries"_a, "Keeps the given batch entries in the given order.");
}

}  // namespace

void bind_models(nb::module_& module) {
  bind_cache(module);
  module.def("quantize", &quantize_directory, "directory"_a, "output"_a,
             "Writes a model directory once more with weights in 8 bits, for the CPU. Returns the bytes of the weights "
             "before and after.");
  nb::class_<TransformerModel, Module> model(
      module, "TransformerModel",
      "A model of any family: embeddings, blocks and a head. load_model() reads one from a Hugging Face directory, "
      "from_config() makes one with initial values.");
  model
      .def_static("load", &load, "directory"_a, "dtype"_a.none() = nb::none(), "device"_a = "cpu", "mapped"_a = true,
                  "new_head"_a.none() = nb::none(), "new_labels"_a = std::vector<std::string>(),
                  "The model of a Hugging Face directory: see load_model().")
      .def_static("from_config", &from_config, "config"_a, "dtype"_a = "float32",
                  "A model with initial values, from a config.json as a dict or its text.")
      .def_static("families", &TransformerModel::families, "The names of the families, as model_type has them.")
      .def("save", &save, "directory"_a, "dtype"_a.none() = nb::none(),
           "Writes config.json, generation_config.json and model.safetensors, which from_pretrained() reads.");
  bind_calls(model);
  model
      .def_prop_ro(
          "family", [](const TransformerModel& self) { return self.family(); },
          "\"bert\", \"gpt2\", ...: the config's model_type.")
      .def_prop_ro(
          "config", [](const TransformerModel& self) { return parse_json(self.config()); },
          "The config.json that save() would write, a dict.")
      .def_prop_ro(
          "generation_config", [](const TransformerModel& self) { return parse_json(self.generation_config()); },
          "The generation_config.json, a dict or None.")
      .def_prop_ro("options", &describe_options, "What the model is: kind, head, sizes, labels, ids; a dict.")
      .def_prop_ro(
          "labels", [](const TransformerModel& self) { return self.options().labels; }, "The names of the classes.")
      .def("__repr__", [](const TransformerModel& self) {
        return "headway.TransformerModel(" + self.family() + ", " + std::to_string(self.parameter_count()) +
               " parameters)";
      });
}

}  // namespace headway::python
