// headway.Tensor: arrays of other libraries without a copy, both ways, and the methods of tensors.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <sstream>
#include <string>
#include <utility>

#include "bindings/bindings.h"

namespace headway::python {
namespace {

using namespace nb::literals;

struct Element {
  DType dtype;
  nb::dlpack::dtype code;
};

constexpr nb::dlpack::dtype element_code(nb::dlpack::dtype_code code, std::uint8_t bits) {
  return {static_cast<std::uint8_t>(code), bits, 1};
}

constexpr std::array<Element, 8> kElements = {{
    {DType::float32, element_code(nb::dlpack::dtype_code::Float, 32)},
    {DType::float64, element_code(nb::dlpack::dtype_code::Float, 64)},
    {DType::bfloat16, element_code(nb::dlpack::dtype_code::Bfloat, 16)},
    {DType::float16, element_code(nb::dlpack::dtype_code::Float, 16)},
    {DType::int32, element_code(nb::dlpack::dtype_code::Int, 32)},
    {DType::int64, element_code(nb::dlpack::dtype_code::Int, 64)},
    {DType::boolean, element_code(nb::dlpack::dtype_code::Bool, 8)},
    {DType::int8, element_code(nb::dlpack::dtype_code::Int, 8)},
}};
constexpr nb::dlpack::dtype kBits16 = element_code(nb::dlpack::dtype_code::UInt, 16);

// The memory of an array, read-only where the array is.
template <typename Array>
Tensor wrap_array(const Array& array, const std::string& name, bool bfloat16_bits, bool is_read_only) {
  const Device device = device_of_code(array.device_type(), array.device_id(), name);
  const bool is_bits = bfloat16_bits && array.dtype() == kBits16;
  const DType dtype = is_bits ? DType::bfloat16 : dtype_of_code(array.dtype(), name);
  Shape shape;
  Shape strides;
  for (std::size_t dim = 0; dim < array.ndim(); ++dim) {
    shape.push_back(static_cast<std::int64_t>(array.shape(dim)));
    strides.push_back(array.stride(dim));
  }
  Tensor::Memory memory(static_cast<const void*>(array.data()));
  memory.is_read_only = is_read_only;
  return Tensor::wrap(
      memory, shape, strides, dtype, [keep = released_with_lock(array)]() {}, device);
}

// The memory of any array that speaks DLPack or the buffer protocol. With `bfloat16_bits` 16-bit integers are the bits
// of bfloat16 numbers, which NumPy can pass on in no other way.
Tensor from_array(nb::handle object, const std::string& name, bool bfloat16_bits) {
  nb::ndarray<> writable;
  if (nb::try_cast(object, writable)) return wrap_array(writable, name, bfloat16_bits, false);
  nb::ndarray<nb::ro> array;
  if (nb::try_cast(object, array)) return wrap_array(array, name, bfloat16_bits, true);
  refuse(name, object, "an array in the computer's own byte order: NumPy, PyTorch or any other that speaks DLPack");
}

// A view of the tensor's memory for another library, which keeps the tensor alive.
template <typename... Properties>
nb::object view_array(const Tensor& tensor, const nb::dlpack::dtype& code) {
  std::array<std::size_t, Shape::kMaxRank> shape = {};
  std::array<std::int64_t, Shape::kMaxRank> strides = {};
  for (int dim = 0; dim < tensor.rank(); ++dim) {
    shape[static_cast<std::size_t>(dim)] = static_cast<std::size_t>(tensor.size(dim));
    strides[static_cast<std::size_t>(dim)] = tensor.stride(dim);
  }
  const nb::capsule owner(new Tensor(tensor), [](void* pointer) noexcept { delete static_cast<Tensor*>(pointer); });
  return nb::cast(nb::ndarray<Properties...>(tensor.raw_data(), static_cast<std::size_t>(tensor.rank()), shape.data(),
                                             owner, strides.data(), code, code_of_device(tensor.device()).device_type,
                                             tensor.device().index));
}

// The same, which the other library may not write to where the tensor is read-only.
template <typename Framework>
nb::object export_array(const Tensor& tensor, const nb::dlpack::dtype& code) {
  return tensor.is_read_only() ? view_array<Framework, nb::ro>(tensor, code) : view_array<Framework>(tensor, code);
}

// Whether a consumer of DLPack knows version 1.0, which has the mark of read-only memory.
bool knows_read_only(const nb::kwargs& options) {
  if (!options.contains("max_version")) return false;
  const nb::object version = options["max_version"];
  return nb::isinstance<nb::tuple>(version) && nb::len(version) == 2 &&
         read_integer("__dlpack__: max_version", nb::object(version[0])) >= 1;
}

nb::object to_dlpack(const Tensor& tensor, nb::kwargs options) {
  if (tensor.requires_grad()) {
    throw nb::buffer_error("__dlpack__: the tensor requires a gradient, which other libraries do not see: detach() it");
  }
  Tensor exported = tensor;
  if (options.contains("copy")) {
    const nb::object copy = options.attr("pop")("copy");
    if (copy.ptr() == Py_True) exported = tensor.clone();
  }
  if (exported.is_read_only() && !knows_read_only(options)) {
    throw nb::buffer_error(
        ("__dlpack__: the tensor, " + tensor.describe() +
         ", is read-only, which a consumer cannot see below max_version (1, 0): clone() it, or ask for copy=True")
            .c_str());
  }
  return export_array<nb::array_api>(exported, code_of_dtype(tensor.dtype())).attr("__dlpack__")(**options);
}

nb::object to_numpy(const Tensor& tensor) {
  if (!tensor.device().is_cpu()) {
    throw nb::type_error(
        ("numpy: the tensor is on " + tensor.device().name() + "; copy it with to(\"cpu\") first").c_str());
  }
  if (tensor.requires_grad()) {
    throw nb::value_error("numpy: the tensor requires a gradient, which NumPy does not see: detach() it");
  }
  if (tensor.dtype() != DType::bfloat16) return export_array<nb::numpy>(tensor, code_of_dtype(tensor.dtype()));
  const nb::object bits = export_array<nb::numpy>(tensor, kBits16);
  return bits.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
}

nb::object to_numpy_as(const Tensor& tensor, const nb::object& dtype, const nb::object& copy) {
  nb::object array = to_numpy(tensor);
  if (!dtype.is_none()) array = array.attr("astype")(dtype, "copy"_a = false);
  return copy.ptr() == Py_True ? array.attr("copy")() : array;
}

nb::tuple to_tuple(const Shape& shape) {
  nb::list values;
  for (const std::int64_t size : shape) values.append(size);
  return nb::tuple(values);
}

void bind_makers(nb::class_<Tensor>& tensor) {
  tensor
      .def_static("from_array", &from_array, "array"_a, "name"_a = "from_array: array", "bfloat16_bits"_a = false,
                  "The memory of an array that speaks DLPack or the buffer protocol, without a copy.")
      .def_static(
          "from_dlpack", [](nb::handle array) { return from_array(array, "from_dlpack: array", false); }, "array"_a,
          "The memory of an array that speaks DLPack, without a copy.")
      .def_static(
          "zeros",
          [](const std::vector<std::int64_t>& shape, const std::string& dtype) {
            return Tensor::zeros(shape, read_dtype("zeros: dtype", dtype));
          },
          "shape"_a, "dtype"_a = "float32", "A tensor of zeros.")
      .def_static(
          "full",
          [](const std::vector<std::int64_t>& shape, double value, const std::string& dtype) {
            return Tensor::full(shape, value, read_dtype("full: dtype", dtype));
          },
          "shape"_a, "value"_a, "dtype"_a = "float32", "A tensor of one value.")
      .def_static(
          "randn",
          [](const std::vector<std::int64_t>& shape, nb::handle seed, const std::string& dtype,
             const std::string& device) {
            return Tensor::randn(shape, read_seed("randn: seed", seed), read_dtype("randn: dtype", dtype),
                                 Device::parse(device));
          },
          "shape"_a, "seed"_a, "dtype"_a = "float32", "device"_a = "cpu",
          "Normal values; the same seed gives the same values everywhere.")
      .def_static(
          "uniform",
          [](const std::vector<std::int64_t>& shape, double low, double high, nb::handle seed, const std::string& dtype,
             const std::string& device) {
            return Tensor::uniform(shape, low, high, read_seed("uniform: seed", seed),
                                   read_dtype("uniform: dtype", dtype), Device::parse(device));
          },
          "shape"_a, "low"_a, "high"_a, "seed"_a, "dtype"_a = "float32", "device"_a = "cpu",
          "Values between two bounds; the same seed gives the same values everywhere.");
}

void bind_questions(nb::class_<Tensor>& tensor) {
  tensor
      .def_prop_ro(
          "shape", [](const Tensor& self) { return to_tuple(self.shape()); }, "The sizes, a tuple.")
      .def_prop_ro(
          "strides", [](const Tensor& self) { return to_tuple(self.strides()); }, "The strides, in elements.")
      .def_prop_ro(
          "ndim", [](const Tensor& self) { return self.rank(); }, "The number of dimensions.")
      .def_prop_ro(
          "size", [](const Tensor& self) { return self.element_count(); }, "The number of elements.")
      .def_prop_ro(
          "dtype", [](const Tensor& self) { return std::string(dtype_name(self.dtype())); },
          "The element type's name: \"float32\", \"bfloat16\", ...")
      .def_prop_ro(
          "data_ptr", [](const Tensor& self) { return reinterpret_cast<std::uintptr_t>(self.raw_data()); },
          "The address of the first element.")
      .def_prop_ro("is_read_only", &Tensor::is_read_only,
                   "Whether the memory must not be changed: an array's that was read-only, or a mapped file's.")
      .def_prop_ro("is_contiguous", &Tensor::is_contiguous, "Whether elements lie in row-major order without gaps.")
      .def("item", &Tensor::item, "The only element of a one-element tensor.")
      .def("numpy", &to_numpy,
           "A NumPy array on the same memory, writable unless it is read-only; bfloat16 needs the package ml_dtypes.")
      .def("__array__", &to_numpy_as, "dtype"_a = nb::none(), "copy"_a = nb::none(), "The tensor as a NumPy array.")
      .def("__dlpack__", &to_dlpack, "options"_a, "A DLPack capsule on the same memory.")
      .def(
          "__dlpack_device__",
          [](const Tensor& self) {
            const nb::dlpack::device code = code_of_device(self.device());
            return nb::make_tuple(code.device_type, code.device_id);
          },
          "Where the memory is, as DLPack names it.")
      .def_prop_ro(
          "device", [](const Tensor& self) { return self.device().name(); },
          "Where the tensor is: \"cpu\", \"cuda\" or \"cuda:1\".")
      .def("__len__",
           [](const Tensor& self) {
             if (self.rank() == 0) throw nb::type_error("len: the tensor has no dimensions");
             return self.size(0);
           })
      .def(
          "__getitem__",
          [](const Tensor& self, std::int64_t index) {
            if (self.rank() == 0) throw nb::type_error("index: the tensor has no dimensions");
            if (index < -self.size(0) || index >= self.size(0)) {
              throw nb::index_error(
                  ("index: " + std::to_string(index) + " is out of range for size " + std::to_string(self.size(0)))
                      .c_str());
            }
            return self[index];
          },
          "index"_a, "A row: select(0, index). Negative indices count from the end.")
      .def("__bool__",
           [](const Tensor& self) {
             if (self.element_count() != 1) {
               throw nb::value_error(
                   ("bool: the tensor is " + self.describe() + ", expected one element; see min() and max()").c_str());
             }
             return self.item() != 0;
           })
      .def("__str__",
           [](const Tensor& self) {
             std::ostringstream text;
             text << self;
             return text.str();
           })
      .def("__repr__", [](const Tensor& self) { return "headway.Tensor(" + self.describe() + ")"; });
}

void bind_changes(nb::class_<Tensor>& tensor) {
  tensor.def("transpose", &Tensor::transpose, "dim0"_a, "dim1"_a, "A view with two dimensions swapped.")
      .def("permute", &Tensor::permute, "dims"_a, "A view with the dimensions in another order.")
      .def(
          "reshape", [](const Tensor& self, const std::vector<std::int64_t>& shape) { return self.reshape(shape); },
          "shape"_a, "A view where the strides allow it, otherwise a copy. One size may be -1.")
      .def("contiguous", &Tensor::contiguous, "Itself when it is contiguous, else a copy that is.")
      .def("clone", &Tensor::clone, "A copy.")
      .def(
          "to",
          [](const Tensor& self, const std::string& target) {
            if (target == "cpu" || target.starts_with("cuda")) return self.to(Device::parse(target));
            return self.to(read_dtype("to: dtype", target));
          },
          "target"_a, "The same values in another dtype, or on another device: \"cpu\", \"cuda\" or \"cuda:1\".")
      .def("detach", &Tensor::detach, "The same memory, cut off from the record of gradients.")
      .def_prop_rw(
          "requires_grad", &Tensor::requires_grad, [](Tensor& self, bool wanted) { self.set_requires_grad(wanted); },
          "Whether its gradient is wanted.")
      .def_prop_ro(
          "grad", [](const Tensor& self) { return to_python(self.grad()); },
          "The gradient that backward() has added up so far, or None.")
      .def(
          "zero_grad", [](const Tensor& self) { self.set_grad({}); }, "Forgets the gradient.")
      .def(
          "backward",
          [](const Tensor& self, const Tensor* d_this, bool retain_graph) {
            const LockReleased released;
            self.backward(d_this == nullptr ? Tensor() : *d_this, retain_graph);
          },
          "d_this"_a.none() = nb::none(), "retain_graph"_a = false,
          "Adds the gradients of this tensor to every leaf that it was computed from.");
}

}  // namespace

DType dtype_of_code(const nb::dlpack::dtype& code, const std::string& argument) {
  for (const Element& element : kElements) {
    if (element.code == code) return element.dtype;
  }
  throw nb::type_error((argument +
                        " has a dtype that Headway has not, expected float32, float64, bfloat16, float16, int32, "
                        "int64 or bool")
                           .c_str());
}

nb::dlpack::dtype code_of_dtype(DType dtype) {
  for (const Element& element : kElements) {
    if (element.dtype == dtype) return element.code;
  }
  return {};
}

Device device_of_code(std::int32_t type, std::int32_t index, const std::string& argument) {
  if (type == nb::device::cpu::value) return Device::cpu();
  if (type == nb::device::cuda::value) return Device::cuda(index);
  throw nb::value_error(
      (argument + " is on a device where Headway does not compute, expected the CPU or CUDA").c_str());
}

nb::dlpack::device code_of_device(Device device) {
  return {device.is_cpu() ? nb::device::cpu::value : nb::device::cuda::value, device.index};
}

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor> tensor(module, "Tensor", "A shared handle on strided memory, which speaks DLPack both ways.");
  bind_makers(tensor);
  bind_questions(tensor);
  bind_changes(tensor);
}

}  // namespace headway::python
