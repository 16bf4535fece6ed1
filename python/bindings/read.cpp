// Reading plain Python values, with errors that name the argument.
#include <nanobind/stl/string.h>

#include <array>
#include <limits>

#include "bindings/bindings.h"

namespace headway::python {
namespace {

std::string kind_name(nb::handle value) { return nb::cast<std::string>(nb::str(value.type().attr("__name__"))); }

// value.__index__() as a Python int.
nb::object as_index(const std::string& argument, nb::handle value) {
  nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    refuse(argument, value, "an integer");
  }
  return index;
}

}  // namespace

void refuse(const std::string& argument, nb::handle value, std::string_view expected) {
  const std::string message = argument + " is of type " + kind_name(value) + ", expected " + std::string(expected);
  throw nb::type_error(message.c_str());
}

double read_number(const std::string& argument, nb::handle value) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(argument, value, "a number");
  }
  return number;
}

std::int64_t read_integer(const std::string& argument, nb::handle value) {
  const nb::object index = as_index(argument, value);
  const long long integer = PyLong_AsLongLong(index.ptr());
  if (integer == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw nb::value_error((argument + " does not fit into 64 bits").c_str());
  }
  return integer;
}

std::uint64_t read_seed(const std::string& argument, nb::handle value) {
  const nb::object index = as_index(argument, value);
  const unsigned long long integer = PyLong_AsUnsignedLongLong(index.ptr());
  if (integer == std::numeric_limits<unsigned long long>::max() && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw nb::value_error((argument + " is out of range, expected 0 to 2^64 - 1").c_str());
  }
  return integer;
}

std::string read_string(const std::string& argument, nb::handle value) {
  if (!nb::isinstance<nb::str>(value)) refuse(argument, value, "a str");
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text == nullptr) throw nb::python_error();  // a UnicodeEncodeError: half of a surrogate pair
  return {text, static_cast<std::size_t>(size)};
}

bool read_flag(const std::string& argument, nb::handle value) {
  nb::object flag = nb::borrow(value);
  if (!nb::isinstance<nb::bool_>(flag) && nb::hasattr(flag, "item")) flag = call_python(flag.attr("item"));
  if (!nb::isinstance<nb::bool_>(flag)) refuse(argument, value, "True or False");
  return flag.ptr() == Py_True;
}

nb::object read_function(const std::string& argument, nb::handle value) {
  if (PyCallable_Check(value.ptr()) == 0) refuse(argument, value, "a function");
  return nb::borrow(value);
}

Mask read_mask(const std::string& argument, nb::handle value) {
  if (value.is_none()) return {};
  const Mask* mask = nullptr;
  if (!nb::try_cast(value, mask, false) || mask == nullptr) {
    refuse(argument, value, "headway.Mask.keep(array) or headway.Mask.drop(array), which say what True means");
  }
  return *mask;
}

std::size_t read_choice(const std::string& argument, nb::handle value, const std::vector<std::string_view>& names) {
  std::string expected;
  for (const std::string_view name : names) {
    expected += (expected.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  }
  if (!nb::isinstance<nb::str>(value)) refuse(argument, value, expected);
  const std::string given = read_string(argument, value);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (given == names[i]) return i;
  }
  throw nb::value_error((argument + " is \"" + given + "\", expected " + expected).c_str());
}

std::vector<std::int64_t> read_integers(const std::string& argument, nb::handle value, std::string_view expected) {
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value)) refuse(argument, value, expected);
  std::vector<std::int64_t> integers;
  for (const nb::handle integer : value) {
    integers.push_back(read_integer(argument + "[" + std::to_string(integers.size()) + "]", integer));
  }
  return integers;
}

Weights read_weights(const std::string& argument, nb::handle value) {
  if (value.ptr() == Py_True) return Weights::per_head;
  if (value.ptr() == Py_False) return Weights::none;
  if (!nb::isinstance<nb::str>(value)) refuse(argument, value, "True, False or \"mean\"");
  read_choice(argument, value, {"mean"});
  return Weights::mean;
}

DType read_dtype(const std::string& argument, std::string_view name) {
  constexpr std::array kDTypes = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                                  DType::int8,    DType::int32,   DType::int64,    DType::boolean};
  for (const DType dtype : kDTypes) {
    if (dtype_name(dtype) == name) return dtype;
  }
  throw nb::value_error((argument + " is \"" + std::string(name) +
                         "\", expected float32, float64, bfloat16, float16, int8, int32, int64 or bool")
                            .c_str());
}

}  // namespace headway::python
