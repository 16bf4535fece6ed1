// Files of named tensors: safetensors.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.h"
#include "headway/safetensors.h"

namespace headway::python {
namespace {

using namespace nb::literals;

void save(const std::filesystem::path& path, const nb::dict& tensors,
          const std::map<std::string, std::string>& metadata) {
  std::map<std::string, Tensor> values;
  for (const auto& [name, array] : tensors) {
    const std::string key = read_string("save_safetensors: a name", name);
    values[key] = Arrays("save_safetensors").read(key.c_str(), array);
  }
  const LockReleased released;
  save_safetensors(path, values, metadata);
}

// A tensor of the file. Its memory is private to this process, and shared by all tensors of the file.
Tensor get_read_only(const SafeTensors& self, const std::string& name) {
  const Tensor tensor = self.get(name);
  const void* constants = tensor.raw_data();
  return Tensor::wrap(constants, tensor.shape(), tensor.dtype(), [tensor] {});
}

std::map<std::string, Tensor> load(const std::filesystem::path& path) {
  const SafeTensors file = SafeTensors::open(path);
  std::map<std::string, Tensor> tensors;
  for (const std::string& name : file.names()) tensors[name] = file.get(name).clone();
  return tensors;
}

}  // namespace

void bind_files(nb::module_& module) {
  nb::class_<SafeTensors>(module, "SafeTensors", "An open safetensors file; its tensors are views of the file.")
      .def_static("open", &SafeTensors::open, "path"_a, "Maps the file and checks its whole header.")
      .def("names", &SafeTensors::names, "All tensors in the order of their data.")
      .def("metadata", &SafeTensors::metadata, "The file's own notes.")
      .def("get", &get_read_only, "name"_a, "The tensor of that name, a view of the file that is read-only.")
      .def("__contains__", [](const SafeTensors& self, const std::string& name) { return self.contains(name); });
  module.def("load_safetensors", &load, "path"_a, "All tensors of a file by name, in memory of their own.");
  module.def("save_safetensors", &save, "path"_a, "tensors"_a, "metadata"_a = std::map<std::string, std::string>(),
             "Writes arrays of any library by name; a file of that name is replaced at once, or not at all.");
}

}  // namespace headway::python
