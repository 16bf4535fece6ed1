// Pictures: files, sizes, the tensors that models read.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "bindings/media/media_bindings.h"
#include "headway/image.h"

namespace headway::python {
namespace {

using namespace nb::literals;

nb::object give_picture(const Picture& picture) {
  return call_python(perception_type("Picture"), to_numpy(picture.pixels), picture.notes);
}

nb::object read(nb::handle file, nb::handle channels) {
  const std::filesystem::path path = read_path("read_picture: file", file);
  const std::int64_t count = read_integer("read_picture: channels", channels);
  return give_picture(without_lock([&] { return read_picture(path, count); }));
}

nb::object parse(const nb::bytes& data, nb::handle channels) {
  const std::int64_t count = read_integer("parse_picture: channels", channels);
  const std::string_view bytes(data.c_str(), data.size());
  return give_picture(without_lock([&] { return parse_picture(bytes, "parse_picture: data", count); }));
}

nb::bytes encode(nb::handle pixels) {
  Arrays arrays("encode_png");
  const Tensor input = arrays.read("pixels", pixels);
  const std::string bytes = arrays.run([&] { return encode_png(input); });
  return nb::bytes(bytes.data(), bytes.size());
}

void write(nb::handle file, nb::handle pixels) {
  Arrays arrays("write_png");
  const std::filesystem::path path = read_path("write_png: file", file);
  const Tensor input = arrays.read("pixels", pixels);
  arrays.run([&] { write_png(path, input); });
}

Resampling read_resampling(const std::string& argument, nb::handle value) {
  return static_cast<Resampling>(read_choice(argument, value, {"nearest", "bilinear", "bicubic"}));
}
const char* resampling_name(Resampling resampling) {
  if (resampling == Resampling::nearest) return "nearest";
  return resampling == Resampling::bilinear ? "bilinear" : "bicubic";
}

nb::object resize_array(nb::handle pixels, nb::handle height, nb::handle width, nb::handle resampling) {
  Arrays arrays("resize");
  const Tensor input = arrays.read("pixels", pixels);
  const std::int64_t rows = read_integer("resize: height", height);
  const std::int64_t columns = read_integer("resize: width", width);
  const Resampling filter = read_resampling("resize: resampling", resampling);
  return arrays.map([&] { return resize(input, rows, columns, filter); });
}

// `picture` is a headway.Picture or its pixels.
nb::object tensor_of(nb::handle picture, const PictureInput& input) {
  Arrays arrays("picture_tensor");
  const nb::object pixels = nb::hasattr(picture, "pixels") ? nb::object(picture.attr("pixels")) : nb::borrow(picture);
  const Picture read = {.pixels = arrays.read("picture", pixels)};
  return arrays.map([&] { return picture_tensor(read, input); });
}

nb::object spectrogram(nb::handle log_mel) {
  Arrays arrays("spectrogram_picture");
  const Tensor input = arrays.read("log_mel", log_mel);
  return arrays.map([&] { return spectrogram_picture(input); });
}

void bind_input(nb::module_& module) {
  nb::class_<PictureInput>(module, "PictureInput", "What a model wants of a picture; the defaults are ViT's.")
      .def(nb::init<>(), "Pictures of 224 x 224 in RGB, from -1 to 1.")
      .def_static(
          "load",
          [](nb::handle directory) { return PictureInput::load(read_path("PictureInput.load: directory", directory)); },
          "directory"_a, "What preprocessor_config.json of a directory says, of ViT or CLIP.")
      .def(
          "save",
          [](const PictureInput& self, nb::handle directory) {
            self.save(read_path("PictureInput.save: directory", directory));
          },
          "directory"_a, "Writes preprocessor_config.json into a directory that exists.")
      .def_rw("channels", &PictureInput::channels)
      .def_rw("height", &PictureInput::height)
      .def_rw("width", &PictureInput::width)
      .def_rw("shortest", &PictureInput::shortest)
      .def_rw("crop_height", &PictureInput::crop_height)
      .def_rw("crop_width", &PictureInput::crop_width)
      .def_prop_rw(
          "resampling", [](const PictureInput& self) { return resampling_name(self.resampling); },
          [](PictureInput& self, nb::handle value) {
            self.resampling = read_resampling("PictureInput: resampling", value);
          })
      .def_rw("scale", &PictureInput::scale)
      .def_rw("mean", &PictureInput::mean)
      .def_rw("deviation", &PictureInput::deviation);
}

}  // namespace

void bind_pictures(nb::module_& module) {
  bind_input(module);
  module.def("read_picture", &read, "file"_a, "channels"_a = 3,
             "A PNG or JPEG file as a headway.Picture of 1 (grey), 3 (RGB) or 4 (RGBA) channels.");
  module.def("parse_picture", &parse, "data"_a, "channels"_a = 3, "The same of a file's bytes.");
  module.def("encode_png", &encode, "pixels"_a,
             "pixels [height, width, 1 | 3 | 4], 0 to 1, as the bytes of a PNG file.");
  module.def("write_png", &write, "file"_a, "pixels"_a, "The same into a file.");
  module.def("resize", &resize_array, "pixels"_a, "height"_a, "width"_a, "resampling"_a = "bilinear",
             "pixels [rows, columns, channels] at another size, antialiased as by Pillow: \"nearest\", \"bilinear\" or "
             "\"bicubic\".");
  module.def("picture_tensor", &tensor_of, "picture"_a, "input"_a = PictureInput(),
             "A headway.Picture, or its pixels, as a model reads it: [channels, height, width], resized, cut and "
             "normalised.");
  module.def("spectrogram_picture", &spectrogram, "log_mel"_a,
             "A spectrogram [bins, frames] in colours [bins, frames, 3], low frequencies below.");
}

}  // namespace headway::python
