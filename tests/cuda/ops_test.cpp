// Every operation on the GPU, forward and backward, beside the CPU.
#include "headway/ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/device_operation.h"
#include "headway/layers.h"
#include "headway/random.h"
#include "support/message_of.h"

namespace headway_test {
namespace {

using headway::Activation;
using headway::Device;

// Normal numbers in float64, different for each call with another seed.
Tensor normal(const Shape& shape, std::uint64_t seed = 1) { return Tensor::randn(shape, seed, DType::float64); }

// Integers in [0, limit).
Tensor integers(const Shape& shape, std::int64_t limit, DType dtype, std::uint64_t seed = 3) {
  Tensor drawn = Tensor::uniform(shape, 0, 1, seed, DType::float64);
  std::vector<std::int64_t> values;
  for (double value : drawn.to_vector()) {
    values.push_back(std::min<std::int64_t>(limit - 1, static_cast<std::int64_t>(value * static_cast<double>(limit))));
  }
  return Tensor::from(values, shape).to(dtype);
}

std::string text(const char* name, const Shape& a) { return std::string(name) + " " + a.to_string(); }
std::string text(const char* name, const Shape& a, const Shape& b) { return text(name, a) + " " + b.to_string(); }

constexpr Activation kActivations[] = {Activation::none, Activation::relu, Activation::gelu,    Activation::gelu_tanh,
                                       Activation::silu, Activation::tanh, Activation::sigmoid, Activation::quick_gelu};

TEST(CudaOps, Matmul) {
  Messages messages;
  const std::vector<std::pair<Shape, Shape>> shapes = {{{5, 7}, {7, 3}},
                                                       {{1, 1}, {1, 1}},
                                                       {{33, 65}, {65, 129}},
                                                       {{300, 257}, {257, 200}},
                                                       {{128, 128}, {128, 128}},
                                                       {{1, 1000}, {1000, 300}},
                                                       {{300, 1}, {1, 300}},
                                                       {{2, 3, 17, 40}, {40, 24}},
                                                       {{4, 1, 9, 31}, {1, 3, 31, 8}},
                                                       {{70, 2, 3}, {70, 3, 5}},
                                                       {{7}, {7, 5}},
                                                       {{5, 7}, {7}},
                                                       {{7}, {7}},
                                                       {{3, 0}, {0, 4}},
                                                       {{0, 5}, {5, 3}},
                                                       {{0, 2, 3}, {0, 3, 4}}};
  for (const auto& [a, b] : shapes) {
    expect_gpu_agrees(messages, text("matmul", a, b), [](const Inputs& x) { return headway::matmul(x[0], x[1]); },
                      {normal(a, 1), normal(b, 2)});
  }
}

TEST(CudaOps, Linear) {
  Messages messages;
  for (Activation activation : kActivations) {
    for (const auto& [x, out] : std::vector<std::pair<Shape, std::int64_t>>{
             {{2, 5, 19}, 23}, {{19}, 7}, {{0, 8}, 4}, {{130, 256}, 512}, {{3, 64}, 1}, {{5, 0}, 3}}) {
      // Sums around one, where activations bend.
      const double size = 1 / std::sqrt(std::max(1.0, static_cast<double>(x[-1])));
      const Tensor weight = headway::scale(normal({out, x[-1]}, 2), size), bias = normal({out}, 3);
      const Operation linear = [&](const Inputs& i) { return headway::linear(i[0], i[1], i[2], activation); };
      const std::string name = text("linear", x) + " activation " + std::to_string(static_cast<int>(activation));
      expect_gpu_agrees(messages, name, linear, {normal(x, 1), weight, bias});
      expect_gpu_agrees(messages, name + " without bias", linear, {normal(x, 1), weight, Tensor()});
    }
  }
}

TEST(CudaOps, Binary) {
  Messages messages;
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{33, 17}, {33, 17}}, {{4, 1, 7}, {3, 1}},  {{5}, {}},     {{}, {}},
      {{1003, 37}, {37}},   {{70000, 3}, {1, 3}}, {{0, 3}, {3}}, {{2, 3, 4, 5}, {3, 1, 5}}};
  for (const auto& [a, b] : shapes) {
    const Inputs inputs = {normal(a, 1), normal(b, 2)};
    expect_gpu_agrees(
        messages, text("add", a, b), [](const Inputs& x) { return x[0] + x[1]; }, inputs);
    expect_gpu_agrees(
        messages, text("sub", a, b), [](const Inputs& x) { return x[0] - x[1]; }, inputs);
    expect_gpu_agrees(
        messages, text("sub", b, a), [](const Inputs& x) { return x[1] - x[0]; }, inputs);
    expect_gpu_agrees(
        messages, text("mul", a, b), [](const Inputs& x) { return x[0] * x[1]; }, inputs);
    expect_gpu_agrees(
        messages, text("maximum", a, b), [](const Inputs& x) { return headway::maximum(x[0], x[1]); }, inputs);
    expect_gpu_agrees(
        messages, text("minimum", a, b), [](const Inputs& x) { return headway::minimum(x[1], x[0]); }, inputs);
    expect_gpu_agrees(messages, text("div", a, b), [](const Inputs& x) { return x[0] / x[1]; },
                      {normal(a, 1), Tensor::uniform(b, 1, 2, 2, DType::float64)});
  }
  expect_gpu_agrees(messages, "x + x", [](const Inputs& x) { return x[0] + x[0]; }, {normal({9, 11})});
}

