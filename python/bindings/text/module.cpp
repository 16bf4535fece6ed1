// The module headway._text: what needs libheadway_text.
#include "bindings/text/text_bindings.h"

namespace headway::python {

// The sum is kept by _core.
void count_call() { nb::module_::import_("headway._core").attr("_count_call")(); }

}  // namespace headway::python

namespace nb = nanobind;

NB_MODULE(_text, module) {
  module.doc() = "Headway's text library, one to one; the package headway is its face.";
  nb::set_leak_warnings(false);
  nb::module_::import_("headway._core");  // has Tensor, Module and the translation of errors
  headway::python::bind_models(module);
  headway::python::bind_clip(module);
  headway::python::bind_text_tokenizer(module);
  headway::python::bind_tasks(module);
  headway::python::bind_recommender(module);
  headway::python::bind_generation(module);
}
