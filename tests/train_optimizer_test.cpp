// Optimizers against plain loops in double, over many steps.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "headway/autograd.h"
#include "headway/layers.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "support/bits.h"
#include "support/message_of.h"
#include "support/tiny_model.h"

namespace {

using headway::AdamOptions;
using headway::DType;
using headway::NamedTensor;
using headway::SgdOptions;
using headway::Tensor;
using headway_test::message_of;
using headway_test::same_bits;
using headway_test::TinyModel;

constexpr int kSteps = 20;

// One parameter as the formulas see it.
struct Reference {
  std::vector<double> value, first, second, largest;
  int steps = 0;

  explicit Reference(const Tensor& tensor)
      : value(tensor.to_vector()), first(value.size()), second(value.size()), largest(value.size()) {}

  void sgd(const std::vector<double>& gradient, double rate, const SgdOptions& o) {
    ++steps;
    for (std::size_t i = 0; i < value.size(); ++i) {
      double g = gradient[i] + o.weight_decay * value[i];
      if (o.momentum != 0) {
        first[i] = steps == 1 ? g : o.momentum * first[i] + (1 - o.dampening) * g;
        g = o.nesterov ? g + o.momentum * first[i] : first[i];
      }
      value[i] -= rate * g;
    }
  }

  void adam(const std::vector<double>& gradient, double rate, const AdamOptions& o, bool decoupled) {
    ++steps;
    for (std::size_t i = 0; i < value.size(); ++i) {
      double g = gradient[i];
      if (decoupled) {
        value[i] -= rate * *o.weight_decay * value[i];
      } else {
        g += *o.weight_decay * value[i];
      }
      first[i] = o.beta1 * first[i] + (1 - o.beta1) * g;
      second[i] = o.beta2 * second[i] + (1 - o.beta2) * g * g;
      largest[i] = std::max(largest[i], second[i]);
      const double v_hat = (o.amsgrad ? largest[i] : second[i]) / (1 - std::pow(o.beta2, steps));
      value[i] -= rate * (first[i] / (1 - std::pow(o.beta1, steps))) / (std::sqrt(v_hat) + o.epsilon);
    }
  }
};

std::vector<NamedTensor> make_parameters(DType dtype) {
  std::vector<NamedTensor> parameters;
  for (const headway::Shape& shape :
       {headway::Shape{3, 7}, headway::Shape{5}, headway::Shape{0, 4}, headway::Shape{}}) {
    std::string name("p");
    name += std::to_string(parameters.size());
    parameters.push_back({name, Tensor::randn(shape, 10 + parameters.size(), dtype).set_requires_grad()});
  }
  return parameters;
}

// Runs the optimizer and `reference_step(reference, gradient, parameter number)` side by side. The second parameter has
// no gradient in every third step, and gradients come with strides in every second.
template <typename Step>
void compare(headway::Optimizer& optimizer, const std::vector<NamedTensor>& parameters, const Step& reference_step) {
  const DType dtype = parameters[0].tensor.dtype();
  std::vector<Reference> references;
  for (const NamedTensor& parameter : parameters) references.emplace_back(parameter.tensor);
  constexpr double kFactor = 0.75;
  for (int step = 1; step <= kSteps; ++step) {
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const Tensor& tensor = parameters[p].tensor;
      if (p == 1 && step % 3 == 0) {
        tensor.set_grad({});
        continue;
      }
      Tensor gradient = Tensor::randn(tensor.shape(), static_cast<std::uint64_t>(1000 * step) + p, dtype);
      if (p == 0 && step % 2 == 0) gradient = gradient.transpose(0, 1).contiguous().transpose(0, 1);
      tensor.set_grad(gradient);
      std::vector<double> scaled = gradient.to_vector();
      for (double& g : scaled) g *= kFactor;
      reference_step(references[p], scaled, p);
    }
    const std::uint64_t version = parameters[0].tensor.version();
    optimizer.step(kFactor);
    EXPECT_GT(parameters[0].tensor.version(), version);
    EXPECT_EQ(optimizer.steps(), step);
  }
  const double tolerance = dtype == DType::float64 ? 1e-13 : dtype == DType::float32 ? 1e-5 : 0.1;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::vector<double> values = parameters[p].tensor.to_vector();
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], references[p].value[i], tolerance * (1 + std::abs(references[p].value[i])))
          << parameters[p].name << " " << i << " " << dtype_name(dtype);
    }
  }
}

