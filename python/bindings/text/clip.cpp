// ClipModel: embeddings of texts and of pictures.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings/text/text_bindings.h"
#include "headway/clip_model.h"

namespace headway::python {
namespace {

using namespace nb::literals;
using Array = nb::handle;

ClipModel load(Array directory, Array dtype, Array device, bool mapped) {
  ModelLoading loading;
  loading.dtype = read_optional_dtype("ClipModel.load: dtype", dtype);
  loading.device = read_device("ClipModel.load: device", device);
  loading.mapped = mapped;
  const std::filesystem::path path = read_path("ClipModel.load: directory", directory);
  const LockReleased released;
  return ClipModel::load(path, loading);
}

ClipModel from_config(Array config, const std::string& dtype) {
  nb::object text = nb::borrow(config);
  if (!nb::isinstance<nb::str>(config)) {
    if (!nb::isinstance<nb::dict>(config)) refuse("from_config: config", config, "a dict or the text of a config.json");
    text = call_python(nb::module_::import_("json").attr("dumps"), config);
  }
  return ClipModel::from_config(read_string("from_config: config", text), read_dtype("from_config: dtype", dtype));
}

void save(const ClipModel& self, Array directory, Array dtype) {
  const std::filesystem::path path = read_path("save: directory", directory);
  const std::optional<DType> as = read_optional_dtype("save: dtype", dtype);
  const LockReleased released;
  self.save(path, as);
}

nb::object give_embeddings(const Arrays& arrays, const ClipEmbeddings& result) {
  nb::list weights;
  for (const Tensor& layer : result.weights) weights.append(arrays.give(layer));
  return call_python(result_type("ClipEmbeddings"), arrays.give(result.embeddings), arrays.give(result.projected),
                     arrays.give(result.hidden), weights);
}

nb::object embed_texts(const ClipModel& self, Array tokens, Array lengths, Array return_weights) {
  Arrays arrays("embed_texts");
  const Tensor ids = read_tokens(arrays, "tokens", tokens);
  const PerEntry counts = arrays.read_per_entry("lengths", lengths);
  const Weights weights = read_weights("embed_texts: return_weights", return_weights);
  return give_embeddings(arrays, arrays.run([&] { return self.embed_texts(ids, counts, weights); }));
}

nb::object embed_pictures(const ClipModel& self, Array pictures, Array return_weights) {
  Arrays arrays("embed_pictures");
  const Tensor features = arrays.read("pictures", pictures);
  const Weights weights = read_weights("embed_pictures: return_weights", return_weights);
  return give_embeddings(arrays, arrays.run([&] { return self.embed_pictures(features, weights); }));
}

nb::object forward(const ClipModel& self, Array tokens, Array pictures, Array lengths, Array return_weights) {
  Arrays arrays("forward");
  ClipInput input;
  input.tokens = read_tokens(arrays, "tokens", tokens);
  input.lengths = arrays.read_per_entry("lengths", lengths);
  input.pictures = arrays.read("pictures", pictures);
  input.weights = read_weights("forward: return_weights", return_weights);
  const ClipResult result = arrays.run([&] { return self.forward(input); });
  return call_python(result_type("ClipResult"), arrays.give(result.logits_per_text),
                     arrays.give(result.logits_per_picture), give_embeddings(arrays, result.text),
                     give_embeddings(arrays, result.picture));
}

nb::object contrastive_loss(Array logits_per_text) {
  Arrays arrays("contrastive_loss");
  const Tensor logits = arrays.read("logits_per_text", logits_per_text);
  return arrays.map([&] { return ClipModel::contrastive_loss(logits); });
}

}  // namespace

void bind_clip(nb::module_& module) {
  nb::class_<ClipModel, Module>(module, "ClipModel",
                                "CLIP: a tower of text and a tower of pictures, whose embeddings of what belongs "
                                "together are near each other.")
      .def_static("load", &load, "directory"_a, "dtype"_a.none() = nb::none(), "device"_a = "cpu", "mapped"_a = true,
                  "The model of a Hugging Face directory; arguments as load_model()'s.")
      .def_static("from_config", &from_config, "config"_a, "dtype"_a = "float32",
                  "A model with initial values, from a config.json as a dict or its text.")
      .def("save", &save, "directory"_a, "dtype"_a.none() = nb::none(),
           "Writes config.json and model.safetensors, which from_pretrained() reads.")
      .def("embed_texts", &embed_texts, "tokens"_a, nb::kw_only(), "lengths"_a.none() = nb::none(),
           "return_weights"_a = false,
           "A headway.ClipEmbeddings of texts: ids [texts, length], with lengths where they are padded at the end.")
      .def("embed_pictures", &embed_pictures, "pictures"_a, nb::kw_only(), "return_weights"_a = false,
           "A headway.ClipEmbeddings of pictures [pictures, channels, height, width].")
      .def("forward", &forward, "tokens"_a, "pictures"_a, nb::kw_only(), "lengths"_a.none() = nb::none(),
           "return_weights"_a = false, "Every text with every picture: a headway.ClipResult.")
      .def("__call__", &forward, "tokens"_a, "pictures"_a, nb::kw_only(), "lengths"_a.none() = nb::none(),
           "return_weights"_a = false, "The same as forward().")
      .def_static("contrastive_loss", &contrastive_loss, "logits_per_text"_a,
                  "The mean cross-entropy of finding each text's picture and each picture's text: text i belongs to "
                  "picture i.")
      .def_prop_ro(
          "config",
          [](const ClipModel& self) {
            return call_python(nb::module_::import_("json").attr("loads"), nb::cast(self.config()));
          },
          "The config.json that save() would write, a dict.")
      .def("__repr__", [](const ClipModel& self) {
        return "headway.ClipModel(" + std::to_string(self.parameter_count()) + " parameters)";
      });
}

}  // namespace headway::python
