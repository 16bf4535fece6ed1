#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/tensor_impl.h"
#include "headway/error.h"
#include "headway/tensor.h"
#include "support/message_of.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEADWAY_TEST_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEADWAY_TEST_SANITIZER 1
#endif
#endif

namespace headway {
namespace {

using headway_test::message_of;
using Values = std::vector<double>;

const std::vector<DType> kAllDTypes = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                                       DType::int32,   DType::int64,   DType::boolean,  DType::int8};

Tensor iota(const Shape& shape, DType dtype = DType::float32) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  std::vector<double> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0);
  return Tensor::from(values, shape).to(dtype);
}

// The elements in row-major order, read one by one by their strides.
Values by_strides(const Tensor& tensor) {
  Values values;
  const std::function<void(Tensor)> walk = [&](const Tensor& part) {
    if (part.rank() == 0) {
      values.push_back(part.item());
      return;
    }
    for (std::int64_t i = 0; i < part.size(0); ++i) {
      walk(part.select(0, i));
    }
  };
  walk(tensor);
  return values;
}

testing::AssertionResult says(const std::function<void()>& call, const std::string& part) {
  const std::string message = message_of(call);
  return message.find(part) != std::string::npos ? testing::AssertionSuccess() : testing::AssertionFailure() << message;
}

TEST(Shape, HoldsUpToEightSizes) {
  Shape shape = {2, 3};
  shape.push_back(4);
  EXPECT_EQ(shape, (Shape{2, 3, 4}));
  EXPECT_FALSE(shape == (Shape{2, 3}));
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape.to_string(), "[2, 3, 4]");
  EXPECT_EQ(Shape{}.to_string(), "[]");
  EXPECT_EQ(Shape::filled(3, 7), (Shape{7, 7, 7}));
  EXPECT_EQ(Shape(std::vector<std::int64_t>{5, 6}), (Shape{5, 6}));
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW(Shape::filled(9, 1), Error);
  EXPECT_THROW(Shape::filled(-1, 1), Error);
}

TEST(TensorMaking, EmptyIsAligned) {
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 5}, Shape{2000, 1000}}) {
      const Tensor tensor = Tensor::empty(shape, dtype);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.raw_data()) % 64, 0u);
      EXPECT_NE(tensor.raw_data(), nullptr);
      EXPECT_EQ(tensor.dtype(), dtype);
      EXPECT_EQ(tensor.shape(), shape);
      EXPECT_TRUE(tensor.is_contiguous());
      EXPECT_EQ(tensor.device(), Device::cpu());
    }
  }
}

TEST(TensorMaking, ZerosAndFull) {
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(Tensor::zeros({2, 3}, dtype).to_vector(), Values(6, 0.0));
    EXPECT_EQ(Tensor::full({2, 3}, 1.0, dtype).to_vector(), Values(6, 1.0));
  }
  EXPECT_EQ(Tensor::full({2}, -2.5).to_vector(), Values(2, -2.5));
  EXPECT_EQ(Tensor::zeros({}).item(), 0.0);
}

TEST(TensorMaking, LargeZerosAreZeroAlsoInReusedMemory) {
  const Shape shape = {3, 1000, 1000};
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Tensor tensor = Tensor::zeros(shape);
    float* data = tensor.data<float>();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % (2 << 20), 0u);
    for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
      ASSERT_EQ(data[i], 0.0f);
      data[i] = 1.0f;
    }
    Tensor::full(shape, 3.0);
  }
}