constexpr DType kDtypes[] = {DType::float32, DType::float64, DType::bfloat16};

TEST(TrainOptimizer, SgdIsTheFormula) {
  const SgdOptions cases[] = {
      {.learning_rate = 0.1},
      {.learning_rate = 0.1, .weight_decay = 0.05},
      {.learning_rate = 0.05, .momentum = 0.9},
      {.learning_rate = 0.05, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01},
      {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
  };
  for (const SgdOptions& options : cases) {
    for (const DType dtype : kDtypes) {
      const std::vector<NamedTensor> parameters = make_parameters(dtype);
      headway::Sgd optimizer({{.parameters = parameters}}, options);
      compare(optimizer, parameters, [&](Reference& reference, const std::vector<double>& gradient, std::size_t) {
        reference.sgd(gradient, options.learning_rate, options);
      });
    }
  }
}

TEST(TrainOptimizer, AdamAndAdamWAreTheFormula) {
  const AdamOptions cases[] = {
      {.learning_rate = 0.01, .weight_decay = 0.0},
      {.learning_rate = 0.01, .weight_decay = 0.1},
      {.learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1, .amsgrad = true},
  };
  for (const AdamOptions& options : cases) {
    for (const DType dtype : kDtypes) {
      for (const bool decoupled : {false, true}) {
        const std::vector<NamedTensor> parameters = make_parameters(dtype);
        std::unique_ptr<headway::Optimizer> optimizer;
        if (decoupled) {
          optimizer = std::make_unique<headway::AdamW>(std::vector<headway::ParameterGroup>{{parameters}}, options);
        } else {
          optimizer = std::make_unique<headway::Adam>(std::vector<headway::ParameterGroup>{{parameters}}, options);
        }
        compare(*optimizer, parameters, [&](Reference& reference, const std::vector<double>& gradient, std::size_t) {
          reference.adam(gradient, options.learning_rate, options, decoupled);
        });
      }
    }
  }
}

// Which optimizers a test of masters is about.
std::unique_ptr<headway::Optimizer> make_optimizer(int kind, const std::vector<NamedTensor>& parameters,
                                                   bool master_weights) {
  const std::vector<headway::ParameterGroup> groups = {{.parameters = parameters}};
  const SgdOptions sgd{.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 0.02, .master_weights = master_weights};
  const AdamOptions adam{.learning_rate = 0.01, .weight_decay = 0.02, .master_weights = master_weights};
  if (kind == 0) return std::make_unique<headway::Sgd>(groups, sgd);
  if (kind == 1) return std::make_unique<headway::Adam>(groups, adam);
  return std::make_unique<headway::AdamW>(groups, adam);
}

// Every parameter's gradient at a step: the same numbers in every dtype, which all of them can hold.
void set_step_gradients(const std::vector<NamedTensor>& parameters, int step) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const Tensor& tensor = parameters[p].tensor;
    const std::uint64_t seed = static_cast<std::uint64_t>(100 * step) + p;
    tensor.set_grad(Tensor::randn(tensor.shape(), seed, DType::bfloat16).to(tensor.dtype()));
  }
}