TEST(CudaOps, ElementsOneByOne) {
  Messages messages;
  for (const Shape& shape : {Shape{33, 17}, {1}, {}, {0, 4}, {70000, 3}, {2, 3, 129}}) {
    const Inputs inputs = {headway::scale(normal(shape), 3)};
    expect_gpu_agrees(
        messages, text("scale", shape), [](const Inputs& x) { return x[0] * -1.5; }, inputs);
    for (Activation activation : kActivations) {
      expect_gpu_agrees(
          messages, text("activation", shape) + " " + std::to_string(static_cast<int>(activation)),
          [&](const Inputs& x) { return headway::activate(x[0], activation); }, inputs);
    }
    expect_gpu_agrees(
        messages, text("gelu", shape), [](const Inputs& x) { return headway::gelu(x[0], headway::Gelu::tanh); },
        inputs);
  }
}

TEST(CudaOps, FunctionsOfOneTensor) {
  Messages messages;
  using Function = Tensor (*)(const Tensor&);
  const std::vector<std::pair<const char*, Function>> functions = {
      {"x + 1.5", [](const Tensor& x) { return x + 1.5; }},
      {"1 - x", [](const Tensor& x) { return 1 - x; }},
      {"x / 3", [](const Tensor& x) { return x / 3; }},
      {"2 / x", [](const Tensor& x) { return 2 / x; }},
      {"-x", [](const Tensor& x) { return -x; }},
      {"exp", headway::exp},
      {"log", headway::log},
      {"sqrt", headway::sqrt},
      {"x^2.5", [](const Tensor& x) { return headway::pow(x, 2.5); }}};
  for (const Shape& shape : {Shape{33, 17}, {1}, {}, {0, 4}, {70000, 3}}) {
    const Inputs inputs = {Tensor::uniform(shape, 0.5, 2, 1, DType::float64)};
    for (const auto& [name, function] : functions) {
      expect_gpu_agrees(
          messages, text(name, shape), [&](const Inputs& x) { return function(x[0]); }, inputs);
    }
  }
}

// Whether results that have no gradient are the same on both, for every dtype.
void expect_same_results(Messages& messages, const std::string& name, const Operation& operation,
                         const Inputs& inputs) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int32, DType::int64,
                            DType::boolean, DType::int8}) {
    Inputs here, there;
    for (const Tensor& input : inputs) {
      here.push_back(input.to(DType::int32).to(dtype));  // with ties
      there.push_back(here.back().to(Device::cuda()));
    }
    const std::string what = name + " " + std::string(dtype_name(dtype));
    messages.guarded(what, [&] { messages.expect(same_bits(on_cpu(operation(there)), operation(here)), what); });
  }
}

