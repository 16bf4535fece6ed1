// Module: what layers and models have in common. A module is a shared handle, as a Tensor is: copying it shares its
// parameters, and assigning another one to it replaces the handle alone.
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

// A tensor with the name that it has in a model: "encoder.layers.0.linear1.weight".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Parameters and buffers by name, as torch's state_dict(); safetensors files hold just this.
using StateDict = std::map<std::string, Tensor>;

// A place for one parameter, shared by every module that is tied to it.
class HEADWAY_API Parameter {
 public:
  Parameter() = default;  // none: a layer without bias
  explicit Parameter(const Tensor& value);

  bool defined() const { return slot_ != nullptr; }
  // The tensor; undefined where there is none.
  const Tensor& get() const;
  // Another tensor in its place, for every module that shares it. Its gradient is not wanted unless it says so.
  void set(const Tensor& value) const;
  // True when both are the same place.
  bool is_tied_to(const Parameter& other) const { return slot_ == other.slot_; }

 private:
  std::shared_ptr<Tensor> slot_;
};

class HEADWAY_API Module {
 public:
  virtual ~Module() = default;

  // All parameters, those of inner modules included, in the order in which they were made; tied ones come once.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<Tensor> parameters() const;
  // The number of trainable values; tied ones count once.
  std::int64_t parameter_count() const;

  // Parameters and buffers by name, sharing memory with the module; tied ones come under each of their names.
  StateDict state_dict() const;
  // Copies values in, converting to the module's dtypes. Where `strict`, every name must be there on both sides; shapes
  // must agree always. Nothing changes when anything is wrong, and the Error lists all of it.
  void load_state_dict(const StateDict& values, bool strict = true) const;

  // Puts another tensor of the same shape in a parameter's place, its record included: the gradient then flows on to
  // what it was computed from.
  void set_parameter(const std::string& name, const Tensor& value) const;

  // Dropout works in training alone. New modules are in training, as torch's are.
  void train(bool on = true) const;
  void eval() const { train(false); }
  bool is_training() const;

  // Converts every floating parameter and buffer; gradients are dropped.
  void to(DType dtype) const;
  // Moves every parameter and buffer to a device; gradients are dropped. What shared a tensor still does.
  void to(Device device) const;
  // Whether gradients of all parameters are wanted: freeze() to keep a part as it is.
  void set_requires_grad(bool wanted) const;
  void freeze() const { set_requires_grad(false); }
  void unfreeze() const { set_requires_grad(true); }
  // Forgets all gradients.
  void zero_grad() const;

  // Inner modules by name, the direct ones.
  std::vector<std::pair<std::string, Module>> children() const;

 protected:
  Module();

  // Makes a trainable parameter; an undefined value makes none.
  Parameter add_parameter(const std::string& name, const Tensor& value);
  // Shares a parameter that another module made.
  void add_parameter(const std::string& name, const Parameter& shared);
  // A tensor that belongs to the state and is not trained.
  Parameter add_buffer(const std::string& name, const Tensor& value);
  void add_module(const std::string& name, const Module& module);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace v0
}  // namespace headway
