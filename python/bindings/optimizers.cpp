// Optimizers over a module's parameters, schedules, and gradient norms.
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "bindings/arrays.h"
#include "headway/optimizer.h"

namespace headway::python {
namespace {

using namespace nb::literals;

void bind_base(nb::module_& module) {
  nb::class_<Optimizer>(module, "Optimizer", "Changes the parameters that it was made from by their gradients.")
      .def(
          "step",
          [](Optimizer& self, double gradient_factor) {
            const LockReleased released;
            self.step(gradient_factor);
          },
          "gradient_factor"_a = 1.0, "Changes every parameter that has a gradient.")
      .def("zero_grad", &Optimizer::zero_grad, "Forgets the gradients of all parameters.")
      .def_prop_rw("learning_rate", &Optimizer::learning_rate, &Optimizer::set_learning_rate, "The learning rate.")
      .def_prop_ro("steps", &Optimizer::steps, "Steps taken so far.")
      .def("master_weights", &Optimizer::master_weights,
           "Weights by name before they are rounded: float32 for 16-bit parameters; not to be written to.")
      .def("load_master_weights", &Optimizer::load_master_weights, "weights"_a,
           "Copies weights in: to the masters in float32, rounded to the parameters.")
      .def("state_dict", &Optimizer::state_dict, "Moments by parameter, under torch's names, and master weights.")
      .def("load_state_dict", &Optimizer::load_state_dict, "state"_a, "Copies moments and master weights in.");
}

template <typename Kind>
void bind_adam(nb::module_& module, const char* name, const char* text) {
  nb::class_<Kind, Optimizer>(module, name, text)
      .def(
          "__init__",
          [](Kind* self, const Module& parameters, double learning_rate, double beta1, double beta2, double epsilon,
             std::optional<double> weight_decay, bool amsgrad, bool master_weights) {
            new (self) Kind(parameters, AdamOptions{.learning_rate = learning_rate,
                                                    .beta1 = beta1,
                                                    .beta2 = beta2,
                                                    .epsilon = epsilon,
                                                    .weight_decay = weight_decay,
                                                    .amsgrad = amsgrad,
                                                    .master_weights = master_weights});
          },
          "module"_a, nb::kw_only(), "learning_rate"_a = 1e-3, "beta1"_a = 0.9, "beta2"_a = 0.999, "epsilon"_a = 1e-8,
          "weight_decay"_a.none() = nb::none(), "amsgrad"_a = false, "master_weights"_a = true);
}

void bind_sgd(nb::module_& module) {
  nb::class_<Sgd, Optimizer>(module, "Sgd", "Gradient descent with momentum.")
      .def(
          "__init__",
          [](Sgd* self, const Module& parameters, double learning_rate, double momentum, double dampening,
             double weight_decay, bool nesterov, bool master_weights) {
            new (self) Sgd(parameters, SgdOptions{.learning_rate = learning_rate,
                                                  .momentum = momentum,
                                                  .dampening = dampening,
                                                  .weight_decay = weight_decay,
                                                  .nesterov = nesterov,
                                                  .master_weights = master_weights});
          },
          "module"_a, nb::kw_only(), "learning_rate"_a = 1e-3, "momentum"_a = 0.0, "dampening"_a = 0.0,
          "weight_decay"_a = 0.0, "nesterov"_a = false, "master_weights"_a = true);
}

void bind_schedules(nb::module_& module) {
  module.def("warmup_schedule", &warmup_schedule, "width"_a, "warmup_steps"_a, "factor"_a = 1.0,
             "The paper's learning rate by step: factor * width^-0.5 * min(step^-0.5, step * warmup^-1.5).");
  const auto decay = [&](const char* name, Schedule (*make)(const DecayOptions&), const char* text) {
    module.def(
        name,
        [make](double peak, std::int64_t steps, std::int64_t warmup_steps, double final_rate) {
          return make({.peak = peak, .warmup_steps = warmup_steps, .steps = steps, .final_rate = final_rate});
        },
        "peak"_a, "steps"_a, nb::kw_only(), "warmup_steps"_a = 0, "final_rate"_a = 0.0, text);
  };
  decay("cosine_schedule", &cosine_schedule, "The learning rate by step: up to the peak, then half a cosine down.");
  decay("linear_schedule", &linear_schedule, "The learning rate by step: up to the peak, then a line down.");
}

}  // namespace

void bind_optimizers(nb::module_& module) {
  bind_base(module);
  bind_sgd(module);
  bind_adam<Adam>(module, "Adam", "Adam; weight decay is added to the gradient.");
  bind_adam<AdamW>(module, "AdamW", "AdamW; weight decay shrinks the parameter itself.");
  bind_schedules(module);
  module.def(
      "gradient_norms",
      [](const Module& model) {
        const GradientNorms norms = gradient_norms(model.named_parameters());
        nb::dict layers;
        for (const NamedNorm& layer : norms.layers) layers[layer.name.c_str()] = layer.norm;
        return nb::make_tuple(norms.total, layers, norms.bad);
      },
      "module"_a, "(total, norm by layer, names of parameters whose gradient is not finite).");
  module.def(
      "clip_gradient_norm",
      [](const Module& model, double max_norm) { return clip_gradient_norm(model.named_parameters(), max_norm); },
      "module"_a, "max_norm"_a,
      "Scales a module's gradients so that their joint norm is at most max_norm; gives the norm before.");
}

}  // namespace headway::python