// Given the same gradients, a bfloat16 parameter's master has the bits of a float32 parameter.
TEST(TrainOptimizer, MastersAreFloat32Training) {
  for (const int kind : {0, 1, 2}) {
    const std::vector<NamedTensor> rounded = make_parameters(DType::bfloat16);
    std::vector<NamedTensor> whole;
    for (const auto& [name, tensor] : rounded) {
      whole.push_back({name, tensor.detach().to(DType::float32).set_requires_grad()});
    }
    const auto mixed = make_optimizer(kind, rounded, true), plain = make_optimizer(kind, whole, true);
    for (int step = 1; step <= kSteps; ++step) {
      set_step_gradients(rounded, step);
      set_step_gradients(whole, step);
      mixed->step();
      plain->step();
    }
    const headway::StateDict masters = mixed->master_weights(), weights = plain->master_weights();
    ASSERT_EQ(masters.size(), rounded.size());
    for (std::size_t p = 0; p < rounded.size(); ++p) {
      const std::string& name = rounded[p].name;
      EXPECT_TRUE(same_bits(masters.at(name), whole[p].tensor)) << name << " of optimizer " << kind;
      EXPECT_TRUE(same_bits(weights.at(name), whole[p].tensor)) << name;
      EXPECT_TRUE(same_bits(rounded[p].tensor, masters.at(name).to(DType::bfloat16))) << name;
    }
    EXPECT_FALSE(plain->state_dict().contains("p0.master"));
    EXPECT_FALSE(make_optimizer(kind, rounded, false)->state_dict().contains("p0.master"));
  }
}

// The master is part of the state: half of the steps with one optimizer and half with another are all with one. The
// parameters' own bits would not do.
TEST(TrainOptimizer, MastersMoveToAnotherOptimizer) {
  for (const int kind : {0, 1, 2}) {
    const std::vector<NamedTensor> straight = make_parameters(DType::bfloat16),
                                   first = make_parameters(DType::bfloat16), second = make_parameters(DType::bfloat16);
    const auto whole = make_optimizer(kind, straight, true), before = make_optimizer(kind, first, true),
               after = make_optimizer(kind, second, true);
    for (int step = 1; step <= kSteps; ++step) {
      const bool late = step > kSteps / 2;
      if (step == kSteps / 2 + 1) {
        for (std::size_t p = 0; p < first.size(); ++p) Tensor(second[p].tensor.detach()).copy_from(first[p].tensor);
        after->load_state_dict(before->state_dict());
      }
      set_step_gradients(straight, step);
      set_step_gradients(late ? second : first, step);
      whole->step();
      (late ? after : before)->step();
    }
    const headway::StateDict expected = whole->state_dict(), got = after->state_dict();
    EXPECT_EQ(expected.at("p0.master").dtype(), DType::float32);
    for (const auto& [name, tensor] : expected) EXPECT_TRUE(same_bits(tensor, got.at(name))) << name;
    for (std::size_t p = 0; p < straight.size(); ++p) {
      EXPECT_TRUE(same_bits(straight[p].tensor, second[p].tensor)) << straight[p].name;
    }
  }
}

// Weights that are loaded after the optimizer was made are those that it trains.
TEST(TrainOptimizer, WeightsThatAreLoadedCount) {
  Tensor parameter = Tensor::full({3}, 1.0, DType::bfloat16).set_requires_grad();
  headway::Sgd optimizer({{.parameters = {{"p", parameter}}}}, {.learning_rate = 0x1p-12});
  Tensor(parameter.detach()).fill(4.0);
  parameter.set_grad(Tensor::full({3}, 1.0, DType::bfloat16));
  optimizer.step();
  EXPECT_EQ(optimizer.master_weights().at("p").to_vector(), std::vector<double>(3, 4.0 - 0x1p-12));
  EXPECT_EQ(parameter.to_vector(), std::vector<double>(3, 4.0));
}

