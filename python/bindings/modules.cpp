// Module and the small layers.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "bindings/arrays.h"
#include "headway/layers.h"

namespace headway::python {
namespace {

using namespace nb::literals;
using Array = nb::handle;

// Values by name; each may be an array of any library.
void load(const Module& self, const nb::dict& values, bool strict) {
  StateDict state;
  for (const auto& [name, value] : values) {
    const std::string key = read_string("load_state_dict: a name", name);
    state[key] = Arrays("load_state_dict").read(key.c_str(), value);
  }
  self.load_state_dict(state, strict);
}

nb::dict named_parameters(const Module& self) {
  nb::dict result;
  for (const NamedTensor& parameter : self.named_parameters()) result[parameter.name.c_str()] = parameter.tensor;
  return result;
}

template <typename Layer>
nb::object forward(const Layer& self, Array x) {
  Arrays arrays("forward");
  const Tensor input = arrays.read("x", x);
  return arrays.map([&] { return self.forward(input); });
}

template <typename Layer>
nb::object forward_from(const Layer& self, Array x, std::int64_t offset) {
  Arrays arrays("forward");
  const Tensor input = arrays.read("x", x);
  return arrays.map([&] { return self.forward(input, offset); });
}

template <typename Layer>
void bind_forward(nb::class_<Layer, Module>& layer) {
  layer.def("forward", &forward<Layer>, "x"_a, "The layer's output.");
  layer.def("__call__", &forward<Layer>, "x"_a);
}

void bind_base(nb::module_& module) {
  nb::class_<Module>(module, "Module", "What layers and models have in common.")
      .def("named_parameters", &named_parameters, "All parameters by name, in the order in which they were made.")
      .def("parameters", &Module::parameters, "All parameters; tied ones come once.")
      .def("parameter_count", &Module::parameter_count, "The number of trainable values.")
      .def("state_dict", &Module::state_dict, "Parameters and buffers by name, sharing memory with the module.")
      .def("load_state_dict", &load, "values"_a, "strict"_a = true,
           "Copies values in, arrays of any library; nothing changes when anything is wrong.")
      .def("train", &Module::train, "on"_a = true, "Dropout is active only in training mode.")
      .def("eval", &Module::eval, "The opposite of train().")
      .def_prop_ro("is_training", &Module::is_training, "Whether dropout works.")
      .def(
          "to",
          [](const Module& self, const std::string& target) {
            if (Device::is_name(target)) return self.to(Device::parse(target));
            self.to(read_dtype("to: target", target));
          },
          "target"_a,
          "Converts every floating parameter and buffer to a dtype, or moves all to a device: \"cpu\", \"cuda\".")
      .def("freeze", &Module::freeze, "No gradients of any parameter are wanted.")
      .def("unfreeze", &Module::unfreeze, "The opposite of freeze().")
      .def("zero_grad", &Module::zero_grad, "Forgets all gradients.");
}

void bind_linear(nb::module_& module) {
  nb::class_<Linear, Module> layer(module, "Linear", "activation(x W^T + b). Parameters: weight, bias.");
  layer.def(
      "__init__",
      [](Linear* self, std::int64_t in_features, std::int64_t out_features, bool bias, Array activation,
         const std::string& dtype) {
        new (self) Linear({.in_features = in_features,
                           .out_features = out_features,
                           .bias = bias,
                           .activation = read_activation("Linear: activation", activation),
                           .dtype = read_dtype("Linear: dtype", dtype)});
      },
      "in_features"_a, "out_features"_a, nb::kw_only(), "bias"_a = true, "activation"_a = "none",
      "dtype"_a = "float32");
  bind_forward(layer);
}

void bind_norms(nb::module_& module) {
  nb::class_<LayerNorm, Module> layer_norm(module, "LayerNorm", "Normalises the last dimension.");
  layer_norm.def(
      "__init__",
      [](LayerNorm* self, std::int64_t width, double epsilon, bool affine, bool bias, const std::string& dtype) {
        new (self) LayerNorm({.width = width,
                              .epsilon = epsilon,
                              .affine = affine,
                              .bias = bias,
                              .dtype = read_dtype("LayerNorm: dtype", dtype)});
      },
      "width"_a, nb::kw_only(), "epsilon"_a = 1e-5, "affine"_a = true, "bias"_a = true, "dtype"_a = "float32");
  bind_forward(layer_norm);
  nb::class_<RmsNorm, Module> rms_norm(module, "RmsNorm", "Divides the last dimension by its root mean square.");
  rms_norm.def(
      "__init__",
      [](RmsNorm* self, std::int64_t width, std::optional<double> epsilon, bool affine, const std::string& dtype) {
        new (self) RmsNorm(
            {.width = width, .epsilon = epsilon, .affine = affine, .dtype = read_dtype("RmsNorm: dtype", dtype)});
      },
      "width"_a, nb::kw_only(), "epsilon"_a.none() = nb::none(), "affine"_a = true, "dtype"_a = "float32");
  bind_forward(rms_norm);
}

void bind_tokens(nb::module_& module) {
  nb::class_<Embedding, Module> embedding(module, "Embedding", "Rows of a table by integer. Parameter: weight.");
  embedding.def(
      "__init__",
      [](Embedding* self, std::int64_t count, std::int64_t width, std::optional<std::int64_t> padding_index,
         const std::string& dtype) {
        new (self) Embedding({.count = count,
                              .width = width,
                              .padding_index = padding_index,
                              .dtype = read_dtype("Embedding: dtype", dtype)});
      },
      "count"_a, "width"_a, nb::kw_only(), "padding_index"_a.none() = nb::none(), "dtype"_a = "float32");
  bind_forward(embedding);
  nb::class_<Dropout, Module> dropout(module, "Dropout", "Drops elements in training mode; the identity otherwise.");
  dropout.def(nb::init<double>(), "probability"_a = 0.5);
  bind_forward(dropout);
}

template <typename Layer>
void bind_positions(nb::module_& module, const char* name, const char* text) {
  nb::class_<Layer, Module>(module, name, text)
      .def(
          "__init__",
          [](Layer* self, std::int64_t width, std::int64_t max_length, double dropout, Array layout,
             const std::string& dtype) {
            new (self) Layer(
                {.max_length = max_length,
                 .width = width,
                 .dropout = dropout,
                 .layout = static_cast<Sinusoid>(read_choice("positions: layout", layout, {"interleaved", "halves"})),
                 .dtype = read_dtype("positions: dtype", dtype)});
          },
          "width"_a, nb::kw_only(), "max_length"_a = 5000, "dropout"_a = 0.0, "layout"_a = "interleaved",
          "dtype"_a = "float32")
      .def("forward", &forward_from<Layer>, "x"_a, "offset"_a = 0, "x with positions added.")
      .def("__call__", &forward_from<Layer>, "x"_a, "offset"_a = 0);
}

void bind_feed_forward(nb::module_& module) {
  nb::class_<FeedForward, Module> layer(module, "FeedForward", "Two products with an activation between.");
  layer.def(
      "__init__",
      [](FeedForward* self, std::int64_t width, std::int64_t hidden, Array activation, bool gated, double dropout,
         bool bias, const std::string& dtype) {
        new (self) FeedForward({.width = width,
                                .hidden = hidden,
                                .activation = read_activation("FeedForward: activation", activation),
                                .gated = gated,
                                .dropout = dropout,
                                .bias = bias,
                                .dtype = read_dtype("FeedForward: dtype", dtype)});
      },
      "width"_a, nb::kw_only(), "hidden"_a = 0, "activation"_a = "relu", "gated"_a = false, "dropout"_a = 0.0,
      "bias"_a = true, "dtype"_a = "float32");
  bind_forward(layer);
}

}  // namespace

void bind_modules(nb::module_& module) {
  bind_base(module);
  bind_linear(module);
  bind_norms(module);
  bind_tokens(module);
  bind_positions<SinusoidalPositions>(module, "SinusoidalPositions", "Adds the paper's sines and cosines.");
  bind_positions<LearnedPositions>(module, "LearnedPositions", "Adds a learned row per position.");
  bind_feed_forward(module);
}

}  // namespace headway::python
