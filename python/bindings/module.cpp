// The module headway._core: errors, and all that the other files bind.
#include <exception>

#include "bindings/bindings.h"
#include "headway/error.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  module.doc() = "Headway's C++ library, one to one; the package headway is its face.";
  nb::set_leak_warnings(false);  // arrays that live until the interpreter ends are not leaks
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const headway::Error& known) {
      PyErr_SetString(PyExc_ValueError, known.what());
    }
  });
  headway::python::bind_tensor(module);
  headway::python::bind_attention(module);
  headway::python::bind_settings(module);
  headway::python::bind_ops(module);
  headway::python::bind_modules(module);
  headway::python::bind_attention_modules(module);
  headway::python::bind_transformer(module);
  headway::python::bind_optimizers(module);
  headway::python::bind_training(module);
  headway::python::bind_files(module);
}
