// cross_entropy() against plain loops, and its gradient.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "headway/ops.h"
#include "support/bits.h"
#include "support/gradcheck.h"
#include "support/message_of.h"
#include "support/random.h"
#include "support/row_operations.h"

namespace headway_test {
namespace {

using headway::CrossEntropyOptions;
using headway::DType;
using headway::Reduction;
using headway::Shape;
using headway::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Random targets, about one in `ignore_one_in` of them ignored; 0: none.
Tensor targets_for(const Tensor& logits, std::int64_t ignore_index = -100, int ignore_one_in = 0) {
  Random random(3);
  Shape shape;
  for (int dim = 0; dim + 1 < logits.rank(); ++dim) shape.push_back(logits.size(dim));
  std::vector<std::int64_t> values(static_cast<std::size_t>(Tensor::zeros(shape).element_count()));
  for (std::int64_t& value : values) {
    value = random.between(0, logits.size(-1) - 1);
    if (ignore_one_in > 0 && random.between(1, ignore_one_in) == 1) value = ignore_index;
  }
  return Tensor::from(values, shape);
}

// In float64, from log p[c] = x[c] - log sum exp x.
Tensor by_loops(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const std::vector<double> x = logits.to_vector(), goals = targets.to_vector();
  const auto n = static_cast<std::size_t>(logits.size(-1));
  std::vector<double> losses;
  double sum = 0, count = 0;
  for (std::size_t row = 0; row < goals.size(); ++row) {
    double largest = -kInfinity, total = 0, loss = 0;
    for (std::size_t c = 0; c < n; ++c) largest = std::max(largest, x[row * n + c]);
    for (std::size_t c = 0; c < n; ++c) total += std::exp(x[row * n + c] - largest);
    const auto ignored = static_cast<std::int64_t>(goals[row]) == options.ignore_index;
    for (std::size_t c = 0; c < n && !ignored; ++c) {
      const double share = options.label_smoothing / static_cast<double>(n) +
                           (c == static_cast<std::size_t>(goals[row]) ? 1 - options.label_smoothing : 0);
      if (share > 0) loss -= share * (x[row * n + c] - largest - std::log(total));
    }
    losses.push_back(loss);
    sum += loss;
    count += !ignored;
  }
  if (options.reduction == Reduction::none) return Tensor::from(losses, targets.shape());
  return Tensor::full({}, options.reduction == Reduction::mean ? sum / count : sum, DType::float64);
}

std::vector<CrossEntropyOptions> all_options() {
  std::vector<CrossEntropyOptions> all;
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      for (const std::int64_t ignore : {-100, 2}) all.push_back({ignore, smoothing, reduction});
    }
  }
  return all;
}

TEST(CrossEntropy, IsThatOfPlainLoops) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    for (const Shape& shape : {Shape{5}, Shape{7, 3}, Shape{2, 3, 64}, Shape{40, 1003}}) {
      const Tensor logits = Tensor::uniform(shape, -5, 5, 2, dtype);
      for (const CrossEntropyOptions& options : all_options()) {
        SCOPED_TRACE(logits.describe());
        const Tensor targets = targets_for(logits, options.ignore_index, shape.rank() == 1 ? 0 : 4);
        const Tensor loss = headway::cross_entropy(logits, targets, options);
        const DType wide = dtype == DType::float64 ? dtype : DType::float32;  // rounded logits, a loss in full
        EXPECT_EQ(loss.dtype(), wide);
        EXPECT_TRUE(near(loss, by_loops(logits, targets, options), tolerance_of(wide)));
        EXPECT_TRUE(same_bits(headway::cross_entropy(logits, targets.to(DType::int32), options), loss));
      }
    }
  }
}

TEST(CrossEntropy, Gradients) {
  for (const Shape& shape : {Shape{5}, Shape{6, 7}, Shape{2, 3, 18}, Shape{0, 4}}) {
    for (const Tensor& logits : awkward(shape, 4)) {
      for (const CrossEntropyOptions& options : all_options()) {
        const Tensor targets = targets_for(logits, options.ignore_index, shape.rank() == 1 ? 0 : 3);
        if (options.reduction == Reduction::mean && shape[0] == 0) continue;
        check_gradients([&](const std::vector<Tensor>& in) { return headway::cross_entropy(in[0], targets, options); },
                        {logits});
      }
    }
  }
}

TEST(CrossEntropy, NothingToCount) {
  for (const double smoothing : {0.0, 0.1}) {
    Tensor logits = Tensor::randn({3, 5}, 1);
    logits.set_requires_grad();
    const Tensor loss =
        headway::cross_entropy(logits, Tensor::full({3}, -100, DType::int64), {.label_smoothing = smoothing});
    EXPECT_TRUE(std::isnan(loss.item()));
    loss.backward();
    EXPECT_EQ(logits.grad().to_vector(), std::vector<double>(15, 0.0));
  }
  EXPECT_TRUE(std::isnan(headway::cross_entropy(Tensor::zeros({0, 5}), Tensor::zeros({0}, DType::int64)).item()));
  EXPECT_EQ(
      headway::cross_entropy(Tensor::zeros({0, 5}), Tensor::zeros({0}, DType::int64), {.reduction = Reduction::sum})
          .item(),
      0);
}