TEST(CudaOps, ComparisonsAndChoices) {
  Messages messages;
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{
           {{33, 17}, {33, 17}}, {{4, 1, 7}, {3, 1}}, {{5}, {}}, {{1003, 37}, {37}}, {{0, 3}, {3}}}) {
    const Inputs inputs = {headway::scale(normal(a, 1), 2), headway::scale(normal(b, 2), 2)};
    using Compare = Tensor (*)(const Tensor&, const Tensor&);
    for (const Compare compare :
         std::initializer_list<Compare>{headway::eq, headway::ne, headway::lt, headway::le, headway::gt, headway::ge}) {
      expect_same_results(
          messages, text("compare", a, b), [&](const Inputs& x) { return compare(x[0], x[1]); }, inputs);
    }
    for (const double number : {0.0, -1.0, 0.5}) {
      expect_same_results(
          messages, text("compare with a number", a),
          [&](const Inputs& x) {
            return headway::stack(
                {x[0] == number, x[0] != number, x[0]<number, x[0] <= number, x[0]> number, x[0] >= number});
          },
          inputs);
    }
    expect_same_results(
        messages, text("where", a, b),
        [](const Inputs& x) { return headway::where((x[0] > x[1]) | ~(x[0] == 1), x[0], x[1]); }, inputs);
    expect_gpu_agrees(
        messages, text("where", a, b),
        [](const Inputs& x) { return headway::where(x[0] > x[1], headway::where(x[0] < 0, 0.5, x[1]), x[0]); }, inputs);
  }
}

TEST(CudaOps, Extremes) {
  Messages messages;
  for (const Shape& shape : {Shape{33, 17}, {5, 1000, 3}, {1, 1}, {70000, 3}, {2, 3, 129}}) {
    const Inputs inputs = {headway::scale(normal(shape), 2)};
    for (int dim = 0; dim < shape.rank(); ++dim) {
      const std::string name = text("extremes", shape) + " " + std::to_string(dim);
      expect_gpu_agrees(
          messages, name, [&](const Inputs& x) { return headway::max(x[0], dim); }, inputs);
      expect_gpu_agrees(
          messages, name, [&](const Inputs& x) { return headway::min(x[0], dim, true); }, inputs);
      expect_same_results(
          messages, name, [&](const Inputs& x) { return headway::max(x[0], dim); }, inputs);
      expect_same_results(
          messages, name, [&](const Inputs& x) { return headway::argmax(x[0], dim); }, inputs);
      expect_same_results(
          messages, name, [&](const Inputs& x) { return headway::argmin(x[0], dim); }, inputs);
    }
    expect_gpu_agrees(
        messages, text("max", shape), [](const Inputs& x) { return headway::max(x[0]); }, inputs);
    expect_same_results(
        messages, text("argmin", shape), [](const Inputs& x) { return headway::argmin(x[0]); }, inputs);
  }
  const Tensor nan = Tensor::from({1.0f, NAN, INFINITY, NAN}, {4}).to(Device::cuda());
  EXPECT_EQ(headway::argmax(nan).item(), 1);
  EXPECT_TRUE(std::isnan(headway::min(nan).item()));
}

TEST(CudaOps, Dropout) {
  Messages messages;
  for (const Shape& shape : {Shape{257, 129}, {5}, {0, 4}, {128, 64}, {2, 70000}}) {
    for (double p : {0.0, 0.1, 0.5, 0.999}) {
      const std::string name = text("dropout", shape) + " " + std::to_string(p);
      expect_gpu_agrees(messages, name, [&](const Inputs& x) { return headway::dropout(x[0], p, 0xABCDEF0123u); },
                        {normal(shape)});
      expect_gpu_agrees(messages, "add_" + name,
                        [&](const Inputs& x) { return headway::add_dropout(x[0], x[1], p, 5); },
                        {normal(shape), normal(shape, 2)});
      // The mask itself, and what is kept, to the bit.
      for (DType dtype : kFloatingDTypes) {
        const Tensor x = Tensor::full(shape, 1, dtype);
        messages.guarded(name, [&] {
          const Tensor there = headway::dropout(x.to(Device::cuda()), p, 9);
          messages.expect(same_bits(on_cpu(there), headway::dropout(x, p, 9)), name + " of ones");
        });
      }
    }
  }
}

