// Optimizers with torch's formulas, each in one pass over all parameters; learning-rate schedules; gradient norms.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/module.h"

namespace headway {
inline namespace v0 {

namespace internal {
class OptimizerAccess;
}

// Parameters that share settings, such as no weight decay for biases and norms or a smaller learning rate.
struct ParameterGroup {
  std::vector<NamedTensor> parameters = {};
  std::optional<double> weight_decay = {};  // default: the optimizer's
  double learning_rate_factor = 1.0;
};

// Holds the parameters that it was made from: leaves that require a gradient, each once, all on one device. Parameters
// that are frozen at that time are left out; after unfreezing them, or after Module::to(), make a new optimizer. A
// parameter that is frozen later is skipped.
//
// Each 16-bit parameter has a float32 master unless the options disable it: a step updates the master, also by amounts
// too small for 16 bits, and the parameter is the rounded master. Elements of a parameter that were changed in another
// way since, as by Module::load_state_dict(), are the values that the next step starts from.
class HEADWAY_API Optimizer {
 public:
  virtual ~Optimizer();

  // Updates every parameter that has a gradient, in place; the others and their moments stay unchanged. Gradients are
  // multiplied by `gradient_factor` in the same pass, so that clipping needs none of its own.
  void step(double gradient_factor = 1.0);
  // Clears the gradients of all parameters.
  void zero_grad() const;

  double learning_rate() const;
  void set_learning_rate(double rate);
  // Steps taken so far.
  std::int64_t steps() const;
  // All parameters of all groups, in order.
  const std::vector<NamedTensor>& parameters() const;
  // The weights before they are rounded, by the parameters' names: the float32 master of a parameter that has one, as
  // the last step left it, else the parameter itself. They share memory with the optimizer and must not be
  // written to.
  StateDict master_weights() const;
  // Copies weights in, from any device and in any floating dtype: into the masters in float32 and into the parameters
  // rounded. With it, training starts from the weights that a model had before Module::to() rounded them. Every
  // parameter's name must be present, other names are ignored; where a shape is wrong nothing changes.
  void load_master_weights(const StateDict& weights);

  // Moments by parameter, under torch's names ("linear1.weight.exp_avg", "linear1.weight.momentum_buffer"), how often
  // each parameter was updated ("linear1.weight.step"), the masters ("linear1.weight.master") and the steps taken
  // ("steps"), sharing memory with the optimizer. load_state_dict() copies them in from any device, and changes nothing
  // on any mismatch. Moments of float64 parameters are float64, all others float32; they are on the parameters'
  // device, the counts on the CPU.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 protected:
  struct State;
  explicit Optimizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  friend class internal::OptimizerAccess;
};

// velocity = momentum * velocity + (1 - dampening) * gradient; parameter -= rate * velocity. Weight decay is added to
// the gradient. The first velocity is the gradient itself.
struct SgdOptions {
  double learning_rate = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;       // steps by gradient + momentum * velocity; needs momentum and no dampening
  bool master_weights = true;  // false: steps update 16-bit parameters directly, and small updates are lost to rounding
};
class HEADWAY_API Sgd : public Optimizer {
 public:
  explicit Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options = {});
  explicit Sgd(const Module& module, const SgdOptions& options = {});
};

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::optional<double> weight_decay = {};  // default: 0 for Adam, 0.01 for AdamW
  bool amsgrad = false;
  bool master_weights = true;  // as in SgdOptions
};
// Weight decay is added to the gradient.
class HEADWAY_API Adam : public Optimizer {
 public:
  explicit Adam(std::vector<ParameterGroup> groups, const AdamOptions& options = {});
  explicit Adam(const Module& module, const AdamOptions& options = {});
};
// Weight decay shrinks the parameter itself.
class HEADWAY_API AdamW : public Optimizer {
 public:
  explicit AdamW(std::vector<ParameterGroup> groups, const AdamOptions& options = {});
  explicit AdamW(const Module& module, const AdamOptions& options = {});
};

// ---- schedules: the learning rate of a step, counted from 1 ----

using Schedule = std::function<double(std::int64_t step)>;

HEADWAY_API Schedule constant_schedule(double rate);
// The paper's: factor * width^-0.5 * min(step^-0.5, step * warmup^-1.5).
HEADWAY_API Schedule warmup_schedule(std::int64_t width, std::int64_t warmup_steps, double factor = 1.0);

struct DecayOptions {
  double peak = 1e-3;
  std::int64_t warmup_steps = 0;  // the rate rises in a line up to the peak
  std::int64_t steps = 0;         // where the rate reaches `final_rate`
  double final_rate = 0.0;
};
// After the warm-up, half a cosine or a line down to the final rate, which is kept.
HEADWAY_API Schedule cosine_schedule(const DecayOptions& options);
HEADWAY_API Schedule linear_schedule(const DecayOptions& options);

// ---- gradient norms: what vanishing and exploding gradients look like ----

struct NamedNorm {
  std::string name;
  double norm = 0.0;
};
struct GradientNorms {
  double total = 0.0;
  std::vector<NamedNorm> parameters;  // one per parameter that has a gradient
  std::vector<NamedNorm> layers;      // parameters joined up to their layer's number: "encoder.layers.0", else the part
                                      // before the last dot, else the name
  std::vector<std::string> bad;       // parameters whose gradient holds NaN or infinity, the last layer first
};
// All norms from one pass over the gradients, which are on one device. Tiny gradients have a norm above zero, and huge
// finite ones a finite norm.
HEADWAY_API GradientNorms gradient_norms(const std::vector<NamedTensor>& parameters);

// Scales all gradients in place so that their joint norm is at most `max_norm`; returns the norm before. Where it is
// not finite, nothing is scaled.
HEADWAY_API double clip_gradient_norm(const std::vector<NamedTensor>& parameters, double max_norm);

}  // namespace v0
}  // namespace headway
