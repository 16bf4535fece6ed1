// Declarations that the files of the binding share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/lock.h"
#include "headway/attention.h"
#include "headway/device.h"
#include "headway/tensor.h"

namespace headway::python {

// Each adds the classes and functions of one noun to the module.
void bind_tensor(nb::module_& module);
void bind_attention(nb::module_& module);
void bind_settings(nb::module_& module);
void bind_ops(nb::module_& module);
void bind_modules(nb::module_& module);
void bind_attention_modules(nb::module_& module);
void bind_transformer(nb::module_& module);
void bind_optimizers(nb::module_& module);
void bind_training(nb::module_& module);
void bind_files(nb::module_& module);
void bind_distributed(nb::module_& module);

// Counts one computation by Headway; _core.call_count() returns the sum, by which tests see that Headway did the work.
void count_call();

// A TypeError: "attention: window is of type int, expected ...".
[[noreturn]] void refuse(const std::string& argument, nb::handle value, std::string_view expected);

// A number or an integer from anything that Python takes for one; `argument` names it in the error.
double read_number(const std::string& argument, nb::handle value);
std::int64_t read_integer(const std::string& argument, nb::handle value);
std::uint64_t read_seed(const std::string& argument, nb::handle value);

// The integers of a list or a tuple; `expected` ends the error for anything else.
std::vector<std::int64_t> read_integers(const std::string& argument, nb::handle value, std::string_view expected);

// A str as UTF-8.
std::string read_string(const std::string& argument, nb::handle value);

// True or False, Python's or NumPy's.
bool read_flag(const std::string& argument, nb::handle value);

// Anything that can be called.
nb::object read_function(const std::string& argument, nb::handle value);

// A headway.Mask, undefined for None.
Mask read_mask(const std::string& argument, nb::handle value);

// One of several names, as the number of its place.
std::size_t read_choice(const std::string& argument, nb::handle value, const std::vector<std::string_view>& names);

// Which weights return_weights asks for: False, True for those of every head, or "mean".
Weights read_weights(const std::string& argument, nb::handle value);

// The tensor as a Python object, None where it is undefined.
nb::object to_python(const Tensor& tensor);

// "float32" -> DType::float32; a ValueError for any other name.
DType read_dtype(const std::string& argument, std::string_view name);

// DLPack's way to name a dtype, both ways; a TypeError for one that Headway has not.
DType dtype_of_code(const nb::dlpack::dtype& code, const std::string& argument);
nb::dlpack::dtype code_of_dtype(DType dtype);

// DLPack's number and index of a device, both ways; a ValueError for one where Headway does not compute.
Device device_of_code(std::int32_t type, std::int32_t index, const std::string& argument);
nb::dlpack::device code_of_device(Device device);

// DLPack's C exchange API of an object's type, null where it has none.
struct ExchangeApi;
const ExchangeApi* exchange_api_of(nb::handle object);

// The memory of an object of such a type; valid only as long as the caller holds the object.
Tensor borrow_exchanged(const ExchangeApi& api, nb::handle object, const std::string& argument);

// The tensor as an object of the API's library, on the same memory; None where it is undefined.
nb::object give_exchanged(const ExchangeApi& api, const Tensor& tensor);

// While it exists, work on a GPU tensor's device is enqueued on the stream that the tensor's library uses now: that of
// the exchange API, or the default stream. Nothing for a tensor on the CPU.
class StreamOf {
 public:
  StreamOf(const Tensor& tensor, const ExchangeApi* api);

 private:
  std::optional<CudaStreamGuard> guard_;
};

}  // namespace headway::python