TEST(CudaOps, AddDropoutNorm) {
  Messages messages;
  // One warp or a whole block for a row, rows without dropout that fill no block of its rule, rows for no fast kernel.
  for (const Shape& shape : {Shape{37, 128},
                             {130, 256},
                             {33, 512},
                             {19, 1024},
                             {9, 640},
                             {5, 2048},
                             {3, 4096},
                             {7, 24},
                             {2, 8192},
                             {2, 16384},
                             {4, 100},
                             {0, 128}}) {
    for (double p : {0.0, 0.2}) {
      const Inputs inputs = {normal(shape), normal(shape, 2), normal({shape[-1]}, 3), normal({shape[-1]}, 4)};
      const std::string name = text("add_dropout_norm", shape) + " " + std::to_string(p);
      const auto options = [p](const Inputs& x) {
        return headway::AddNormOptions{.probability = p, .seed = 5, .weight = x[2], .bias = x[3]};
      };
      expect_gpu_agrees(
          messages, name, [&](const Inputs& x) { return headway::add_dropout_norm(x[0], x[1], options(x)).normed; },
          inputs);
      expect_gpu_agrees(
          messages, name + " and the sum",
          [&](const Inputs& x) {
            const headway::AddNorm made = headway::add_dropout_norm(x[0], x[1], options(x));
            return made.normed + made.sum;
          },
          inputs);
    }
  }
}

