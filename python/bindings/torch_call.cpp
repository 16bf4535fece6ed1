// Arrays whose type has DLPack's C exchange API (torch.Tensor since 2.10) as tensors and back, without Python in
// between: a tenth of the time that __dlpack__() takes, which counts where shapes are small.
#include <nanobind/ndarray.h>

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "bindings/bindings.h"

namespace headway::python {
namespace {

// DLPack 1.x, as far as it is used here; the names and the order are its ABI.
struct DlpackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

struct ManagedTensor {
  DlpackVersion version;
  void* context;
  void (*deleter)(ManagedTensor* self);
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};

}  // namespace

struct ExchangeApi {
  DlpackVersion version;
  ExchangeApi* previous;
  void* allocate;
  int (*export_managed)(void* object, ManagedTensor** out);
  int (*import_managed)(ManagedTensor* tensor, void** object);  // takes the tensor over
  int (*export_borrowed)(void* object, nb::dlpack::dltensor* out);
  int (*current_stream)(std::int32_t device_type, std::int32_t device_index, void** out);
};

namespace {

constexpr std::uint32_t kDlpackMajor = 1;
constexpr std::uint32_t kDlpackMinor = 1;
constexpr std::uint64_t kReadOnly = 1;  // DLPack's flag

// The exchange API of a type, null where it has none.
const ExchangeApi* find_api(PyObject* type) {
  const nb::object capsule = nb::steal(PyObject_GetAttrString(type, "__dlpack_c_exchange_api__"));
  if (!capsule.is_valid()) {
    PyErr_Clear();
    return nullptr;
  }
  const auto* api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (api == nullptr) PyErr_Clear();
  while (api != nullptr && api->version.major != kDlpackMajor) api = api->previous;
  return api != nullptr && api->export_borrowed != nullptr ? api : nullptr;
}

// A headway tensor that another library holds.
struct Given {
  ManagedTensor managed = {};
  Tensor tensor;
  std::array<std::int64_t, Shape::kMaxRank> shape = {};
  std::array<std::int64_t, Shape::kMaxRank> strides = {};
};

}  // namespace

const ExchangeApi* exchange_api_of(nb::handle object) {
  // Only types that have the API are kept, each with a reference, so that its address stays its own.
  static auto* known = new std::unordered_map<PyObject*, const ExchangeApi*>;
  PyObject* type = object.type().ptr();
  if (const auto found = known->find(type); found != known->end()) return found->second;
  const ExchangeApi* api = find_api(type);
  if (api != nullptr) known->emplace(nb::handle(type).inc_ref().ptr(), api);
  return api;
}

Tensor borrow_exchanged(const ExchangeApi& api, nb::handle object, const std::string& name) {
  nb::dlpack::dltensor array;
  if (api.export_borrowed(object.ptr(), &array) != 0) {
    PyErr_Clear();
    throw nb::value_error((name + " has no dense memory of its own").c_str());
  }
  const Device device = device_of_code(array.device.device_type, array.device.device_id, name);
  const DType dtype = dtype_of_code(array.dtype, name);
  if (array.ndim > Shape::kMaxRank) {
    throw nb::value_error((name + " has " + std::to_string(array.ndim) + " dimensions, expected at most " +
                           std::to_string(Shape::kMaxRank))
                              .c_str());
  }
  Shape shape;
  Shape strides;
  for (std::int32_t dim = 0; dim < array.ndim; ++dim) {
    shape.push_back(array.shape[dim]);
    strides.push_back(array.strides[dim]);
  }
  return Tensor::wrap(static_cast<std::byte*>(array.data) + array.byte_offset, shape, strides, dtype, {}, device);
}

nb::object give_exchanged(const ExchangeApi& api, const Tensor& tensor) {
  if (!tensor.defined()) return nb::none();
  auto given = std::make_unique<Given>();
  for (int dim = 0; dim < tensor.rank(); ++dim) {
    given->shape[static_cast<std::size_t>(dim)] = tensor.size(dim);
    given->strides[static_cast<std::size_t>(dim)] = tensor.stride(dim);
  }
  given->tensor = tensor;
  ManagedTensor& managed = given->managed;
  managed.version = {kDlpackMajor, kDlpackMinor};
  managed.context = given.get();
  managed.deleter = [](ManagedTensor* self) { delete static_cast<Given*>(self->context); };
  managed.flags = tensor.is_read_only() ? kReadOnly : 0;
  managed.tensor.data = tensor.raw_data();
  managed.tensor.device = code_of_device(tensor.device());
  managed.tensor.ndim = tensor.rank();
  managed.tensor.dtype = code_of_dtype(tensor.dtype());
  managed.tensor.shape = given->shape.data();
  managed.tensor.strides = given->strides.data();
  void* object = nullptr;
  if (api.import_managed(&given.release()->managed, &object) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

StreamOf::StreamOf(const Tensor& tensor, const ExchangeApi* api) {
  const Device device = tensor.device();
  if (device.is_cpu()) return;
  // cudaStreamLegacy, by whose order every library that names no stream goes.
  void* stream = reinterpret_cast<void*>(std::uintptr_t{1});
  if (api != nullptr && api->current_stream != nullptr) {
    void* current = nullptr;
    const nb::dlpack::device code = code_of_device(device);
    if (api->current_stream(code.device_type, code.device_id, &current) != 0) throw nb::python_error();
    if (current != nullptr) stream = current;
  }
  guard_.emplace(device, stream);
}

}  // namespace headway::python
