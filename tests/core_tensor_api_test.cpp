// What users write first: tensors from their own values and memory, indices, printing, versions.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "headway/headway.h"
#include "support/message_of.h"

namespace headway {
namespace {

using headway_test::message_of;
using Values = std::vector<double>;

template <typename... Arguments>
concept can_wrap = requires(Arguments... arguments) {
  Tensor::wrap(std::forward<Arguments>(arguments)...);
};

std::string printed(const Tensor& tensor) {
  std::ostringstream stream;
  stream << tensor;
  return stream.str();
}

// ---- values and memory ----

TEST(TensorFrom, TakesSpansPointersVectorsAndLists) {
  std::vector<float> values = {1, 2, 3, 4};
  const std::vector<double> numbers = {1, 2, 3, 4};
  const std::int64_t whole[] = {5, 6};
  EXPECT_EQ(Tensor::from(values, {2, 2}).describe(), "float32[2, 2]");
  EXPECT_EQ(Tensor::from(std::span(values).subspan(1, 2), {2}).to_vector(), (Values{2, 3}));
  EXPECT_EQ(Tensor::from(std::span<const float>(values), {4}).to_vector(), numbers);
  EXPECT_EQ(Tensor::from(std::span(whole), {2}).describe(), "int64[2]");
  EXPECT_EQ(Tensor::from(values.data() + 2, {2}).to_vector(), (Values{3, 4}));
  EXPECT_EQ(Tensor::from(numbers.data(), {4}).describe(), "float64[4]");
  EXPECT_EQ(Tensor::from({1, 2}, {2}).describe(), "int32[2]");
  EXPECT_EQ(Tensor::from<float>({}, {0, 3}).describe(), "float32[0, 3]");
  EXPECT_EQ(Tensor::from<float>({0}, {1}).item(), 0);
  EXPECT_EQ(Tensor::from(std::vector<bool>{true, false}, {2}).to_vector(), (Values{1, 0}));
  EXPECT_EQ(Tensor::from<bool>(std::vector<bool>{false}, {1}).describe(), "bool[1]");
  EXPECT_FALSE(Tensor::from(numbers, {4}).is_read_only());
  EXPECT_EQ(message_of([&] { Tensor::from(std::span(values), {3}); }),
            "from: 4 values came for shape [3], which has 3");
  EXPECT_EQ(message_of([] { Tensor::from(static_cast<const float*>(nullptr), {3}); }),
            "from: values is null, expected 3 elements of float32");
}

TEST(TensorWrap, DeducesTheDType) {
  std::vector<float> memory = {0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> whole = {7, 8};
  int released = 0;
  {
    Tensor tensor = Tensor::wrap(memory.data(), {2, 3}, [&] { ++released; });
    EXPECT_EQ(tensor.describe(), "float32[2, 3]");
    EXPECT_EQ(tensor.raw_data(), memory.data());
    tensor.fill(9);
    EXPECT_EQ(memory[5], 9);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(Tensor::wrap(whole, {2, 1}).describe(), "int64[2, 1]");
  EXPECT_EQ(Tensor::wrap(std::span(memory).subspan(4), {2}).raw_data(), memory.data() + 4);
  EXPECT_EQ(message_of([&] { Tensor::wrap(memory, {7}); }), "wrap: 6 elements came for shape [7], which has 7");
  // A vector that goes at once cannot be wrapped, nor can a type that is no element.
  static_assert(can_wrap<std::vector<float>&, Shape> && !can_wrap<std::vector<float>, Shape>);
}

TEST(TensorWrap, ConstantMemoryIsReadOnly) {
  const std::vector<float> memory = {0, 1, 2, 3};
  for (const Tensor& tensor :
       {Tensor::wrap(memory, {2, 2}), Tensor::wrap(memory.data(), {2, 2}), Tensor::wrap(std::span(memory), {2, 2}),
        Tensor::wrap(memory.data(), {2, 2}, DType::float32),
        Tensor::wrap(memory.data(), {2, 2}, {2, 1}, DType::float32)}) {
    EXPECT_TRUE(tensor.is_read_only());
    EXPECT_EQ(tensor.to_vector(), (Values{0, 1, 2, 3}));
    EXPECT_EQ(message_of([&] { tensor[0].fill(1); }),
              "fill: float32[2] is a view of constant memory; clone() it first");
    EXPECT_EQ(message_of([&] {
                Tensor(tensor).copy_from(Tensor::zeros({2, 2}));
              }),
              "copy_from: float32[2, 2] is a view of constant memory; clone() it first");
    EXPECT_EQ(sum(tensor).item(), 6);
    EXPECT_FALSE(tensor.clone().is_read_only());
    EXPECT_EQ(message_of([&] {
                const Tensor leaf = tensor.detach().set_requires_grad();
                Sgd({{.parameters = {{"x", leaf}}}});
              }),
              "Sgd: parameter \"x\" (float32[2, 2]) is a view of constant memory, expected one that steps can change");
  }
  EXPECT_EQ(memory, (std::vector<float>{0, 1, 2, 3}));
}

TEST(TensorWrap, GradientsAreNotAddedToConstantMemory) {
  const std::vector<float> constants = {1, 2};
  Tensor leaf = Tensor::zeros({2});
  leaf.set_requires_grad();
  leaf.set_grad(Tensor::wrap(constants, {2}));
  for (int i = 0; i < 2; ++i) headway::sum(leaf).backward();
  EXPECT_EQ(leaf.grad().to_vector(), (std::vector<double>{3, 4}));
  EXPECT_EQ(constants, (std::vector<float>{1, 2}));
}

// ---- views ----

TEST(TensorIndex, SelectsARow) {
  Tensor x = Tensor::from({1, 2, 3, 4, 5, 6}, {3, 2});
  EXPECT_EQ(x[1].to_vector(), (Values{3, 4}));
  EXPECT_EQ(x[-1].to_vector(), (Values{5, 6}));
  EXPECT_EQ(x[2][0].item(), 5);
  x[0].fill(9);
  EXPECT_EQ(x.to_vector(), (Values{9, 9, 3, 4, 5, 6}));
  EXPECT_EQ(message_of([&] { x[3]; }), "select: index 3 is out of range for size 3");
  EXPECT_EQ(message_of([&] { x[0][0][0]; }), "select: dimension 0 is out of range for 0 dimensions");
}

// ---- printing ----

TEST(TensorPrint, ShowsTheValues) {
  EXPECT_EQ(printed(Tensor()), "undefined");
  EXPECT_EQ(printed(Tensor::full({}, 1.5)), "1.5 float32[]");
  EXPECT_EQ(printed(Tensor::from({1, -20}, {2})), "[  1, -20] int32[2]");
  EXPECT_EQ(printed(Tensor::from({1.0f, 0.25f, 3.0f, 1e-9f}, {2, 2})),
            "[[    1,  0.25],\n [    3, 1e-09]] float32[2, 2]");
  EXPECT_EQ(printed(Tensor::from({true, false}, {2}).unsqueeze(0)), "[[ true, false]] bool[1, 2]");
  EXPECT_EQ(printed(Tensor::zeros({2, 0})), "[[],\n []] float32[2, 0]");
  EXPECT_EQ(printed(Tensor::from({INFINITY, NAN}, {2}).to(DType::bfloat16)), "[inf, nan] bfloat16[2]");
  EXPECT_EQ(printed(Tensor::from({1, 2, 3, 4}, {2, 2}).transpose(0, 1)), "[[1, 3],\n [2, 4]] int32[2, 2]");
  EXPECT_EQ(printed(Tensor::from({1, 2, 3, 4}, {2, 2, 1})), "[[[1],\n  [2]],\n\n [[3],\n  [4]]] int32[2, 2, 1]");
  const std::int64_t large = (std::int64_t{1} << 60) + 1;
  EXPECT_EQ(printed(Tensor::from({large}, {1})), "[1152921504606846977] int64[1]");
}

TEST(TensorPrint, ShortensLongOnes) {
  std::vector<std::int32_t> count(2000);
  for (std::size_t i = 0; i < count.size(); ++i) count[i] = static_cast<std::int32_t>(i);
  EXPECT_EQ(printed(Tensor::from(count, {2000})), "[   0,    1,    2, ..., 1997, 1998, 1999] int32[2000]");
  EXPECT_EQ(printed(Tensor::from(count, {1000, 2})),
            "[[   0,    1],\n [   2,    3],\n [   4,    5],\n ...,\n [1994, 1995],\n [1996, 1997],\n [1998, 1999]]"
            " int32[1000, 2]");
  // Rows of up to 1000 elements are broken into lines.
  const std::string lines = printed(Tensor::zeros({100}, DType::int32));
  EXPECT_EQ(lines.substr(0, 8), "[0, 0, 0");
  EXPECT_NE(lines.find("0,\n 0"), std::string::npos);
}

// ---- the version ----

TEST(Version, HeadersLibraryAndProjectAgree) {
  EXPECT_EQ(version(), HEADWAY_VERSION);
  EXPECT_STREQ(HEADWAY_VERSION, HEADWAY_PROJECT_VERSION);
  EXPECT_EQ(std::to_string(HEADWAY_VERSION_MAJOR) + "." + std::to_string(HEADWAY_VERSION_MINOR) + "." +
                std::to_string(HEADWAY_VERSION_PATCH),
            HEADWAY_VERSION);
}

}  // namespace
}  // namespace headway
