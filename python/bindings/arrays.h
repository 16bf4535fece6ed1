// Functions that take arrays of any library and return the same kind.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "bindings/bindings.h"
#include "headway/attention.h"
#include "headway/autograd.h"
#include "headway/ops.h"

namespace headway::python {

// The arrays of one call. The first one read decides what kind comes out; only headway.Tensor records gradients.
class Arrays {
 public:
  explicit Arrays(std::string function) : function_(std::move(function)) {}

  // The array as a tensor, undefined for None.
  Tensor read(const char* name, nb::handle array);

  // A headway.Mask, undefined for None.
  Mask read_mask(const char* name, nb::handle mask) const { return python::read_mask(argument(name), mask); }

  // One integer, a sequence of them or an array; undefined for None.
  PerEntry read_per_entry(const char* name, nb::handle value);

  // Computes without the interpreter's lock.
  template <typename Compute>
  auto run(const Compute& compute) const {
    count_call();
    const LockReleased released;
    std::optional<NoGradGuard> guard;
    if (!records_) guard.emplace();
    return compute();
  }

  // The tensor as an array of the inputs' kind, None where it is undefined.
  nb::object give(const Tensor& tensor) const;

  // run(), then give().
  template <typename Compute>
  nb::object map(const Compute& compute) const {
    return give(run(compute));
  }

  std::string argument(const char* name) const { return function_ + ": " + name; }

 private:
  std::string function_;
  nb::object kind_;
  bool records_ = true;
};

Activation read_activation(const std::string& argument, nb::handle value);
Causal read_causal(const std::string& argument, nb::handle value);

}  // namespace headway::python
