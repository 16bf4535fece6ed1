// Gradients against finite differences.
#include "support/gradcheck.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>

#include "core/autograd.h"
#include "support/bits.h"
#include "support/random.h"

namespace headway_test {
namespace {

using headway::DType;
using headway::Shape;
using headway::Tensor;
using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// Which gradient the function's result gets.
enum class Arrival { kept, strided, sole };

const char* name_of(Arrival arrival) {
  switch (arrival) {
    case Arrival::kept:
      return "d_output that the caller keeps";
    case Arrival::strided:
      return "d_output with odd strides";
    default:
      return "d_output that is uniquely owned";
  }
}

// The same values with a gap after every element and, where there are rows, stored by columns.
Tensor with_odd_strides(const Tensor& values) {
  if (values.rank() == 0) return values;
  Shape shape = values.shape();
  shape[-1] *= 2;
  const Tensor wide = Tensor::full(shape, 7.0, values.dtype());
  Tensor stepped = wide.slice(-1, 0, shape[-1], 2);
  if (values.rank() >= 2 && shape[-2] * 2 == shape[-1]) stepped = stepped.transpose(-1, -2);
  stepped.copy_from(values);
  return stepped;
}

// The tensor itself, whose gradient is uniquely owned memory.
Tensor with_fresh_gradient(const Tensor& x) {
  Tensor result = x.detach().clone();
  headway::internal::record("fresh", {x}, {result}, [](headway::internal::BackwardCall& call) {
    return headway::internal::Tensors{call.d_output().clone()};
  });
  return result;
}

// Leaves on the same memory as the inputs. `only`: the one input that wants its gradient; otherwise all do.
std::vector<Tensor> leaves_of(const std::vector<Tensor>& inputs, std::optional<std::size_t> only) {
  std::vector<Tensor> leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(inputs[i].defined() ? inputs[i].detach() : Tensor());
    if (leaves[i].defined() && leaves[i].dtype() == DType::float64 && only.value_or(i) == i) {
      leaves[i].set_requires_grad();
    }
  }
  return leaves;
}

// The gradients of all inputs, undefined for those that want none, after `times` walks through one record.
std::vector<Tensor> gradients_of(const Function& function, const std::vector<Tensor>& inputs, const Tensor& d_output,
                                 Arrival arrival, std::optional<std::size_t> only = {}, int times = 1) {
  const std::vector<Tensor> leaves = leaves_of(inputs, only);
  Tensor output = function(leaves);
  EXPECT_TRUE(output.requires_grad()) << "the result " << output.describe() << " has no record";
  if (!output.requires_grad()) return std::vector<Tensor>(inputs.size());
  if (arrival == Arrival::sole) output = with_fresh_gradient(output);
  const Tensor arriving = arrival == Arrival::strided ? with_odd_strides(d_output) : d_output;
  for (int time = 1; time <= times; ++time) output.backward(arriving, /*retain_graph=*/time < times);
  EXPECT_TRUE(same_bits(arriving, d_output)) << "the backward changed a " << name_of(arrival);
  std::vector<Tensor> gradients;
  for (const Tensor& leaf : leaves) gradients.push_back(leaf.defined() ? leaf.grad() : Tensor());
  return gradients;
}

// The gradient's values; an undefined one counts as zero.
std::vector<double> values_of(const Tensor& gradient, const Tensor& input) {
  if (gradient.defined()) return gradient.to_vector();
  return std::vector<double>(static_cast<std::size_t>(input.element_count()), 0.0);
}

// sum(function(inputs) * d_output) with one element of one input moved.
double objective(const Function& function, std::vector<Tensor> inputs, std::size_t moved, std::size_t element,
                 double step, const std::vector<double>& d_output) {
  const headway::NoGradGuard guard;
  std::vector<double> values = inputs[moved].to_vector();
  values[element] += step;
  inputs[moved] = Tensor::from(values, inputs[moved].shape());
  const std::vector<double> output = function(inputs).to_vector();
  double sum = 0;
  for (std::size_t e = 0; e < output.size(); ++e) sum += output[e] * d_output[e];
  return sum;
}

// All elements, or as many as asked for.
std::vector<std::size_t> drawn_elements(std::int64_t count, const GradcheckOptions& options, std::uint64_t seed) {
  std::vector<std::size_t> elements;
  if (options.elements <= 0 || count <= options.elements) {
    for (std::int64_t e = 0; e < count; ++e) elements.push_back(static_cast<std::size_t>(e));
  } else {
    Random random(seed);
    for (int e = 0; e < options.elements; ++e) {
      elements.push_back(static_cast<std::size_t>(random.between(0, count - 1)));
    }
  }
  return elements;
}

// Compares one input's gradient with differences, at the elements drawn.
void compare_with_differences(const Function& function, const std::vector<Tensor>& inputs, std::size_t input,
                              const Tensor& gradient, const Tensor& d_output, const GradcheckOptions& options) {
  if (gradient.defined()) {
    ASSERT_EQ(gradient.shape(), inputs[input].shape()) << "the gradient of input " << input;
  }
  const std::vector<double> by_record = values_of(gradient, inputs[input]), factors = d_output.to_vector();
  for (const std::size_t element :
       drawn_elements(inputs[input].element_count(), options, options.seed + 31 * (input + 1))) {
    const double high = objective(function, inputs, input, element, options.step, factors);
    const double low = objective(function, inputs, input, element, -options.step, factors);
    const double by_difference = (high - low) / (2 * options.step);
    const double allowed = options.tolerance * std::max({1.0, std::abs(by_difference), std::abs(by_record[element])});
    ASSERT_LE(std::abs(by_difference - by_record[element]), allowed)
        << "input " << input << ", " << inputs[input].describe() << " with strides "
        << inputs[input].strides().to_string() << ", element " << element << ": the gradient is " << by_record[element]
        << ", differences give " << by_difference;
  }
}

}  // namespace

