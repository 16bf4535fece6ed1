// ImageCaptioner: pictures, their files or lists of them in, captions out.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "bindings/media/media_bindings.h"
#include "headway/image_captioner.h"

namespace headway::python {
namespace {

using namespace nb::literals;

// A file's name, a headway.Picture or its pixels.
Picture read_shown(Arrays& arrays, const char* function, nb::handle value, std::int64_t channels) {
  const std::string argument = std::string(function) + ": picture";
  if (nb::isinstance<nb::str>(value) || nb::hasattr(value, "__fspath__")) {
    const std::filesystem::path file = read_path(argument, value);
    return without_lock([&] { return read_picture(file, channels); });
  }
  if (!nb::hasattr(value, "pixels")) return {.pixels = arrays.read("picture", value), .notes = ""};
  return {.pixels = arrays.read("picture", value.attr("pixels")), .notes = nb::cast<std::string>(value.attr("notes"))};
}

nb::object give_caption(const Caption& caption) {
  const GeneratedText& best = caption.best.front();
  return call_python(perception_type("Caption"), best.text, best.score, best.tokens, caption.notes);
}

GenerateOptions read_options(nb::handle beams, nb::handle max_new_tokens, nb::handle length_penalty) {
  GenerateOptions options;
  if (!beams.is_none()) options.beams = read_integer("caption: beams", beams);
  if (!max_new_tokens.is_none()) options.max_new_tokens = read_integer("caption: max_new_tokens", max_new_tokens);
  if (!length_penalty.is_none()) options.length_penalty = read_number("caption: length_penalty", length_penalty);
  return options;
}

nb::object caption(const ImageCaptioner& self, nb::handle picture, nb::handle beams, nb::handle max_new_tokens,
                   nb::handle length_penalty) {
  const GenerateOptions options = read_options(beams, max_new_tokens, length_penalty);
  const bool is_list = nb::isinstance<nb::list>(picture);
  Arrays arrays("caption");
  std::vector<Picture> pictures;
  if (is_list) {
    for (const nb::handle one : picture) {
      pictures.push_back(read_shown(arrays, "caption", one, self.input().channels));
    }
  } else {
    pictures.push_back(read_shown(arrays, "caption", picture, self.input().channels));
  }
  const std::vector<Caption> found = without_lock([&] { return self.caption(pictures, options); });
  if (!is_list) return give_caption(found.front());
  nb::list captions;
  for (const Caption& one : found) captions.append(give_caption(one));
  return captions;
}

// The cross-attention of every layer: NumPy arrays [heads, tokens, positions].
nb::object attention(const ImageCaptioner& self, nb::handle picture, nb::handle caption) {
  Arrays arrays("attention");
  const Picture shown = read_shown(arrays, "attention", picture, self.input().channels);
  GeneratedText text;
  text.tokens = read_integers("attention: caption", caption.attr("tokens"), "a headway.Caption");
  const AttentionRecord record = without_lock([&] { return self.attend(shown, text); });
  nb::list layers;
  for (const Tensor& layer : record.parts.back().layers) layers.append(to_numpy(layer));
  return layers;
}

}  // namespace

void bind_captioner(nb::module_& module) {
  nb::class_<ImageCaptioner>(module, "ImageCaptioner", "Says what pictures show: a vision encoder and a text decoder.")
      .def(
          "__init__",
          [](ImageCaptioner* self, nb::handle directory, nb::handle device, nb::handle dtype) {
            const std::filesystem::path path = read_path("ImageCaptioner: directory", directory);
            TaskOptions options;
            options.device = read_device("ImageCaptioner: device", device);
            options.dtype = read_optional_dtype("ImageCaptioner: dtype", dtype);
            without_lock([&] { new (self) ImageCaptioner(path, options); });
          },
          "directory"_a, "device"_a = "cpu", "dtype"_a.none() = nb::none(),
          "A directory in the layout of VisionEncoderDecoderModel.")
      .def("caption", &caption, "picture"_a, nb::kw_only(), "beams"_a.none() = nb::none(),
           "max_new_tokens"_a.none() = nb::none(), "length_penalty"_a.none() = nb::none(),
           "A headway.Caption of a file, a headway.Picture or pixels [height, width, 3]; a list of them for a list.")
      .def("attention", &attention, "picture"_a, "caption"_a,
           "What each token of a headway.Caption looked at in its picture: for every layer [heads, tokens, positions]; "
           "the class token comes before the patches.")
      .def_prop_ro("model", &ImageCaptioner::model, nb::rv_policy::copy, "The model, shared.")
      .def_prop_ro("tokenizer", &ImageCaptioner::tokenizer, nb::rv_policy::copy, "The tokenizer, or None.");
}

}  // namespace headway::python
