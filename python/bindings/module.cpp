// The module headway._core: errors, and all that the other files bind.
#include <cstring>
#include <exception>

#include "bindings/bindings.h"
#include "headway/error.h"

namespace nb = nanobind;

namespace {

// The text of an error; names of files in it need not be UTF-8. Null, with an error set, where memory is short.
PyObject* text_of(const std::exception& error) noexcept {
  return PyUnicode_DecodeUTF8(error.what(), static_cast<Py_ssize_t>(std::strlen(error.what())), "backslashreplace");
}

void set_error(PyObject* type, const std::exception& error) noexcept {
  PyObject* text = text_of(error);
  if (text == nullptr) return;
  PyErr_SetObject(type, text);
  Py_DECREF(text);
}

// Sets the OSError of the error's number: a FileNotFoundError, a PermissionError and so on, with errno and filename.
void set_os_error(const headway::FileError& error) noexcept {
  PyObject* text = text_of(error);
  PyObject* filename = PyUnicode_DecodeFSDefault(error.path().c_str());
  PyObject* value = nullptr;
  if (text != nullptr && filename != nullptr) {
    value = PyObject_CallFunction(PyExc_OSError, "iOO", error.code(), text, filename);
  }
  Py_XDECREF(text);
  Py_XDECREF(filename);
  if (value == nullptr) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  Py_DECREF(value);
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "Headway's C++ library, one to one; the package headway is its face.";
  nb::set_leak_warnings(false);  // arrays that live until the interpreter ends are not leaks
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const headway::FileError& known) {
      set_os_error(known);
    } catch (const headway::MemoryError& known) {
      set_error(PyExc_MemoryError, known);
    } catch (const headway::Error& known) {
      set_error(PyExc_ValueError, known);
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
  headway::python::bind_distributed(module);
}