// What a model held before it was rounded is where its masters may start.
TEST(TrainOptimizer, MastersStartFromWeightsThatAreGiven) {
  const TinyModel model;
  const headway::StateDict initial = model.state_dict();
  model.to(DType::bfloat16);
  headway::Adam optimizer(model, {});
  optimizer.load_master_weights(initial);
  for (const auto& [name, tensor] : optimizer.master_weights())
    EXPECT_TRUE(same_bits(tensor, initial.at(name))) << name;
  for (const auto& [name, tensor] : model.state_dict()) {
    EXPECT_TRUE(same_bits(tensor, initial.at(name).to(DType::bfloat16))) << name;
  }
  headway::StateDict doubled;
  for (const auto& [name, tensor] : initial) doubled[name] = headway::scale(tensor.detach(), 2.0);
  optimizer.load_master_weights(doubled);
  EXPECT_TRUE(same_bits(model.first_.weight_.get(), doubled.at("layers.0.weight").to(DType::bfloat16)));

  headway::StateDict missing = initial, other_shape = doubled;
  missing.erase("layers.1.bias");
  other_shape["layers.1.bias"] = Tensor::zeros({4});
  EXPECT_EQ(message_of([&] { optimizer.load_master_weights(missing); }),
            "Adam: load_master_weights: \"layers.1.bias\" is missing, expected bfloat16[3]");
  EXPECT_EQ(message_of([&] { optimizer.load_master_weights(other_shape); }),
            "Adam: load_master_weights: \"layers.1.bias\" is float32[4], expected bfloat16[3]");
  EXPECT_TRUE(same_bits(optimizer.master_weights().at("layers.0.weight"), doubled.at("layers.0.weight")));
}

TEST(TrainOptimizer, GroupsHaveTheirOwnDecayAndRate) {
  const std::vector<NamedTensor> all = make_parameters(DType::float64);
  headway::AdamW optimizer({{.parameters = {all[0], all[1]}},
                            {.parameters = {all[2], all[3]}, .weight_decay = 0.0, .learning_rate_factor = 0.1}},
                           {.learning_rate = 0.02, .weight_decay = 0.3});
  ASSERT_EQ(optimizer.parameters().size(), 4u);
  EXPECT_EQ(optimizer.parameters()[3].name, "p3");
  compare(optimizer, all, [](Reference& reference, const std::vector<double>& gradient, std::size_t p) {
    const bool second = p >= 2;
    reference.adam(gradient, second ? 0.002 : 0.02, {.weight_decay = second ? 0.0 : 0.3}, true);
  });
}

TEST(TrainOptimizer, DefaultsAreTorchs) {
  const auto moved = [](auto make) {
    Tensor parameter = Tensor::full({1}, 2.0, DType::float64).set_requires_grad();
    auto optimizer = make(std::vector<headway::ParameterGroup>{{.parameters = {{"p", parameter}}}});
    parameter.set_grad(Tensor::full({1}, 0.5, DType::float64));
    optimizer->step();
    return parameter.item();
  };
  const double adam_step = 1e-3 * 0.5 / (0.5 + 1e-8);
  EXPECT_NEAR(moved([](auto groups) { return std::make_unique<headway::Adam>(groups, AdamOptions{}); }),
              2.0 - adam_step, 1e-14);
  EXPECT_NEAR(moved([](auto groups) { return std::make_unique<headway::AdamW>(groups, AdamOptions{}); }),
              2.0 * (1 - 1e-3 * 0.01) - adam_step, 1e-14);
  EXPECT_NEAR(moved([](auto groups) { return std::make_unique<headway::Sgd>(groups, SgdOptions{}); }), 2.0 - 1e-3 * 0.5,
              1e-14);
}

TEST(TrainOptimizer, OptionsMayBeLeftOut) {
  const headway::Linear layer({.in_features = 2, .out_features = 3});
  EXPECT_EQ(headway::Adam(layer).learning_rate(), AdamOptions{}.learning_rate);
  EXPECT_EQ(headway::AdamW(layer).parameters().size(), 2u);
  EXPECT_EQ(headway::Sgd(layer).learning_rate(), SgdOptions{}.learning_rate);
}