TEST(CudaOps, LinearDropout) {
  Messages messages;
  for (const auto& [x, out] : std::vector<std::pair<Shape, std::int64_t>>{{{2, 5, 19}, 23}, {{130, 256}, 512}}) {
    const Tensor weight = headway::scale(normal({out, x[-1]}, 2), 1 / std::sqrt(static_cast<double>(x[-1])));
    for (Activation activation : {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
      const auto linear_dropout = [&](const Inputs& i) {
        const headway::Linear linear(
            {.in_features = x[-1], .out_features = out, .activation = activation, .dtype = i[1].dtype()});
        linear.set_parameter("weight", i[1]);
        linear.set_parameter("bias", i[2]);
        headway::set_random_seed(11);
        return headway::Dropout(0.25).forward(linear, i[0]);
      };
      expect_gpu_agrees(messages,
                        text("linear_dropout", x) + " activation " + std::to_string(static_cast<int>(activation)),
                        linear_dropout, {normal(x, 1), weight, normal({out}, 3)});
    }
  }
}

TEST(CudaOps, GradientsThatMeet) {
  Messages messages;
  // What flows back to a tensor that several products read is added up by the products.
  const auto twice = [](const Inputs& i) {
    const Tensor x = headway::scale(i[0], 2);
    return headway::linear(headway::linear(x, i[1], i[2]) + x, i[1]) + headway::linear(x, i[1]);
  };
  for (const std::int64_t width : {7, 64, 256}) {
    const Tensor weight = headway::scale(normal({width, width}, 2), 1 / std::sqrt(static_cast<double>(width)));
    expect_gpu_agrees(messages, "a tensor read by three products, " + std::to_string(width), twice,
                      {normal({3, 50, width}), weight, normal({width}, 3)});
  }
}

TEST(CudaOps, Sums) {
  Messages messages;
  for (const Shape& shape : {Shape{3, 5, 7}, {1}, {}, {70000, 3}, {3, 70000}, {0, 4}, {257, 129}}) {
    // Means of many numbers are small, so that the numbers are moved away from zero.
    const Inputs inputs = {normal(shape) + Tensor::full({}, 0.1, DType::float64)};
    expect_gpu_agrees(
        messages, text("sum", shape), [](const Inputs& x) { return headway::sum(x[0]); }, inputs);
    if (inputs[0].element_count() == 0) continue;
    expect_gpu_agrees(
        messages, text("mean", shape), [](const Inputs& x) { return headway::mean(x[0]); }, inputs);
  }
  for (const std::vector<int>& dims : {std::vector<int>{0}, {1}, {-1}, {0, 2}, {0, 1}, {1, 3}, {0, 1, 2, 3}, {}}) {
    for (const Shape& shape : {Shape{3, 5, 7, 2}, {33, 4, 1, 65}, {2, 0, 3, 4}, {2, 300, 3, 40}}) {
      for (bool keep : {false, true}) {
        expect_gpu_agrees(messages, text("sum", shape) + " over " + std::to_string(dims.size()),
                          [&](const Inputs& x) { return headway::sum(x[0], dims, keep); }, {normal(shape)});
      }
      if (shape[1] == 0) continue;
      expect_gpu_agrees(messages, text("mean", shape) + " over " + std::to_string(dims.size()),
                        [&](const Inputs& x) { return headway::mean(x[0], dims); }, {normal(shape)});
    }
  }
}

TEST(CudaOps, Softmax) {
  Messages messages;
  for (const Shape& shape : {Shape{5, 7, 9}, {4, 1, 33}, {2, 3, 1000}, {2, 2, 40000}, {0, 5, 6}, {300, 300, 3}}) {
    for (int dim : {0, 1, -1}) {
      const std::string name = text("softmax", shape) + " along " + std::to_string(dim);
      const Inputs inputs = {headway::scale(normal(shape), 4)};
      expect_gpu_agrees(
          messages, name, [&](const Inputs& x) { return headway::softmax(x[0], dim); }, inputs);
      expect_gpu_agrees(
          messages, "log_" + name, [&](const Inputs& x) { return headway::log_softmax(x[0], dim); }, inputs);
    }
  }
  Tensor infinite = normal({6, 40});
  infinite.slice(1, 3, 30, 4).fill(-std::numeric_limits<double>::infinity());
  expect_gpu_agrees(messages, "softmax with -inf", [](const Inputs& x) { return headway::softmax(x[0]); }, {infinite});
  Tensor large = normal({6, 40});
  large.select(0, 2).fill(6e4);
  expect_gpu_agrees(messages, "softmax of 6e4", [](const Inputs& x) { return headway::softmax(x[0]); }, {large});
}

TEST(CudaOps, Norms) {
  Messages messages;
  for (const Shape& shape : {Shape{6, 33}, {2, 3, 512}, {5, 1}, {4, 5000}, {20000, 3}, {0, 8}, {300, 64}, {7}}) {
    const Tensor x = normal(shape), weight = normal({shape[-1]}, 2), bias = normal({shape[-1]}, 3);
    const Operation layer = [](const Inputs& i) { return headway::layer_norm(i[0], i[1], i[2], 1e-3); };
    expect_gpu_agrees(messages, text("layer_norm", shape), layer, {x, weight, bias});
    expect_gpu_agrees(messages, text("layer_norm without bias", shape), layer, {x, weight, Tensor()});
    expect_gpu_agrees(messages, text("layer_norm alone", shape), layer, {x, Tensor(), Tensor()});
    const Operation root = [](const Inputs& i) { return headway::rms_norm(i[0], i[1], 1e-3); };
    expect_gpu_agrees(messages, text("rms_norm", shape), root, {x, weight});
    expect_gpu_agrees(messages, text("rms_norm alone", shape), root, {x, Tensor()});
  }
}

TEST(CudaOps, JoinsAndParts) {
  Messages messages;
  for (int dim : {0, 1, -1}) {
    Shape first = {4, 5, 6}, second = {4, 5, 6};
    second[dim] = 3;
    expect_gpu_agrees(messages, "concat along " + std::to_string(dim),
                      [&](const Inputs& x) {
                        return headway::concat({x[0], x[1], x[0]}, dim);
                      },
                      {normal(first), normal(second, 2)});
    expect_gpu_agrees(messages, "split along " + std::to_string(dim),
                      [&](const Inputs& x) {
                        const std::vector<Tensor> parts = headway::split(x[0], {1, 2, 1}, 0);
                        return headway::concat({parts[2] * 2.0, parts[0]}, dim);
                      },
                      {normal({4, 5, 6})});
  }
  expect_gpu_agrees(
      messages, "views",
      [](const Inputs& x) {
        const Tensor y = x[0].permute({2, 0, 1}).slice(1, 1, 4).transpose(0, 2);
        return y.reshape({-1, 6}).unsqueeze(0).expand({3, 15, 6}) * headway::sum(y, {0, 1}).view({1, 1, 6});
      },
      {normal({4, 5, 6})});
}

TEST(CudaOps, Embedding) {
  Messages messages;
  for (DType dtype : {DType::int32, DType::int64}) {
    for (const auto& [count, features, shape] : std::vector<std::tuple<std::int64_t, std::int64_t, Shape>>{
             {50, 33, {3, 7}}, {1, 1, {1}}, {3, 64, {5000}}, {70000, 2, {4, 9}}, {8, 4, {0, 3}}, {8, 512, {2, 2, 2}}}) {
      const Inputs inputs = {normal({count, features}), integers(shape, count, dtype)};
      expect_gpu_agrees(
          messages, text("embedding", {count, features}, shape),
          [](const Inputs& x) { return headway::embedding(x[0], x[1]); }, inputs);
      expect_gpu_agrees(
          messages, text("embedding with padding", {count, features}, shape),
          [](const Inputs& x) { return headway::embedding(x[0], x[1], 0); }, inputs);
    }
  }
  const Tensor weight = Tensor::zeros({4, 3}, DType::float32, Device::cuda());
  EXPECT_NE(message_of([&] { headway::embedding(weight, Tensor::from<std::int64_t>({1, 4}, {2})); }), "no error");
}

TEST(CudaOps, CrossEntropy) {
  Messages messages;
  for (const Shape& shape : {Shape{6, 11}, {2, 5, 300}, {3, 40000}, {2000, 7}, {1, 1}}) {
    Shape rows = shape.rank() == 2 ? Shape{shape[0]} : Shape{shape[0], shape[1]};
    Tensor targets = integers(rows, shape[-1], DType::int64);
    if (targets.element_count() > 2) targets.view({-1}).slice(0, 1, 2).fill(-100);
    for (headway::Reduction reduction : {headway::Reduction::mean, headway::Reduction::sum, headway::Reduction::none}) {
      for (double smoothing : {0.0, 0.1}) {
        const headway::CrossEntropyOptions options = {.label_smoothing = smoothing, .reduction = reduction};
        expect_gpu_agrees(messages,
                          text("cross_entropy", shape) + " reduction " + std::to_string(static_cast<int>(reduction)),
                          [&](const Inputs& x) { return headway::cross_entropy(x[0], x[1], options).to(x[0].dtype()); },
                          {normal(shape), targets});
      }
    }
  }
}

TEST(CudaOps, Positions) {
  Messages messages;
  for (const Shape& shape : {Shape{2, 3, 17, 16}, {9, 6}, {2, 0, 8}, {1, 4, 1000, 64}, {3, 5, 2}}) {
    for (bool interleaved : {false, true}) {
      for (const auto& [dims, offset] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {2, 5}, {0, 12345}}) {
        const headway::RotaryOptions options = {.dims = dims, .interleaved = interleaved, .offset = offset};
        expect_gpu_agrees(messages, text("rotary", shape) + (interleaved ? " interleaved" : " halves"),
                          [&](const Inputs& x) { return headway::rotary(x[0], options); }, {normal(shape)});
      }
    }
  }
}

// Positions in the device's memory, other frequencies (also more pairs than one launch has) and a factor.
TEST(CudaOps, GivenPositions) {
  Messages messages;
  for (const Shape& shape : {Shape{2, 3, 17, 16}, {3, 5, 2}, {2, 2, 9, 600}}) {
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < shape[-1] / 2; ++i) frequencies.push_back(1.0 / (1.0 + static_cast<double>(i)));
    for (const Tensor& positions :
         {integers({shape[-2]}, 1000, DType::int64), integers({shape[0], shape[-2]}, 1000, DType::int64)}) {
      for (bool interleaved : {false, true}) {
        const auto turned = [&](const Inputs& x) {
          return headway::rotary(
              x[0], {.interleaved = interleaved, .positions = x[1], .frequencies = frequencies, .factor = 1.5});
        };
        expect_gpu_agrees(messages, text("rotary at positions", shape), turned, {normal(shape), positions});
      }
    }
  }
}

}  // namespace
}  // namespace headway_test
