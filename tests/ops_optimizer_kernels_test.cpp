// Steps of optimizers against plain loops written from the formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "backend/registry.h"
#include "headway/tensor.h"
#include "headway/threads.h"
#include "support/bits.h"

namespace headway_test {
namespace {

using headway::DType;
using headway::Tensor;
using namespace headway::internal;

headway::internal::Backend& backend() { return headway::internal::backend_of(headway::Device::cpu()); }

constexpr std::int64_t kCounts[] = {1, 7, 64, 0, 16384, 16411};

// Parameters of one dtype with their gradients and states, and the spans on them.
struct Model {
  struct Parameter {
    Tensor value, gradient, first, second, largest, master;
  };
  std::vector<Parameter> parameters = {};
  std::vector<ParameterSpan> spans = {};

  Model(DType dtype, bool with_largest, bool with_master = false) {
    const DType state = dtype == DType::float64 ? DType::float64 : DType::float32;
    std::uint64_t seed = 1;
    for (const std::int64_t count : kCounts) {
      Parameter p = {Tensor::randn({count}, seed, dtype), Tensor::randn({count}, seed + 1, dtype),
                     Tensor::zeros({count}, state),       Tensor::zeros({count}, state),
                     Tensor::zeros({count}, state),       Tensor()};
      if (with_master) p.master = p.value.to(DType::float32);
      spans.push_back({.value = p.value.raw_data(),
                       .master = with_master ? p.master.data<float>() : nullptr,
                       .gradient = p.gradient.raw_data(),
                       .first = p.first.raw_data(),
                       .second = p.second.raw_data(),
                       .largest = with_largest ? p.largest.raw_data() : nullptr,
                       .count = count,
                       .dtype = dtype});
      parameters.push_back(p);
      seed += 2;
    }
  }

  // New gradients for the next step.
  void next_step(int step) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      Parameter& p = parameters[i];
      p.gradient.copy_from(Tensor::randn(p.gradient.shape(), 100 * static_cast<std::uint64_t>(step) + i));
      spans[i].step = step;
    }
  }
};

// One parameter in float64, step by step, as the formulas say.
struct Plain {
  std::vector<double> value, first, second, largest;

  explicit Plain(const Tensor& start)
      : value(start.to_vector()), first(value.size()), second(value.size()), largest(value.size()) {}

  void sgd(const std::vector<double>& gradient, const SgdStep& options, int step) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      double g = gradient[i] * options.gradient_factor + options.weight_decay * value[i];
      if (options.momentum != 0) {
        first[i] = step == 1 ? g : options.momentum * first[i] + (1 - options.dampening) * g;
        g = options.nesterov ? g + options.momentum * first[i] : first[i];
      }
      value[i] -= options.learning_rate * g;
    }
  }

  void adam(const std::vector<double>& gradient, const AdamStep& options, bool amsgrad, int step) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      double g = gradient[i] * options.gradient_factor;
      if (options.decay == WeightDecay::added) {
        g += options.weight_decay * value[i];
      } else {
        value[i] -= options.learning_rate * options.weight_decay * value[i];
      }
      first[i] = options.beta1 * first[i] + (1 - options.beta1) * g;
      second[i] = options.beta2 * second[i] + (1 - options.beta2) * g * g;
      largest[i] = std::max(largest[i], second[i]);
      const double first_hat = first[i] / (1 - std::pow(options.beta1, step));
      const double second_hat = (amsgrad ? largest[i] : second[i]) / (1 - std::pow(options.beta2, step));
      value[i] -= options.learning_rate * first_hat / (std::sqrt(second_hat) + options.epsilon);
    }
  }
};

std::vector<Plain> plain_copies(const Model& model) {
  std::vector<Plain> copies;
  for (const auto& parameter : model.parameters) copies.emplace_back(parameter.value);
  return copies;
}

// 16-bit values are rounded once a step, and the next step starts from there.
void follow_rounding(Plain& plain, const Tensor& value) {
  if (item_size(value.dtype()) == 2) plain.value = value.to_vector();
}

void expect_follows(const Model::Parameter& actual, const Plain& expected, const std::vector<double>& value) {
  const auto tensor = [&](const std::vector<double>& values) { return Tensor::from(values, actual.value.shape()); };
  const double state = actual.value.dtype() == DType::float64 ? 1e-14 : 2e-6;
  EXPECT_TRUE(near(actual.value, tensor(value), item_size(actual.value.dtype()) == 2 ? 0x1p-8 : state));
  EXPECT_TRUE(near(actual.first, tensor(expected.first), state));
  EXPECT_TRUE(near(actual.second, tensor(expected.second), state));
}

constexpr DType kFloating[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16};