TEST(TrainOptimizer, LearningRateCanBeSet) {
  Tensor parameter = Tensor::full({2}, 1.0).set_requires_grad();
  headway::Sgd optimizer({{.parameters = {{"p", parameter}}}}, {.learning_rate = 0.5});
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
  optimizer.set_learning_rate(0.25);
  parameter.set_grad(Tensor::full({2}, 2.0));
  optimizer.step();
  EXPECT_EQ(parameter.at({1}), 0.5);
  optimizer.zero_grad();
  EXPECT_FALSE(parameter.grad().defined());
  EXPECT_EQ(message_of([&] { optimizer.set_learning_rate(-1); }), "Sgd: learning_rate is -1, expected 0 or more");
}

TEST(TrainOptimizer, AStepIsSeenAsAChangeInPlace) {
  Tensor weight = Tensor::full({2, 2}, 1.0).set_requires_grad();
  headway::Sgd optimizer({{.parameters = {{"w", weight}}}}, {});
  const Tensor x = Tensor::full({2, 2}, 1.0).set_requires_grad();
  const Tensor loss = headway::sum(headway::matmul(x, weight));
  weight.set_grad(Tensor::full({2, 2}, 1.0));
  optimizer.step();
  EXPECT_NE(message_of([&] { loss.backward(); }).find("changed in place"), std::string::npos);
}

TEST(TrainOptimizer, StateMovesToAnotherOptimizer) {
  const auto run = [](headway::Optimizer& optimizer, int from, int to) {
    for (int step = from; step < to; ++step) {
      for (const NamedTensor& parameter : optimizer.parameters()) {
        parameter.tensor.set_grad(Tensor::randn(parameter.tensor.shape(), static_cast<std::uint64_t>(step)));
      }
      optimizer.step();
    }
  };
  const TinyModel straight, first, second;
  const AdamOptions options{.learning_rate = 0.05, .amsgrad = true};
  headway::AdamW whole(straight, options), before(first, options), after(second, options);
  run(whole, 0, 9);
  run(before, 0, 4);
  second.load_state_dict(first.state_dict());
  after.load_state_dict(before.state_dict());
  EXPECT_EQ(after.steps(), 4);
  run(after, 4, 9);
  const headway::StateDict expected = whole.state_dict(), got = after.state_dict();
  ASSERT_EQ(expected.size(), 4u * 4 + 1);
  EXPECT_TRUE(expected.contains("layers.0.weight.max_exp_avg_sq"));
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(same_bits(tensor, got.at(name))) << name;
  for (const auto& [name, tensor] : straight.state_dict()) {
    EXPECT_TRUE(same_bits(tensor, second.state_dict().at(name))) << name;
  }
}

TEST(TrainOptimizer, AStateThatDoesNotFitChangesNothing) {
  const TinyModel model;
  headway::Adam optimizer(model, {});
  for (const NamedTensor& p : optimizer.parameters()) p.tensor.set_grad(Tensor::full(p.tensor.shape(), 1.0));
  optimizer.step();
  headway::StateDict good;
  for (const auto& [name, tensor] : optimizer.state_dict())
    good[name] = Tensor::full(tensor.shape(), 5, tensor.dtype());

  headway::StateDict missing = good, extra = good, other_shape = good, negative = good;
  missing.erase("layers.1.bias.exp_avg");
  extra["layers.9.bias.exp_avg"] = Tensor::zeros({1});
  other_shape["layers.1.bias.exp_avg"] = Tensor::zeros({4});
  negative["steps"] = Tensor::full({}, -1, DType::int64);
  EXPECT_EQ(message_of([&] { optimizer.load_state_dict(missing); }),
            "Adam: load_state_dict: \"layers.1.bias.exp_avg\" is missing, expected float32[3]");
  EXPECT_EQ(message_of([&] { optimizer.load_state_dict(extra); }),
            "Adam: load_state_dict: \"layers.9.bias.exp_avg\" is none of the optimizer's");
  EXPECT_EQ(message_of([&] { optimizer.load_state_dict(other_shape); }),
            "Adam: load_state_dict: \"layers.1.bias.exp_avg\" is float32[4], expected float32[3]");
  EXPECT_EQ(message_of([&] { optimizer.load_state_dict(negative); }),
            "Adam: load_state_dict: \"steps\" is -1, expected 0 or more");
  EXPECT_EQ(optimizer.steps(), 1);
  EXPECT_NEAR(optimizer.state_dict().at("layers.0.bias.exp_avg").at({0}), 0.1, 1e-7);
  optimizer.load_state_dict(good);
  EXPECT_EQ(optimizer.steps(), 5);
}

