// PictureClassifier: pictures, their files or lists of them in, labels with scores out.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "bindings/media/media_bindings.h"
#include "headway/picture_classifier.h"

namespace headway::python {
namespace {

using namespace nb::literals;

// A file's name, a headway.Picture or its pixels.
Picture read_classified(Arrays& arrays, nb::handle value, std::int64_t channels) {
  if (nb::isinstance<nb::str>(value) || nb::hasattr(value, "__fspath__")) {
    const std::filesystem::path file = read_path("classify: picture", value);
    return without_lock([&] { return read_picture(file, channels); });
  }
  if (!nb::hasattr(value, "pixels")) return {.pixels = arrays.read("picture", value), .notes = ""};
  return {.pixels = arrays.read("picture", value.attr("pixels")), .notes = nb::cast<std::string>(value.attr("notes"))};
}

nb::list give_picture_labels(const PictureClassification& found) {
  const nb::object type = result_type("LabelScore");
  nb::list labels;
  for (const LabelScore& label : found.labels) labels.append(call_python(type, label.label, label.score, label.id));
  return labels;
}

nb::object classify_pictures(const PictureClassifier& self, nb::handle picture, nb::handle most) {
  const std::int64_t count = read_integer("classify: most", most);
  const bool is_list = nb::isinstance<nb::list>(picture);
  Arrays arrays("classify");
  std::vector<Picture> pictures;
  if (is_list) {
    for (const nb::handle one : picture) pictures.push_back(read_classified(arrays, one, self.input().channels));
  } else {
    pictures.push_back(read_classified(arrays, picture, self.input().channels));
  }
  const std::vector<PictureClassification> found = without_lock([&] { return self.classify(pictures, count); });
  if (!is_list) return give_picture_labels(found.front());
  nb::list results;
  for (const PictureClassification& one : found) results.append(give_picture_labels(one));
  return results;
}

}  // namespace

void bind_picture_classifier(nb::module_& module) {
  nb::class_<PictureClassifier>(module, "PictureClassifier", "Labels of pictures: a ViT with a classification head.")
      .def(
          "__init__",
          [](PictureClassifier* self, nb::handle directory, nb::handle device, nb::handle dtype) {
            const std::filesystem::path path = read_path("PictureClassifier: directory", directory);
            TaskOptions options;
            options.device = read_device("PictureClassifier: device", device);
            options.dtype = read_optional_dtype("PictureClassifier: dtype", dtype);
            without_lock([&] { new (self) PictureClassifier(path, options); });
          },
          "directory"_a, "device"_a = "cpu", "dtype"_a.none() = nb::none(),
          "A directory in the layout of ViTForImageClassification, with its preprocessor_config.json.")
      .def(
          "classify", &classify_pictures, "picture"_a, nb::kw_only(), "most"_a = 0,
          "The LabelScores of a file, a headway.Picture or pixels [height, width, channels], the best first; a list of "
          "them for a list. most: of each picture, 0 for all.")
      .def_prop_ro("labels", &PictureClassifier::labels, "The names of the labels.")
      .def_prop_ro("input", &PictureClassifier::input, nb::rv_policy::copy, "What pictures are brought to.")
      .def_prop_ro("model", &PictureClassifier::model, nb::rv_policy::copy, "The model, shared.");
}

}  // namespace headway::python