TEST(OptimizerKernels, SgdIsTheFormula) {
  const SgdStep cases[] = {
      {.learning_rate = 0.1},
      {.learning_rate = 0.1, .weight_decay = 0.01, .gradient_factor = 0.5},
      {.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01},
      {.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .gradient_factor = 0.25},
  };
  for (const DType dtype : kFloating) {
    for (const SgdStep& options : cases) {
      SCOPED_TRACE(std::string(dtype_name(dtype)));
      Model model(dtype, false);
      for (auto& span : model.spans) {
        if (options.momentum == 0) span.first = nullptr;
      }
      std::vector<Plain> plain = plain_copies(model);
      for (int step = 1; step <= 4; ++step) {
        model.next_step(step);
        backend().sgd(model.spans, options);
        for (std::size_t i = 0; i < plain.size(); ++i) {
          plain[i].sgd(model.parameters[i].gradient.to_vector(), options, step);
          expect_follows(model.parameters[i], plain[i], plain[i].value);
          follow_rounding(plain[i], model.parameters[i].value);
        }
      }
    }
  }
}

TEST(OptimizerKernels, AdamIsTheFormula) {
  for (const DType dtype : kFloating) {
    for (const bool amsgrad : {false, true}) {
      for (const WeightDecay decay : {WeightDecay::added, WeightDecay::decoupled}) {
        SCOPED_TRACE(std::string(dtype_name(dtype)) + (amsgrad ? " amsgrad" : ""));
        const AdamStep options = {.learning_rate = 0.01,
                                  .beta1 = 0.8,
                                  .beta2 = 0.95,
                                  .epsilon = 1e-3,
                                  .weight_decay = 0.1,
                                  .decay = decay,
                                  .gradient_factor = 0.5};
        Model model(dtype, amsgrad);
        std::vector<Plain> plain = plain_copies(model);
        for (int step = 1; step <= 5; ++step) {
          model.next_step(step);
          backend().adam(model.spans, options);
          for (std::size_t i = 0; i < plain.size(); ++i) {
            plain[i].adam(model.parameters[i].gradient.to_vector(), options, amsgrad, step);
            expect_follows(model.parameters[i], plain[i], plain[i].value);
            if (amsgrad) {
              EXPECT_TRUE(near(model.parameters[i].largest,
                               Tensor::from(plain[i].largest, model.parameters[i].largest.shape()), 2e-6));
            }
            follow_rounding(plain[i], model.parameters[i].value);
          }
        }
      }
    }
  }
}

constexpr DType kSixteenBits[] = {DType::bfloat16, DType::float16};

// With masters, 16-bit parameters see the steps that float32 ones would see, and are what those round to.
TEST(OptimizerKernels, MastersAreTheFormula) {
  for (const DType dtype : kSixteenBits) {
    for (const bool adam : {false, true}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + (adam ? " adam" : " sgd"));
      const AdamStep adam_step = {.learning_rate = 0.01, .weight_decay = 0.1, .gradient_factor = 0.5};
      const SgdStep sgd_step = {.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 0.1, .gradient_factor = 0.5};
      Model model(dtype, false, true);
      std::vector<Plain> plain = plain_copies(model);
      for (int step = 1; step <= 5; ++step) {
        model.next_step(step);
        adam ? backend().adam(model.spans, adam_step) : backend().sgd(model.spans, sgd_step);
        for (std::size_t i = 0; i < plain.size(); ++i) {
          const Model::Parameter& p = model.parameters[i];
          const std::vector<double> gradient = p.gradient.to_vector();
          adam ? plain[i].adam(gradient, adam_step, false, step) : plain[i].sgd(gradient, sgd_step, step);
          EXPECT_TRUE(near(p.master, Tensor::from(plain[i].value, p.master.shape()), 2e-6));
          EXPECT_TRUE(same_bits(p.value, p.master.to(dtype)));
        }
      }
    }
  }
}

// Steps that are too little for 16 bits add up in the master and come through; without one they are lost.
TEST(OptimizerKernels, MastersKeepWhatIsBelowTheResolution) {
  for (const DType dtype : kSixteenBits) {
    SCOPED_TRACE(dtype_name(dtype));
    const double little = dtype == DType::bfloat16 ? 0x1p-14 : 0x1p-17;  // 1 / 64 of the last digit below 1
    for (const bool with_master : {false, true}) {
      Model model(dtype, false, with_master);
      for (auto& p : model.parameters) {
        p.value.fill(1.0);
        p.gradient.fill(1.0);
        if (with_master) p.master.fill(1.0);
      }
      for (int step = 0; step < 128; ++step) backend().sgd(model.spans, {.learning_rate = little});
      for (const auto& p : model.parameters) {
        const Tensor expected = Tensor::full(p.value.shape(), with_master ? 1.0 - 128 * little : 1.0, dtype);
        EXPECT_TRUE(same_bits(p.value, expected));
      }
    }
  }
}