void check_gradients(const Function& function, std::vector<Tensor> inputs, GradcheckOptions options) {
  constexpr double kSame = 1e-12;
  std::vector<Tensor> before;
  for (const Tensor& input : inputs) before.push_back(input.defined() ? input.detach().clone() : Tensor());
  Tensor d_output;
  {
    const headway::NoGradGuard guard;
    const Tensor output = function(inputs);
    ASSERT_EQ(output.dtype(), DType::float64);
    ASSERT_TRUE(near(output, function(before), kSame)) << "the result depends on the inputs' strides";
    d_output = Tensor::randn(output.shape(), options.seed, DType::float64);
  }
  const std::vector<Tensor> gradients = gradients_of(function, inputs, d_output, Arrival::kept);
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].dtype() == DType::float64) wanted.push_back(i);
  }
  for (const std::size_t i : wanted) {
    compare_with_differences(function, inputs, i, gradients[i], d_output, options);
    if (testing::Test::HasFatalFailure()) return;
  }

  const auto expect_same = [&](const std::vector<Tensor>& others, std::size_t i, double factor, const char* how) {
    std::vector<double> expected = values_of(gradients[i], inputs[i]);
    for (double& value : expected) value *= factor;
    EXPECT_TRUE(near(Tensor::from(values_of(others[i], inputs[i]), inputs[i].shape()),
                     Tensor::from(expected, inputs[i].shape()), kSame))
        << "the gradient of input " << i << " is another with " << how;
  };
  for (const Arrival arrival : {Arrival::strided, Arrival::sole}) {
    const std::vector<Tensor> others = gradients_of(function, inputs, d_output, arrival);
    for (const std::size_t i : wanted) expect_same(others, i, 1.0, name_of(arrival));
  }
  const std::vector<Tensor> twice = gradients_of(function, inputs, d_output, Arrival::sole, {}, 2);
  for (const std::size_t i : wanted) {
    expect_same(twice, i, 2.0, "two walks through one record");
    if (wanted.size() == 1) continue;
    expect_same(gradients_of(function, inputs, d_output, Arrival::sole, i), i, 1.0, "no other input's gradient wanted");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(same_bits(inputs[i], before[i])) << "input " << i << " was changed";
  }
}

std::vector<Tensor> awkward(const Shape& shape, std::uint64_t seed) {
  const Tensor plain = Tensor::randn(shape, seed, DType::float64);
  std::vector<Tensor> views = {plain};
  if (shape.rank() == 0) return views;

  // Every other element of one dimension, the memory between holding something else.
  const auto stepped = [&](int dim) {
    Shape wide = shape;
    wide[dim] = 2 * shape[dim] + 1;
    Tensor view = Tensor::full(wide, 7.0, DType::float64).slice(dim, 1, wide[dim], 2);
    view.copy_from(plain);
    return view;
  };
  views.push_back(stepped(-1));
  if (shape.rank() >= 2) {
    views.push_back(plain.transpose(-1, -2).contiguous().transpose(-1, -2));
    views.push_back(stepped(shape.rank() - 2));
  }
  if (shape[0] > 1) views.push_back(plain.slice(0, 0, 1).expand(shape));
  return views;
}

}  // namespace headway_test
