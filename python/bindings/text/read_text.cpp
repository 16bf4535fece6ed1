// Reading paths, devices and token ids, with errors that name the argument.
#include <nanobind/stl/string.h>

#include "bindings/text/text_bindings.h"

namespace headway::python {

std::filesystem::path read_path(const std::string& argument, nb::handle value) {
  if (!nb::isinstance<nb::str>(value) && !nb::isinstance<nb::bytes>(value) && !nb::hasattr(value, "__fspath__")) {
    refuse(argument, value, "a path: a str or an os.PathLike");
  }
  const nb::object path = call_python(nb::module_::import_("os").attr("fsencode"), value);
  const auto bytes = nb::cast<nb::bytes>(path);
  return std::string(bytes.c_str(), bytes.size());
}

Device read_device(const std::string& argument, nb::handle value) {
  if (!nb::isinstance<nb::str>(value)) refuse(argument, value, "\"cpu\", \"cuda\" or \"cuda:1\"");
  return Device::parse(read_string(argument, value));
}

std::optional<DType> read_optional_dtype(const std::string& argument, nb::handle value) {
  if (value.is_none()) return {};
  if (!nb::isinstance<nb::str>(value)) refuse(argument, value, "a name, as \"float32\" or \"bfloat16\"");
  return read_dtype(argument, read_string(argument, value));
}

Texts read_texts(const std::string& argument, nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return {{read_string(argument, value)}, true};
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value)) {
    refuse(argument, value, "a str or a list of them");
  }
  Texts result;
  for (const nb::handle text : value) {
    const std::string place = argument + "[" + std::to_string(result.texts.size()) + "]";
    result.texts.push_back(read_string(place, text));
  }
  return result;
}

Tensor read_tokens(Arrays& arrays, const char* name, nb::handle value) {
  nb::object array = nb::borrow(value);
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    array = call_python(nb::module_::import_("headway._convert").attr("tokens_of_lists"), value, arrays.argument(name));
  }
  Tensor tokens = arrays.read(name, array);
  if (tokens.defined() && tokens.dtype() == DType::int32) tokens = tokens.to(DType::int64);
  return tokens;
}

}  // namespace headway::python
