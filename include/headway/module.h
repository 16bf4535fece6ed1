// Module: the base class of layers and models. Like a Tensor, a module is a shared handle: copying it shares its
// parameters, and assigning another module to it replaces only the handle.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headway/export.h"
#include "headway/tensor.h"

namespace headway {
inline namespace v0 {

// A tensor with its name in a model, such as "encoder.layers.0.linear1.weight".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Parameters and buffers by name, as in torch's state_dict() and in a safetensors file.
using StateDict = std::map<std::string, Tensor>;

// A slot that holds one parameter, shared by every module that is tied to it.
class HEADWAY_API Parameter {
 public:
  Parameter() = default;  // undefined, as the bias of a layer without one
  explicit Parameter(const Tensor& value);

  bool defined() const { return slot_ != nullptr; }
  // The tensor; undefined where the parameter is undefined.
  const Tensor& get() const;
  // Replaces the tensor in every module that shares the parameter. The new tensor keeps its own requires_grad().
  void set(const Tensor& value) const;
  // True when both share one slot.
  bool is_tied_to(const Parameter& other) const { return slot_ == other.slot_; }

 private:
  std::shared_ptr<Tensor> slot_;
};

// forward() may be called from several threads at once, and so may what it returns be backward(); whatever changes a
// module (train(), to(), load_state_dict(), an optimizer's step) needs it for itself.
class HEADWAY_API Module {
 public:
  virtual ~Module() = default;

  // All parameters, those of inner modules included, in the order of their creation; tied ones are listed once.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<Tensor> parameters() const;
  // The number of trainable values; tied ones count once.
  std::int64_t parameter_count() const;

  // Parameters and buffers by name, sharing memory with the module; tied ones are listed under each of their names.
  StateDict state_dict() const;
  // Copies the values in, converted to the module's dtypes. Shapes must agree; where `strict`, names must agree too. On
  // any mismatch nothing changes, and the Error lists all missing and unexpected names and all wrong shapes.
  void load_state_dict(const StateDict& values, bool strict = true) const;

  // Replaces a parameter by a tensor of the same shape. Where that tensor is the result of recorded operations, the
  // gradient flows through it to their inputs.
  void set_parameter(const std::string& name, const Tensor& value) const;

  // Dropout is active only in training mode. As in torch, new modules are in training mode.
  void train(bool on = true) const;
  void eval() const { train(false); }
  bool is_training() const;

  // Converts every floating parameter and buffer; gradients are dropped.
  void to(DType dtype) const;
  // Moves every parameter and buffer to a device; gradients are dropped. Tied parameters stay tied.
  void to(Device device) const;
  // Sets requires_grad() of all parameters; freeze() keeps the module's parameters unchanged in training.
  void set_requires_grad(bool wanted) const;
  void freeze() const { set_requires_grad(false); }
  void unfreeze() const { set_requires_grad(true); }
  // Clears all gradients.
  void zero_grad() const;

  // The direct submodules with their names.
  std::vector<std::pair<std::string, Module>> children() const;

 protected:
  Module();

  // Registers a trainable parameter; an undefined value registers nothing.
  Parameter add_parameter(const std::string& name, const Tensor& value);
  // Registers a parameter that is shared with another module.
  void add_parameter(const std::string& name, const Parameter& shared);
  // Registers a tensor that is part of the state but is not trained.
  Parameter add_buffer(const std::string& name, const Tensor& value);
  void add_module(const std::string& name, const Module& module);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace v0
}  // namespace headway
