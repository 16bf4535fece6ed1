#include <memory>
#include <stdexcept>

#include "conformance/cases.h"
#include "headway/ops.h"
#include "headway/optimizer.h"

namespace headway_test {

using headway::DType;
using headway::NamedTensor;
using headway::Tensor;

namespace {

// As in tests/torch/compute.py.
constexpr int kSteps = 20;

// Vectors have half the rate and no decay where the options ask for groups.
std::vector<headway::ParameterGroup> parameter_groups(const headway::Module& module, bool split) {
  if (!split) return {{.parameters = module.named_parameters()}};
  headway::ParameterGroup matrices, vectors = {.weight_decay = 0.0, .learning_rate_factor = 0.5};
  for (const NamedTensor& parameter : module.named_parameters()) {
    (parameter.tensor.rank() > 1 ? matrices : vectors).parameters.push_back(parameter);
  }
  return {matrices, vectors};
}

std::unique_ptr<headway::Optimizer> make_optimizer(const headway::Module& module, const FixtureOptions& options) {
  const auto groups = parameter_groups(module, options.flag("groups"));
  const std::string name = options.text("optimizer");
  if (name == "sgd") {
    const headway::SgdOptions sgd = {.learning_rate = options.real("learning_rate", 0.0),
                                     .momentum = options.real("momentum", 0.0),
                                     .dampening = options.real("dampening", 0.0),
                                     .weight_decay = options.real("weight_decay", 0.0),
                                     .nesterov = options.flag("nesterov")};
    return std::make_unique<headway::Sgd>(groups, sgd);
  }
  const headway::AdamOptions adam = {.learning_rate = options.real("learning_rate", 0.0),
                                     .beta1 = options.real("beta1", 0.9),
                                     .beta2 = options.real("beta2", 0.999),
                                     .epsilon = options.real("adam_epsilon", 1e-8),
                                     .weight_decay = options.optional_real("weight_decay"),
                                     .amsgrad = options.flag("amsgrad")};
  if (name == "adam") return std::make_unique<headway::Adam>(groups, adam);
  if (name == "adamw") return std::make_unique<headway::AdamW>(groups, adam);
  throw std::runtime_error("fixture: no such optimizer: " + name);
}

// Steps on the mean squared distance of the output from `target`; gives the loss before each.
Tensor train(const TorchCase& made, const FixtureOptions& options, const TensorMap& inputs, const Tensor& target) {
  const auto optimizer = make_optimizer(*made.module, options);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    const Tensor difference = made.forward(inputs).at("output") - target;
    const Tensor loss = headway::mean(difference * difference);
    loss.backward();
    if (options.has("clip")) headway::clip_gradient_norm(optimizer->parameters(), options.real("clip", 0.0));
    optimizer->step();
    losses.push_back(loss.item());
  }
  return Tensor::from(losses, {kSteps});
}

// Walks back from all outputs at once.
void backward(const TensorMap& outputs, const TensorMap& d_outputs, DType dtype) {
  if (d_outputs.size() == 1) {
    outputs.at(d_outputs.begin()->first).backward(d_outputs.begin()->second.to(dtype));
    return;
  }
  Tensor total;
  for (const auto& [name, d_output] : d_outputs) {
    const Tensor part = headway::sum(outputs.at(name) * d_output.to(dtype));
    total = total.defined() ? total + part : part;
  }
  total.backward();
}

}  // namespace

TorchCase make_case(const FixtureOptions& options, DType dtype) {
  TorchCase made = make_small_case(options, dtype);
  if (!made.forward) made = make_attending_case(options, dtype);
  if (!made.forward) throw std::runtime_error("fixture: no such kind of case: " + options.text("kind"));
  return made;
}

TensorMap compute(const TorchCase& made, const FixtureOptions& options, DType dtype, const Fixture& given) {
  TensorMap inputs = given.part("input."), results;
  for (auto& [name, tensor] : inputs) {
    if (headway::is_floating(tensor.dtype())) tensor = tensor.to(dtype).clone().set_requires_grad();
  }
  const TensorMap d_outputs = given.part("d_output.");
  if (options.has("optimizer")) {
    results["losses"] = train(made, options, inputs, d_outputs.at("output").to(dtype));
    for (const auto& [name, tensor] : made.module->state_dict()) results["after." + name] = tensor;
    return results;
  }
  const TensorMap outputs = made.forward(inputs);
  for (const auto& [name, tensor] : outputs) results["output." + name] = tensor;
  if (d_outputs.empty()) return results;
  backward(outputs, d_outputs, dtype);
  for (const auto& [name, tensor] : inputs) {
    if (tensor.requires_grad()) results["d_input." + name] = tensor.grad();
  }
  if (!made.module) return results;
  for (const NamedTensor& parameter : made.module->named_parameters()) {
    results["d_state." + parameter.name] = parameter.tensor.grad();
  }
  return results;
}

}  // namespace headway_test
