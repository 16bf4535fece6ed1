// Reading paths, devices and token ids, with errors that name the argument.
#include <nanobind/stl/string.h>

#include "bindings/text/text_bindings.h"

namespace headway::python {

std::filesystem::path read_path(const std::string& argument, nb::handle value) {
  const nb::object path = nb::steal(PyOS_FSPath(value.ptr()));
  if (!path.is_valid()) {
    PyErr_Clear();
    refuse(argument, value, "a path: a str or an os.PathLike");
  }
  return nb::cast<std::string>(nb::module_::import_("os").attr("fsdecode")(path));
}

Device read_device(const std::string& argument, nb::handle value) {
  if (!nb::isinstance<nb::str>(value)) refuse(argument, value, "\"cpu\", \"cuda\" or \"cuda:1\"");
  return Device::parse(nb::cast<std::string>(value));
}

Tensor read_tokens(Arrays& arrays, const char* name, nb::handle value) {
  nb::object array = nb::borrow(value);
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    array = nb::module_::import_("headway._convert").attr("tokens_of_lists")(value, arrays.argument(name));
  }
  Tensor tokens = arrays.read(name, array);
  if (tokens.defined() && tokens.dtype() == DType::int32) tokens = tokens.to(DType::int64);
  return tokens;
}

}  // namespace headway::python