TEST(TensorMaking, FromEveryElementType) {
  EXPECT_EQ(Tensor::from({1.5f, -2.0f}, {2}).to_vector(), (Values{1.5, -2.0}));
  EXPECT_EQ(Tensor::from({1.5, -2.0}, {1, 2}).dtype(), DType::float64);
  EXPECT_EQ(Tensor::from({bfloat16(1.5f)}, {1}).item(), 1.5);
  EXPECT_EQ(Tensor::from({float16(1.5f)}, {}).item(), 1.5);
  EXPECT_EQ(Tensor::from<std::int32_t>({1, 2, 3}, {3}).to_vector(), (Values{1, 2, 3}));
  EXPECT_EQ(Tensor::from<std::int64_t>({1, 2, 3}, {3}).dtype(), DType::int64);
  EXPECT_EQ(Tensor::from({true, false, true}, {3}).to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ(Tensor::from(std::vector<bool>{false, true}, {2}).dtype(), DType::boolean);
  EXPECT_TRUE(says([] { Tensor::from({1.0f, 2.0f}, {3}); }, "2 values came for shape [3], which has 3"));
}

TEST(TensorMaking, BadSizesAreErrorsBeforeAnyAllocation) {
  EXPECT_TRUE(says([] { Tensor::empty({2, -3}); }, "shape [2, -3] has a negative size"));
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_TRUE(says([&] { Tensor::empty({big, big}); }, "more bytes than 64 bits can count"));
  EXPECT_TRUE(says([&] { Tensor::zeros({big, std::int64_t{1} << 22}, DType::float64); }, "more bytes than 64 bits"));
  EXPECT_TRUE(says([&] { Tensor::empty({0, big, big}); }, "more bytes than 64 bits can count"));
  float one = 0;
  EXPECT_TRUE(says([&] { Tensor::wrap(&one, {big, big}, DType::float32); }, "more bytes than 64 bits can count"));
  EXPECT_TRUE(says([&] { Tensor::empty({1}).expand({big, big}); }, "more bytes than 64 bits can count"));
}

#ifndef HEADWAY_TEST_SANITIZER  // whose allocators end the program for a request that can never be met
TEST(TensorMaking, ExhaustedMemoryIsAnErrorThatNamesTheBytes) {
  const std::int64_t count = std::int64_t{1} << 58;
  EXPECT_TRUE(says([&] { Tensor::empty({count}); }, "cannot allocate 1152921504606846976 bytes"));
  EXPECT_TRUE(says([&] { Tensor::zeros({count}); }, "cannot allocate 1152921504606846976 bytes"));
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(says([&] { Tensor::zeros({most}, DType::boolean); }, "cannot allocate 9223372036854775807 bytes"));
}
#endif

TEST(TensorMaking, WrapSharesAndReleasesOnce) {
  std::vector<float> memory = {0, 1, 2, 3, 4, 5};
  int released = 0;
  {
    Tensor tensor = Tensor::wrap(memory.data(), {2, 3}, DType::float32, [&] { ++released; });
    const Tensor row = tensor.select(0, 1);
    tensor = Tensor();
    EXPECT_EQ(released, 0);
    EXPECT_EQ(row.raw_data(), memory.data() + 3);
    memory[4] = 40;
    EXPECT_EQ(row.to_vector(), (Values{3, 40, 5}));
  }
  EXPECT_EQ(released, 1);
  const Tensor columns = Tensor::wrap(memory.data(), {3, 2}, {1, 3}, DType::float32);
  EXPECT_EQ(columns.to_vector(), (Values{0, 3, 1, 40, 2, 5}));
  EXPECT_FALSE(columns.is_contiguous());
}

TEST(TensorMaking, WrapChecksItsArguments) {
  std::vector<float> memory(8);
  EXPECT_TRUE(says([] { Tensor::wrap(nullptr, {2}, DType::float32); }, "data is null, expected 2 elements of float32"));
  EXPECT_EQ(Tensor::wrap(nullptr, {0, 3}, DType::float32).element_count(), 0);
  EXPECT_TRUE(says([&] { Tensor::wrap(memory.data(), {2}, {1, 1}, DType::float32); }, "do not match"));
  EXPECT_TRUE(says([&] { Tensor::wrap(memory.data(), {2}, {-1}, DType::float32); }, "negative"));
  EXPECT_TRUE(says([&] { Tensor::wrap(memory.data(), {3}, {std::int64_t{1} << 62}, DType::float32); }, "64 bits"));
  EXPECT_TRUE(says([&] { Tensor::wrap(memory.data(), {2}, {std::int64_t{1} << 62}, DType::float32); }, "64 bits"));
  auto* odd = reinterpret_cast<char*>(memory.data()) + 1;
  EXPECT_TRUE(says([&] { Tensor::wrap(odd, {2}, DType::float32); }, "not aligned to the 4 bytes of a float32"));
}

TEST(TensorMaking, RandomTensorsAreFloating) {
  EXPECT_TRUE(says([] { Tensor::randn({2}, 1, DType::int32); }, "randn: dtype is int32"));
  EXPECT_TRUE(says([] { Tensor::uniform({2}, 1, 0, 1); }, "uniform: low is 1 and high is 0"));
}

TEST(TensorAsking, UndefinedTensorsThrow) {
  const Tensor nothing;
  EXPECT_FALSE(nothing.defined());
  EXPECT_EQ(nothing.describe(), "undefined");
  EXPECT_TRUE(says([&] { nothing.shape(); }, "undefined"));
  EXPECT_TRUE(says([&] { nothing.element_count(); }, "undefined"));
  EXPECT_TRUE(says([&] { nothing.transpose(0, 1); }, "undefined"));
  EXPECT_TRUE(says([&] { nothing.expand({2}); }, "undefined"));
  EXPECT_TRUE(says([&] { nothing.clone(); }, "undefined"));
  EXPECT_TRUE(says([&] { Tensor::zeros({2}).copy_from(nothing); }, "undefined"));
}

TEST(TensorAsking, SizesStridesAndElements) {
  const Tensor tensor = iota({2, 3, 4});
  EXPECT_EQ(tensor.rank(), 3);
  EXPECT_EQ(tensor.size(-1), 4);
  EXPECT_EQ(tensor.stride(0), 12);
  EXPECT_EQ(tensor.stride(-2), 4);
  EXPECT_EQ(tensor.element_count(), 24);
  EXPECT_EQ(tensor.at({1, 2, 3}), 23.0);
  EXPECT_EQ(tensor.at({-1, 0, -2}), 14.0);
  EXPECT_EQ(tensor.describe(), "float32[2, 3, 4]");
  EXPECT_EQ(Tensor::zeros({}, DType::boolean).describe(), "bool[]");
  EXPECT_TRUE(says([&] { tensor.size(3); }, "dimension 3 is out of range for 3 dimensions"));
  EXPECT_TRUE(says([&] { tensor.stride(-4); }, "dimension -4"));
  EXPECT_TRUE(says([&] { tensor.at({0, 0}); }, "2 indices came for float32[2, 3, 4]"));
  EXPECT_TRUE(says([&] { tensor.at({0, 3, 0}); }, "index 3 is out of range for size 3"));
  EXPECT_TRUE(says([&] { tensor.item(); }, "expected one element"));
  EXPECT_TRUE(says([&] { tensor.data<double>(); }, "float32[2, 3, 4], and was asked for float64"));
  EXPECT_EQ(tensor.data<float>()[5], 5.0f);
}

TEST(TensorViews, ShareTheStorage) {
  Tensor tensor = iota({2, 3, 4});
  EXPECT_EQ(by_strides(tensor.transpose(0, -1).select(1, 0)), (Values{0, 12, 1, 13, 2, 14, 3, 15}));
  const Tensor permuted = tensor.permute({2, 0, 1});
  EXPECT_EQ(permuted.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(permuted.at({3, 1, 2}), 23.0);
  tensor.data<float>()[23] = -1.0f;
  EXPECT_EQ(permuted.at({3, 1, 2}), -1.0);
  EXPECT_EQ(tensor.select(1, -1).shape(), (Shape{2, 4}));
  EXPECT_EQ(tensor.unsqueeze(0).shape(), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(tensor.unsqueeze(-1).shape(), (Shape{2, 3, 4, 1}));
  EXPECT_TRUE(tensor.unsqueeze(2).is_contiguous());
  EXPECT_EQ(tensor.unsqueeze(1).squeeze(1).strides(), tensor.strides());
  EXPECT_TRUE(says([&] { tensor.squeeze(0); }, "has size 2, expected 1"));
  EXPECT_TRUE(says([&] { tensor.permute({0, 1}); }, "2 dimensions came"));
  EXPECT_TRUE(says([&] { tensor.permute({0, 1, -2}); }, "comes twice"));
  EXPECT_TRUE(says([&] { tensor.select(0, 2); }, "index 2 is out of range for size 2"));
}

TEST(TensorViews, Slices) {
  const Tensor tensor = iota({6});
  EXPECT_EQ(by_strides(tensor.slice(0, 1, 4)), (Values{1, 2, 3}));
  EXPECT_EQ(by_strides(tensor.slice(0, -2, 100)), (Values{4, 5}));
  EXPECT_EQ(by_strides(tensor.slice(0, 0, -1, 2)), (Values{0, 2, 4}));
  EXPECT_EQ(by_strides(tensor.slice(0, 1, 6, 3)), (Values{1, 4}));
  EXPECT_EQ(tensor.slice(0, 4, 2).element_count(), 0);
  EXPECT_EQ(tensor.slice(0, 100, 200).element_count(), 0);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(by_strides(tensor.slice(0, -most, most, most)), (Values{0}));
  EXPECT_TRUE(says([&] { tensor.slice(0, 0, 6, -1); }, "step is -1, expected at least 1"));
  EXPECT_TRUE(says([&] { tensor.slice(0, 0, 6, 0); }, "step is 0"));
  EXPECT_TRUE(says([&] { tensor.slice(1, 0, 6); }, "dimension 1"));
}

TEST(TensorViews, ExpandBroadcasts) {
  const Tensor tensor = iota({3, 1});
  const Tensor expanded = tensor.expand({2, 3, 2});
  EXPECT_EQ(expanded.strides(), (Shape{0, 1, 0}));
  EXPECT_EQ(expanded.to_vector(), (Values{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  EXPECT_FALSE(expanded.is_contiguous());
  EXPECT_EQ(tensor.expand({3, 0}).element_count(), 0);
  EXPECT_TRUE(says([&] { tensor.expand({4, 2}); }, "float32[3, 1] does not broadcast to shape [4, 2]"));
  EXPECT_TRUE(says([&] { tensor.expand({3}); }, "more dimensions"));
}

TEST(TensorViews, ReshapeAndView) {
  const Tensor tensor = iota({2, 3, 4});
  EXPECT_EQ(tensor.view({6, -1}).shape(), (Shape{6, 4}));
  EXPECT_EQ(tensor.view({-1}).raw_data(), tensor.raw_data());
  EXPECT_EQ(tensor.reshape({1, 2, 1, 12, 1}).raw_data(), tensor.raw_data());
  EXPECT_EQ(Tensor::zeros({1, 1}).view({}).rank(), 0);
  EXPECT_EQ(Tensor::zeros({}).view({1, 1, 1}).rank(), 3);
  const Tensor swapped = tensor.transpose(0, 1);  // [3, 2, 4], strides [4, 12, 1]
  EXPECT_EQ(swapped.view({3, 2, 2, 2}).strides(), (Shape{4, 12, 2, 1}));
  EXPECT_TRUE(says([&] { swapped.view({6, 4}); }, "has no view of shape [6, 4]"));
  const Tensor copied = swapped.reshape({6, 4});
  EXPECT_NE(copied.raw_data(), swapped.raw_data());
  EXPECT_EQ(copied.to_vector(), by_strides(swapped));
  EXPECT_TRUE(says([&] { tensor.view({-1, -1}); }, "more than one -1"));
  EXPECT_TRUE(says([&] { tensor.view({5, -1}); }, "does not fit into shape [5, -1]"));
  EXPECT_TRUE(says([&] { tensor.reshape({5, 5}); }, "has 24 elements, shape [5, 5] has 25"));
  EXPECT_TRUE(says([&] { Tensor::zeros({0}).reshape({0, -1}); }, "does not fit"));
  EXPECT_EQ(Tensor::zeros({0, 3}).reshape({-1, 5}).shape(), (Shape{0, 5}));
  EXPECT_EQ(Tensor::zeros({0, 3}).transpose(0, 1).view({7, 0}).shape(), (Shape{7, 0}));
}

// A random strided view: permuted, sliced, expanded.
Tensor random_view(std::mt19937& random, DType dtype) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Shape shape;
  const int rank = pick(1, 4);
  for (int dim = 0; dim < rank; ++dim) {
    shape.push_back(pick(1, 5));
  }
  Tensor tensor = iota(shape, dtype);
  for (int change = pick(0, 3); change > 0; --change) {
    const int dim = pick(0, rank - 1);
    const int kind = pick(0, 2);
    if (kind == 0) {
      tensor = tensor.transpose(dim, pick(0, rank - 1));
    } else if (kind == 1) {
      tensor = tensor.slice(dim, pick(0, 1), tensor.size(dim), pick(1, 2));
    } else if (tensor.size(dim) == 1) {
      Shape wider = tensor.shape();
      wider[dim] = pick(1, 3);
      tensor = tensor.expand(wider);
    }
  }
  return tensor;
}

TEST(TensorViews, RandomReshapesKeepTheElements) {
  std::mt19937 random(1);
  int views = 0;
  for (int repeat = 0; repeat < 2000; ++repeat) {
    const Tensor tensor = random_view(random, DType::float32);
    const Values expected = by_strides(tensor);
    std::int64_t left = tensor.element_count();
    Shape shape;
    while (left > 1 && shape.rank() < 5) {
      std::int64_t factor = std::uniform_int_distribution<std::int64_t>(1, left)(random);
      while (left % factor != 0) {
        --factor;
      }
      shape.push_back(factor);
      left /= factor;
    }
    shape.push_back(left);
    const Tensor reshaped = tensor.reshape(shape);
    ASSERT_EQ(by_strides(reshaped), expected) << tensor.describe() << tensor.strides().to_string() << shape.to_string();
    views += reshaped.raw_data() == tensor.raw_data();
    ASSERT_EQ(by_strides(tensor.reshape(shape).reshape(tensor.shape())), expected);
  }
  EXPECT_GT(views, 500);
}

TEST(TensorCopies, EveryPairOfDTypesOnRandomStrides) {
  std::mt19937 random(2);
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      for (int repeat = 0; repeat < 40; ++repeat) {
        const Tensor source = random_view(random, from);
        Values expected = by_strides(source);
        ASSERT_EQ(source.to_vector(), expected);
        ASSERT_EQ(source.clone().to_vector(), expected);
        ASSERT_TRUE(source.contiguous().is_contiguous());
        ASSERT_EQ(by_strides(source.contiguous()), expected);
        for (double& value : expected) {
          if (to == DType::boolean) value = value != 0.0;
          if (to == DType::int8 && is_floating(from)) value = std::clamp(value, -128.0, 127.0);
          if (to == DType::int8) value = static_cast<std::int8_t>(static_cast<std::int64_t>(value));
        }
        const Tensor converted = source.to(to);
        ASSERT_EQ(converted.dtype(), to);
        // Up to 625, exact in float16 but not in bfloat16.
        const Values rounded = to == DType::bfloat16 && from != DType::bfloat16
                                   ? Tensor::from(expected, source.shape()).to(to).to_vector()
                                   : expected;
        ASSERT_EQ(by_strides(converted), rounded);
        // Into a strided destination, whose surroundings stay as they were.
        Shape wide = source.shape();
        wide.push_back(2);
        Tensor around = Tensor::full(wide, 1.0, to);
        around.select(-1, 1).copy_from(source);
        ASSERT_EQ(by_strides(around.select(-1, 1)), rounded);
        ASSERT_EQ(by_strides(around.select(-1, 0)), Values(rounded.size(), 1.0));
      }
    }
  }
}

TEST(TensorCopies, LargeTransposesAndMemoryRows) {
  const Tensor tensor = iota({3, 150, 70});
  EXPECT_EQ(tensor.transpose(1, 2).contiguous().to_vector(), by_strides(tensor.transpose(1, 2)));
  EXPECT_EQ(tensor.permute({2, 1, 0}).to(DType::float64).to_vector(), by_strides(tensor.permute({2, 1, 0})));
  EXPECT_EQ(tensor.permute({1, 0, 2}).clone().to_vector(), by_strides(tensor.permute({1, 0, 2})));
  Tensor target = Tensor::zeros({70, 150, 3});
  target.transpose(0, 2).copy_from(tensor);
  EXPECT_EQ(target.to_vector(), by_strides(tensor.permute({2, 1, 0})));
}

TEST(TensorCopies, ShareOnlyWhereNothingChanges) {
  const Tensor tensor = iota({2, 3});
  EXPECT_EQ(tensor.contiguous().raw_data(), tensor.raw_data());
  EXPECT_EQ(tensor.to(DType::float32).raw_data(), tensor.raw_data());
  EXPECT_NE(tensor.clone().raw_data(), tensor.raw_data());
}

TEST(TensorCopies, AnyNonZeroByteOfAUsersBoolIsTrue) {
  unsigned char bytes[4] = {0, 1, 2, 255};
  const Tensor tensor = Tensor::wrap(bytes, {4}, DType::boolean);
  EXPECT_EQ(tensor.to_vector(), (Values{0, 1, 1, 1}));
  EXPECT_EQ(tensor.slice(0, 0, 4, 3).to_vector(), (Values{0, 1}));
}

TEST(TensorChanges, CopyFromBroadcastsAndConverts) {
  Tensor tensor = Tensor::zeros({2, 3}, DType::int64);
  tensor.copy_from(Tensor::from({1.9f, -2.9f, 3.0f}, {3}));
  EXPECT_EQ(tensor.to_vector(), (Values{1, -2, 3, 1, -2, 3}));
  EXPECT_TRUE(says([&] { tensor.copy_from(Tensor::zeros({2})); }, "float32[2] does not broadcast to shape [2, 3]"));
  EXPECT_TRUE(says([&] { Tensor::zeros({1}).expand({3}).copy_from(Tensor::zeros({3})); }, "share memory"));
  Tensor::zeros({0, 3}).copy_from(Tensor::zeros({3}));
}

TEST(TensorChanges, CopyFromItself) {
  Tensor tensor = iota({5});
  tensor.slice(0, 1, 5).copy_from(tensor.slice(0, 0, 4));
  EXPECT_EQ(tensor.to_vector(), (Values{0, 0, 1, 2, 3}));
  Tensor square = iota({2, 2});
  square.copy_from(square.transpose(0, 1));
  EXPECT_EQ(square.to_vector(), (Values{0, 2, 1, 3}));
}

TEST(TensorChanges, FillOnViews) {
  Tensor tensor = Tensor::zeros({2, 3});
  tensor.transpose(0, 1).select(0, 1).fill(7.0);
  EXPECT_EQ(tensor.to_vector(), (Values{0, 7, 0, 0, 7, 0}));
  tensor.select(0, 0).unsqueeze(0).expand({4, 3}).fill(-1.0);
  EXPECT_EQ(tensor.to_vector(), (Values{-1, -1, -1, 0, 7, 0}));
  Tensor::zeros({0}).fill(1.0);
}

TEST(TensorChanges, VersionGrowsForAllViews) {
  Tensor tensor = Tensor::zeros({2, 3});
  const Tensor view = tensor.transpose(0, 1);
  const Tensor shared = tensor;
  EXPECT_EQ(view.version(), 0u);
  tensor.fill(1.0);
  EXPECT_EQ(view.version(), 1u);
  tensor.select(0, 0).copy_from(Tensor::zeros({3}));
  EXPECT_EQ(shared.version(), 2u);
  internal::bump_version(view);
  EXPECT_EQ(tensor.version(), 3u);
  EXPECT_EQ(tensor.clone().version(), 0u);
}

}  // namespace
}  // namespace headway
