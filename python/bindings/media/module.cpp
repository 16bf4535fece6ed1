// The module headway._media: what needs libheadway_media.
#include "bindings/media/media_bindings.h"

namespace headway::python {

// The sum is kept by _core.
void count_call() { nb::module_::import_("headway._core").attr("_count_call")(); }

}  // namespace headway::python

namespace nb = nanobind;

NB_MODULE(_media, module) {
  module.doc() = "Headway's media library, one to one; the package headway is its face.";
  nb::set_leak_warnings(false);
  nb::module_::import_("headway._text");  // has the models; _core, which it imports, tensors and the errors
  headway::python::bind_sounds(module);
  headway::python::bind_pictures(module);
  headway::python::bind_transcriber(module);
  headway::python::bind_picture_classifier(module);
  headway::python::bind_captioner(module);
}