TEST(TrainOptimizer, FrozenParametersAreLeftOut) {
  const TinyModel model;
  model.first_.freeze();
  headway::Adam optimizer(model, {});
  ASSERT_EQ(optimizer.parameters().size(), 2u);
  EXPECT_EQ(optimizer.parameters()[0].name, "layers.1.weight");
  model.freeze();
  EXPECT_EQ(message_of([&] { headway::Adam(model, {}); }), "Adam: there is no parameter that requires a gradient");
  const Tensor before = model.second_.weight_.get().clone();
  optimizer.zero_grad();
  optimizer.step();
  EXPECT_TRUE(same_bits(before, model.second_.weight_.get()));
}

TEST(TrainOptimizer, BadParametersAreNamed) {
  const auto error = [](const std::vector<NamedTensor>& parameters) {
    return message_of([&] { headway::Adam({{.parameters = parameters}}, {}); });
  };
  Tensor leaf = Tensor::zeros({2, 3}).set_requires_grad();
  EXPECT_EQ(error({{"a", leaf}, {"b", leaf}}), "Adam: parameter \"b\" comes twice");
  EXPECT_EQ(error({{"a", leaf}, {"a", Tensor::zeros({1}).set_requires_grad()}}),
            "Adam: there are two parameters named \"a\"");
  EXPECT_EQ(error({{"a", headway::scale(leaf, 2)}}),
            "Adam: parameter \"a\" (float32[2, 3]) is the result of an operation, expected a leaf");
  EXPECT_EQ(error({{"a", Tensor::zeros({4})}}), "Adam: parameter \"a\" (float32[4]) does not require a gradient");
  EXPECT_EQ(error({{"a", Tensor()}}), "Adam: parameter \"a\" is undefined");
  EXPECT_EQ(error({{"a", Tensor::zeros({2, 3}).transpose(0, 1).set_requires_grad()}}),
            "Adam: parameter \"a\" (float32[3, 2]) has strides [1, 3], expected dense memory");
}

TEST(TrainOptimizer, BadOptionsAreNamed) {
  const TinyModel model;
  EXPECT_EQ(message_of([&] { headway::Adam(model, {.beta1 = 1.0}); }), "Adam: beta1 is 1, expected 0 to below 1");
  EXPECT_EQ(message_of([&] { headway::AdamW(model, {.beta2 = -0.1}); }), "AdamW: beta2 is -0.1, expected 0 to below 1");
  EXPECT_EQ(message_of([&] { headway::AdamW(model, {.epsilon = -1}); }), "AdamW: epsilon is -1, expected 0 or more");
  EXPECT_EQ(message_of([&] { headway::AdamW(model, {.weight_decay = -1}); }),
            "AdamW: weight_decay is -1, expected 0 or more");
  EXPECT_EQ(message_of([&] { headway::Sgd(model, {.learning_rate = NAN}); }),
            "Sgd: learning_rate is nan, expected 0 or more");
  EXPECT_EQ(message_of([&] { headway::Sgd(model, {.nesterov = true}); }),
            "Sgd: nesterov with momentum 0 and dampening 0, expected a momentum and no dampening");
  headway::Sgd optimizer(model, {});
  EXPECT_EQ(message_of([&] { optimizer.step(INFINITY); }), "Sgd: gradient_factor is inf, expected a finite number");
}

}  // namespace
