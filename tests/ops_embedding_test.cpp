// embedding() and its gradient.
#include <gtest/gtest.h>

#include <optional>

#include "headway/ops.h"
#include "support/bits.h"
#include "support/gradcheck.h"
#include "support/message_of.h"
#include "support/random.h"
#include "support/row_operations.h"

namespace headway_test {
namespace {

using headway::DType;
using headway::Shape;
using headway::Tensor;

Tensor tokens(const Shape& shape, std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::int64_t> values(static_cast<std::size_t>(Tensor::zeros(shape).element_count()));
  for (std::int64_t& value : values) value = random.between(0, count - 1);
  return Tensor::from(values, shape);
}

Operation operation(std::optional<std::int64_t> padding_index = {}) {
  return [=](const std::vector<Tensor>& inputs) { return headway::embedding(inputs[0], inputs[1], padding_index); };
}

TEST(Embedding, TakesRows) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    const Tensor weight = Tensor::randn({11, 19}, 1, dtype);
    for (const DType index : {DType::int32, DType::int64}) {
      const Tensor indices = tokens({3, 4}, 11, 2).to(index);
      const Tensor output = headway::embedding(weight, indices);
      ASSERT_EQ(output.shape(), (Shape{3, 4, 19}));
      EXPECT_EQ(output.dtype(), dtype);
      for (std::int64_t i = 0; i < 3; ++i) {
        for (std::int64_t j = 0; j < 4; ++j) {
          const Tensor row = weight.select(0, static_cast<std::int64_t>(indices.at({i, j})));
          EXPECT_TRUE(same_bits(output.select(0, i).select(0, j), row));
        }
      }
      EXPECT_TRUE(same_bits(headway::embedding(weight, indices.transpose(0, 1)), output.transpose(0, 1)));
    }
  }
  const Tensor wide = Tensor::randn({9, 12}, 3);
  const Tensor one = Tensor::from<std::int64_t>({7}, {1}).reshape({});
  EXPECT_TRUE(same_bits(headway::embedding(wide.slice(1, 2, 7), one), wide.slice(1, 2, 7).select(0, 7)));
  EXPECT_TRUE(same_bits(headway::embedding(wide.transpose(0, 1), one), wide.select(1, 7)));
}

TEST(Embedding, Gradients) {
  for (const Tensor& weight : awkward({6, 7}, 3)) {
    check_gradients(operation(), {weight, tokens({5, 4}, 6, 4)});
    check_gradients(operation(), {weight, tokens({0, 4}, 6, 4)});
    check_gradients(operation(), {weight, tokens({2, 3}, 2, 4).to(DType::int32).transpose(0, 1)});
  }
  check_gradients(operation(), {Tensor::zeros({4, 0}, DType::float64), tokens({3}, 4, 1)});
}

TEST(Embedding, ThePaddingRowGetsNoGradient) {
  Tensor weight = Tensor::randn({4, 3}, 1, DType::float64);
  weight.set_requires_grad();
  const Tensor indices = Tensor::from<std::int64_t>({2, 0, 2, 1, 1, 1}, {6});
  const Tensor output = headway::embedding(weight, indices, 2);
  EXPECT_TRUE(same_bits(output.select(0, 0).detach(), weight.detach().select(0, 2)));
  output.backward(Tensor::full({6, 3}, 1.0, DType::float64));
  EXPECT_EQ(weight.grad().to_vector(), (std::vector<double>{1, 1, 1, 3, 3, 3, 0, 0, 0, 0, 0, 0}));
}

// 3000 ones: a sum in 16 bits would stop growing at 256 or 2048.
TEST(Embedding, ManyTokensOnOneRow) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    Tensor weight = Tensor::randn({5, 40}, 1, dtype);
    weight.set_requires_grad();
    headway::embedding(weight, Tensor::full({3000}, 3, DType::int64)).backward(Tensor::full({3000, 40}, 1.0, dtype));
    const double sum = dtype == DType::bfloat16 ? 3008 : 3000;  // the nearest bfloat16
    for (std::int64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(weight.grad().at({3, i}), sum);
      EXPECT_EQ(weight.grad().at({2, i}), 0);
    }
  }
}

TEST(Embedding, DtypesAndThreadsAgree) {
  const Tensor weight = Tensor::randn({300, 67}, 9, DType::float64);
  expect_dtypes_agree(operation(5), {weight, tokens({900}, 300, 1)});
  expect_threads_agree(operation(), {weight.to(DType::float32), tokens({5000}, 300, 1)});
  expect_threads_agree(operation(), {weight.to(DType::bfloat16), tokens({5000}, 30, 1)});
}

TEST(Embedding, ErrorsNameWhatCame) {
  const Tensor weight = Tensor::zeros({10, 4});
  const Tensor bad = Tensor::from<std::int64_t>({1, 2, 3, 4, 5, 10}, {2, 3});
  EXPECT_EQ(message_of([&] { headway::embedding(weight, bad); }),
            "embedding: index 10 at [1, 2] is out of range, expected one of the weight's 10 rows");
  EXPECT_EQ(message_of([&] { headway::embedding(weight, Tensor::from<std::int32_t>({-1}, {1})); }),
            "embedding: index -1 at [0] is out of range, expected one of the weight's 10 rows");
  EXPECT_EQ(message_of([&] { headway::embedding(weight, Tensor::zeros({2})); }),
            "embedding: indices is float32[2], expected int32 or int64");
  EXPECT_EQ(message_of([&] { headway::embedding(Tensor::zeros({3}), bad); }),
            "embedding: weight is float32[3], expected a floating tensor [count, features]");
  EXPECT_EQ(message_of([&] { headway::embedding(weight, bad, 10); }),
            "embedding: padding_index is 10, expected one of the weight's 10 rows");
}

}  // namespace
}  // namespace headway_test