// What torch gives: an impossible class costs nothing unless it is the target or smoothing gives it a share.
TEST(CrossEntropy, ImpossibleClasses) {
  for (const double smoothing : {0.0, 0.2}) {
    Tensor logits = Tensor::from<double>({0, -kInfinity, 0, 0, 0, 0, -kInfinity, 0}, {2, 4});
    logits.set_requires_grad();
    const Tensor loss = headway::cross_entropy(logits, Tensor::from<std::int64_t>({0, 2}, {2}),
                                               {.label_smoothing = smoothing, .reduction = Reduction::none});
    if (smoothing == 0) {
      EXPECT_NEAR(loss.at({0}), std::log(3), 1e-15);
    } else {
      EXPECT_EQ(loss.at({0}), kInfinity);
    }
    EXPECT_EQ(loss.at({1}), kInfinity);
    loss.backward(Tensor::full({2}, 1.0, DType::float64));
    const double share = smoothing / 4, third = 1.0 / 3;
    const Tensor expected =
        Tensor::from<double>({third - share - (1 - smoothing), -share, third - share, third - share, third - share,
                              third - share, -share - (1 - smoothing), third - share},
                             {2, 4});
    EXPECT_TRUE(near(logits.grad(), expected, 1e-14));
  }
}

TEST(CrossEntropy, HugeLogitsAndNan) {
  const Tensor targets = Tensor::from<std::int64_t>({0, 1, 0, -100}, {4});
  Tensor logits = Tensor::from<float>(
      {3e38f, -3e38f, 3e38f, 3e38f, std::numeric_limits<float>::infinity(), 0, std::nanf(""), 1}, {4, 2});
  logits.set_requires_grad();
  const Tensor loss = headway::cross_entropy(logits, targets, {.reduction = Reduction::none});
  EXPECT_EQ(loss.at({0}), 0);
  EXPECT_NEAR(loss.at({1}), std::log(2), 1e-7);
  EXPECT_TRUE(std::isnan(loss.at({2})));
  EXPECT_EQ(loss.at({3}), 0);
  loss.backward(Tensor::full({4}, 1.0));
  EXPECT_TRUE(near(logits.grad().slice(0, 0, 1), Tensor::from<float>({0, 0}, {1, 2}), 1e-6));
  EXPECT_TRUE(std::isnan(logits.grad().at({2, 1})));
  EXPECT_EQ(logits.grad().at({3, 0}), 0);
}

TEST(CrossEntropy, DtypesAndThreadsAgree) {
  const Tensor logits = Tensor::randn({40, 67}, 9, DType::float64);
  for (const CrossEntropyOptions& options : all_options()) {
    const Tensor targets = targets_for(logits, options.ignore_index, 5);
    const Operation operation = [&](const std::vector<Tensor>& in) {
      return headway::cross_entropy(in[0], targets, options).to(in[0].dtype());
    };
    expect_dtypes_agree(operation, {logits});
  }
  const Tensor large = Tensor::randn({300, 331}, 9);
  const Tensor many = targets_for(large, -100, 5);
  const Operation operation = [&](const std::vector<Tensor>& in) {
    return headway::cross_entropy(in[0], many, {.label_smoothing = 0.1});
  };
  expect_threads_agree(operation, {large});
  expect_threads_agree(operation, {large.to(DType::bfloat16)});
}

TEST(CrossEntropy, ErrorsNameWhatCame) {
  const Tensor logits = Tensor::zeros({2, 3, 10});
  const Tensor bad = Tensor::from<std::int64_t>({1, 2, 3, 4, 10, 5}, {2, 3});
  EXPECT_EQ(message_of([&] { headway::cross_entropy(logits, bad); }),
            "cross_entropy: target 10 at [1, 1] is out of range, expected one of 10 classes or the ignore_index -100");
  EXPECT_EQ(message_of([&] { headway::cross_entropy(logits, bad, {.ignore_index = 10}); }), "no error");
  EXPECT_EQ(message_of([&] { headway::cross_entropy(logits, Tensor::zeros({2}, DType::int64)); }),
            "cross_entropy: targets is int64[2], expected [2, 3] for logits float32[2, 3, 10]");
  EXPECT_EQ(message_of([&] {
              headway::cross_entropy(logits, Tensor::zeros({2, 3}));
            }),
            "cross_entropy: targets is float32[2, 3], expected int32 or int64");
  EXPECT_EQ(message_of([&] { headway::cross_entropy(logits, bad, {.label_smoothing = 1.5}); }),
            "cross_entropy: label_smoothing is 1.5, expected 0 to 1");
}

}  // namespace
}  // namespace headway_test