// The next step starts from elements that other code has set; the others continue from their masters.
TEST(OptimizerKernels, ValuesThatWereSetCount) {
  for (const DType dtype : kSixteenBits) {
    SCOPED_TRACE(dtype_name(dtype));
    Model model(dtype, false, true);
    for (auto& p : model.parameters) {
      p.gradient.fill(1.0);
      p.value.fill(1.0);
      p.master.fill(1.0 + 0x1p-13);  // rounds to 1
      if (p.value.element_count() > 3) p.value.slice(0, 3, 4).fill(-2.0);
      if (p.value.element_count() > 6) p.master.slice(0, 6, 7).fill(std::nanf(""));
    }
    backend().sgd(model.spans, {.learning_rate = 0x1p-10});
    for (const auto& p : model.parameters) {
      const std::vector<double> master = p.master.to_vector();
      for (std::size_t i = 0; i < master.size(); ++i) {
        const double start = i == 3 ? -2.0 : i == 6 ? 1.0 : 1.0 + 0x1p-13;
        ASSERT_EQ(master[i], start - 0x1p-10) << i;
      }
      EXPECT_TRUE(same_bits(p.value, p.master.to(dtype)));
    }
  }
}

// A parameter that joined later has its own bias corrections and its own first momentum.
TEST(OptimizerKernels, EveryParameterCountsItsOwnSteps) {
  Model model(DType::float64, false);
  std::vector<Plain> plain = plain_copies(model);
  for (std::size_t i = 0; i < plain.size(); ++i) model.spans[i].step = static_cast<std::int64_t>(i) + 1;
  const AdamStep options = {.learning_rate = 0.01};
  backend().adam(model.spans, options);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    plain[i].adam(model.parameters[i].gradient.to_vector(), options, false, static_cast<int>(i) + 1);
    expect_follows(model.parameters[i], plain[i], plain[i].value);
  }
}

TEST(OptimizerKernels, GradientsAreLeftAlone) {
  Model model(DType::float32, false);
  const Tensor before = model.parameters[5].gradient.clone();
  backend().adam(model.spans, {.gradient_factor = 0.1});
  backend().sgd(model.spans, {.momentum = 0.5, .gradient_factor = 0.1});
  EXPECT_TRUE(same_bits(model.parameters[5].gradient, before));
}

TEST(OptimizerKernels, SumOfSquares) {
  for (const DType dtype : kFloating) {
    Model model(dtype, false);
    const std::vector<double> sums = backend().sum_of_squares(model.spans);
    ASSERT_EQ(sums.size(), model.spans.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      double expected = 0;
      for (const double g : model.parameters[i].gradient.to_vector()) expected += g * g;
      EXPECT_NEAR(sums[i], expected, 1e-12 * expected) << i;
    }
  }
  EXPECT_TRUE(backend().sum_of_squares({}).empty());
}

TEST(OptimizerKernels, SumOfSquaresShowsWhatIsNotFinite) {
  Model model(DType::float32, false);
  model.parameters[2].gradient.data<float>()[63] = std::nanf("");
  model.parameters[5].gradient.data<float>()[16410] = -std::numeric_limits<float>::infinity();
  model.parameters[1].gradient.data<float>()[6] = 3e38f;  // its square is past the range of float32
  const std::vector<double> sums = backend().sum_of_squares(model.spans);
  EXPECT_TRUE(std::isnan(sums[2]));
  EXPECT_EQ(sums[5], std::numeric_limits<double>::infinity());
  for (const std::size_t i : {0, 1, 3, 4}) EXPECT_TRUE(std::isfinite(sums[i])) << i;
}

TEST(OptimizerKernels, ThreadsDoNotChangeOneBit) {
  const int before = headway::num_threads();
  std::vector<Model> models;
  std::vector<std::vector<double>> sums;
  for (const int threads : {1, 2, 3}) {
    headway::set_num_threads(threads);
    Model& model = models.emplace_back(DType::bfloat16, true, true);
    for (int step = 1; step <= 2; ++step) {
      backend().adam(model.spans, {.learning_rate = 0.1, .weight_decay = 0.1});
      backend().sgd(model.spans, {.learning_rate = 0.1, .momentum = 0.9});
    }
    sums.push_back(backend().sum_of_squares(model.spans));
  }
  headway::set_num_threads(before);
  for (std::size_t m = 1; m < models.size(); ++m) {
    EXPECT_EQ(sums[m], sums[0]);
    for (std::size_t i = 0; i < models[0].parameters.size(); ++i) {
      EXPECT_TRUE(same_bits(models[m].parameters[i].value, models[0].parameters[i].value));
      EXPECT_TRUE(same_bits(models[m].parameters[i].master, models[0].parameters[i].master));
      EXPECT_TRUE(same_bits(models[m].parameters[i].second, models[0].parameters[i].second));
    }
  }
}

}  // namespace
}  // namespace headway_test
