// Threads, random numbers, what the build is, and the count of calls.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <optional>

#include "bindings/bindings.h"
#include "headway/autograd.h"
#include "headway/info.h"
#include "headway/random.h"
#include "headway/threads.h"

namespace headway::python {
namespace {

using namespace nb::literals;

std::atomic<std::uint64_t> calls{0};

// `with headway.no_grad():`
struct NoGrad {
  std::optional<NoGradGuard> guard;
};

}  // namespace

void count_call() { calls.fetch_add(1, std::memory_order_relaxed); }

void bind_settings(nb::module_& module) {
  module.def("version", &version, "The library's version.");
  module.def("instruction_set", &instruction_set, "The instruction set in use.");
  module.def("instruction_sets", &instruction_sets, "What this build has and this machine runs, the best one last.");
  module.def(
      "num_threads", &num_threads,
      "The number of threads in use: the one that was set, else HEADWAY_NUM_THREADS, else PyTorch's where it has been "
      "imported, else one per processor.");
  module.def(
      "set_num_threads",
      [](nb::handle count) {
        const std::int64_t number = read_integer("set_num_threads: count", count);
        if (number < 1 || number > 1 << 16) {
          throw nb::value_error(
              ("set_num_threads: count is " + std::to_string(number) + ", expected 1 to 65536").c_str());
        }
        set_num_threads(static_cast<int>(number));
      },
      "count"_a, "Sets the number of threads, the caller's included. Results do not depend on it, bit for bit.");
  module.def(
      "set_random_seed", [](nb::handle seed) { set_random_seed(read_seed("set_random_seed: seed", seed)); }, "seed"_a,
      "Starts the stream of random numbers anew: the same seed and the same calls give the same numbers.");
  module.def("next_random_seed", &next_random_seed, "The next seed of the stream.");
  module.def(
      "call_count", []() { return calls.load(std::memory_order_relaxed); },
      "How many computations this module has run since it was imported.");
  module.def("_count_call", &count_call, "Counts a computation of another module of the package.");
  module.def("gradients_enabled", &gradients_enabled, "Whether this thread records operations for gradients.");

  nb::class_<NoGrad>(module, "no_grad", "While it lasts, this thread records nothing for gradients.")
      .def("__init__", [](NoGrad* self) { new (self) NoGrad; })
      .def("__enter__", [](NoGrad& self) { self.guard.emplace(); })
      .def("__exit__", [](NoGrad& self, nb::args) { self.guard.reset(); });
}

}  // namespace headway::python
