// The arrays of one call, for both modules of the package.
#include "bindings/arrays.h"

#include <nanobind/stl/string.h>

namespace headway::python {

nb::object to_python(const Tensor& tensor) { return tensor.defined() ? nb::cast(tensor) : nb::object(nb::none()); }

Tensor Arrays::read(const char* name, nb::handle array) {
  if (array.is_none()) return {};
  const nb::object pair = call_python(nb::module_::import_("headway._convert").attr("to_core"), array, argument(name));
  if (!kind_.is_valid()) {
    kind_ = pair[1];
    records_ = nb::cast<std::string>(kind_) == "headway";
  }
  return nb::cast<Tensor>(pair[0]);
}

PerEntry Arrays::read_per_entry(const char* name, nb::handle value) {
  if (value.is_none()) return {};
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    return read_integers(argument(name), value, "integers");
  }
  if (nb::isinstance<nb::int_>(value)) return read_integer(argument(name), value);
  return read(name, value);
}

nb::object Arrays::give(const Tensor& tensor) const {
  const nb::object result = to_python(tensor);
  if (records_ || result.is_none()) return result;
  return call_python(nb::module_::import_("headway._convert").attr("from_core"), result, kind_);
}

Activation read_activation(const std::string& argument, nb::handle value) {
  return static_cast<Activation>(
      read_choice(argument, value, {"none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "quick_gelu"}));
}

Causal read_causal(const std::string& argument, nb::handle value) {
  if (value.is_none()) return Causal::none;
  return read_choice(argument, value, {"top_left", "bottom_right"}) == 0 ? Causal::top_left : Causal::bottom_right;
}

}  // namespace headway::python
