// Tensors on the GPU: copies there and back, views, conversions, changes in place, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <limits>

#include "cuda/device_problem.h"
#include "cuda/messages.h"
#include "headway/ops.h"
#include "support/elementwise.h"
#include "support/message_of.h"

namespace headway_test {
namespace {

using headway::Device;
using std::int64_t;

constexpr DType kAllDtypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                                DType::int32,   DType::int64,   DType::boolean,  DType::int8};

std::string name(DType dtype) { return std::string(headway::dtype_name(dtype)); }

// Small whole numbers, which every dtype but boolean holds.
Tensor counted(const Shape& shape, DType dtype) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<int64_t> values;
  for (int64_t e = 0; e < count; ++e) values.push_back(e * 37 % 101 - 20);
  return Tensor::from(values, shape).to(dtype);
}

TEST(CudaTensor, KnowsWhereItIs) {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32, Device::cuda());
  EXPECT_EQ(x.device(), Device::cuda());
  EXPECT_FALSE(x.device().is_cpu());
  EXPECT_EQ(x.device().name(), "cuda");
  EXPECT_EQ(Device::parse("cuda"), Device::cuda());
  EXPECT_EQ(Device::parse("cuda:0"), Device::cuda());
  EXPECT_EQ(Device::parse("cpu"), Device::cpu());
  EXPECT_EQ(x.transpose(0, 1).device(), Device::cuda());
  EXPECT_EQ(x.to(Device::cuda()).raw_data(), x.raw_data());
  EXPECT_EQ(x.to(Device::cpu()).device(), Device::cpu());
  EXPECT_EQ(x.to(DType::float64).device(), Device::cuda());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.raw_data()) % 64, 0u);
}

TEST(CudaTensor, ThereAndBack) {
  Messages messages;
  for (DType dtype : kAllDtypes) {
    for (const Shape& shape : {Shape{}, {1}, {7}, {3, 5, 7}, {0, 4}, {70000, 3}, {2, 1, 2, 1, 2, 1, 2, 3}}) {
      const Tensor x = counted(shape, dtype);
      const std::string where = name(dtype) + " " + shape.to_string();
      messages.guarded(where, [&] {
        const Tensor there = x.to(Device::cuda());
        messages.expect(same_bits(there.to(Device::cpu()), x), where);
        messages.expect(same_bits(there.clone().to(Device::cpu()), x), where + " cloned");
        if (there.to_vector() != x.to_vector()) messages.add(where + " to_vector");
      });
    }
  }
}

// Views of a tensor [6, 8, 10].
std::vector<Tensor> views_of(const Tensor& x) {
  return {x.transpose(0, 2),
          x.permute({1, 2, 0}),
          x.slice(1, 1, 7, 2),
          x.slice(2, 3, 9),
          x.select(0, 4),
          x.slice(0, 2, 2),
          x.slice(1, 3, 4).expand({6, 5, 10}),
          x.transpose(1, 2).slice(1, 1, 10, 3).unsqueeze(0),
          x.reshape({48, 10}),
          x.transpose(0, 1).reshape({8, 60})};
}

TEST(CudaTensor, Views) {
  Messages messages;
  for (DType dtype : kAllDtypes) {
    const Tensor x = counted({6, 8, 10}, dtype);
    const std::vector<Tensor> here = views_of(x), there = views_of(x.to(Device::cuda()));
    for (std::size_t v = 0; v < here.size(); ++v) {
      const std::string where = name(dtype) + " view " + std::to_string(v);
      messages.guarded(where, [&] {
        messages.expect(same_bits(there[v].to(Device::cpu()), here[v]), where);
        messages.expect(same_bits(there[v].contiguous().to(Device::cpu()), here[v]), where + " contiguous");
        messages.expect(same_bits(here[v].to(Device::cuda()).to(Device::cpu()), here[v]), where + " from the CPU");
        if (there[v].to_vector() != here[v].to_vector()) messages.add(where + " to_vector");
      });
    }
    EXPECT_EQ(x.to(Device::cuda()).at({5, 3, 2}), x.at({5, 3, 2}));
    EXPECT_EQ(x.to(Device::cuda()).slice(0, 1, 2).slice(1, 2, 3).slice(2, 3, 4).item(), x.at({1, 2, 3}));
  }
}

// Conversions give the bits that they give on the CPU, for numbers that need rounding and for those that overflow too.
TEST(CudaTensor, Conversions) {
  Messages messages;
  std::vector<double> special = {0.0, -0.0, INFINITY, -INFINITY, 65504, 65519, 65520, 1e38, 3.4e38, 1e39, 1e-45, 6e-8};
  for (int e = 0; e < 2000; ++e) {
    special.push_back(std::ldexp(1.0 + e / 1024.0, e % 40 - 25) * (e % 3 == 0 ? -1 : 1));
    special.push_back(1 + (2 * e + 1) * 0x1p-12);  // halfway between neighbours of 16 bits
  }
  const Tensor floats = Tensor::from(special, {static_cast<int64_t>(special.size())});
  for (DType from : kAllDtypes) {
    for (DType to : kAllDtypes) {
      const bool both_float = headway::is_floating(from) && headway::is_floating(to);
      const Tensor x = both_float ? floats.to(from) : counted({33, 67}, from);
      const std::string where = name(from) + " to " + name(to);
      messages.guarded(where, [&] {
        const Tensor there = x.to(Device::cuda());
        messages.expect(same_bits(there.to(to).to(Device::cpu()), x.to(to)), where);
        if (x.rank() < 2) return;
        messages.expect(same_bits(there.transpose(0, 1).to(to).to(Device::cpu()), x.transpose(0, 1).to(to)),
                        where + " transposed");
      });
    }
  }
  const Tensor nan = Tensor::full({5}, std::nan(""), DType::float64, Device::cuda());
  for (DType to : {DType::float32, DType::bfloat16, DType::float16}) {
    for (double value : nan.to(to).to_vector()) EXPECT_TRUE(std::isnan(value)) << name(to);
  }
}

TEST(CudaTensor, FillAndCopyFrom) {
  Messages messages;
  for (DType dtype : kAllDtypes) {
    const Tensor x = counted({6, 8, 10}, dtype);
    for (std::size_t v = 0; v < 6; ++v) {  // without the expanded one, which cannot be written
      const std::string where = name(dtype) + " view " + std::to_string(v);
      messages.guarded(where, [&] {
        const auto changed = [&](Device device, const auto& change) {
          const Tensor whole = x.clone().to(device);
          Tensor view = views_of(whole)[v];
          change(view);
          return whole.to(Device::cpu());
        };
        const auto fill = [](Tensor& view) { view.fill(3); };
        messages.expect(same_bits(changed(Device::cuda(), fill), changed(Device::cpu(), fill)), where + " fill");
        for (DType other : {dtype, DType::float32, DType::int32}) {
          const Tensor row = counted({views_of(x)[v].size(-1)}, other);
          const auto copy_here = [&](Tensor& view) { view.copy_from(row); };
          const auto copy_there = [&](Tensor& view) { view.copy_from(row.to(Device::cuda())); };
          const Tensor expected = changed(Device::cpu(), copy_here);
          const std::string what = where + " copy_from " + name(other);
          messages.expect(same_bits(changed(Device::cuda(), copy_here), expected), what + ", CPU to GPU");
          messages.expect(same_bits(changed(Device::cuda(), copy_there), expected), what + ", GPU to GPU");
          messages.expect(same_bits(changed(Device::cpu(), copy_there), expected), what + ", GPU to CPU");
        }
      });
    }
  }
  for (DType dtype : kAllDtypes) {
    EXPECT_TRUE(same_bits(on_cpu(Tensor::full({33, 5}, 7, dtype, Device::cuda())), Tensor::full({33, 5}, 7, dtype)));
    EXPECT_TRUE(same_bits(on_cpu(Tensor::zeros({33, 5}, dtype, Device::cuda())), Tensor::zeros({33, 5}, dtype)));
  }
}

// A user's bool may be any byte.
TEST(CudaTensor, OddBooleans) {
  std::vector<unsigned char> bytes(300);
  for (std::size_t e = 0; e < bytes.size(); ++e) bytes[e] = static_cast<unsigned char>(e);
  const Tensor here = Tensor::wrap(bytes.data(), {300}, DType::boolean);
  const std::vector<double> values = here.to(Device::cuda()).to(DType::float32).to_vector();
  for (std::size_t e = 0; e < bytes.size(); ++e) EXPECT_EQ(values[e], bytes[e] == 0 ? 0 : 1) << e;
}

// The memory lives as long as a tensor sees it, and is given back after.
TEST(CudaTensor, WrappedMemory) {
  int released = 0;
  {
    const Tensor owner = counted({10, 12}, DType::float32).to(Device::cuda());
    const Tensor wrapped = Tensor::wrap(
        owner.raw_data(), {4, 10}, {1, 12}, DType::float32, [&] { ++released; }, Device::cuda());
    EXPECT_TRUE(same_bits(on_cpu(wrapped), on_cpu(owner).slice(1, 0, 4).transpose(0, 1)));
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(CudaTensor, MemoryIsReused) {
  for (int n = 0; n < 200; ++n) {  // 400 GiB, were it not given back
    const Tensor x = Tensor::empty({int64_t{1} << 31}, DType::boolean, Device::cuda());
    ASSERT_NE(x.raw_data(), nullptr);
  }
  EXPECT_NE(message_of([] { Tensor::empty({int64_t{1} << 45}, DType::float32, Device::cuda()); }), "no error");
  EXPECT_EQ(Tensor::full({3}, 2, DType::float32, Device::cuda()).to_vector(), std::vector<double>(3, 2.0));
}

// More than 2^31 elements.
// Tensors of many sizes come and go, in several threads: none is given memory that another still has.
TEST(CudaTensor, MemoryBelongsToOneTensor) {
  const auto come_and_go = [](int64_t seed) {
    std::vector<Tensor> held(40);
    std::vector<double> values(held.size());
    int64_t wrong = 0;
    for (int64_t i = 0; i < 400; ++i) {
      const auto place = static_cast<std::size_t>((i * i + 7 * i + seed) % 40);
      Tensor& tensor = held[place];
      if (tensor.defined()) {
        const Tensor kept = on_cpu(tensor);
        for (int64_t at : {int64_t{0}, kept.element_count() / 2, kept.element_count() - 1}) {
          wrong += kept.data<float>()[at] != static_cast<float>(values[place]);
        }
        tensor = Tensor();
      }
      values[place] = static_cast<double>(i + 1000 * seed);
      const int64_t count = 1 + (i * 7919 + seed * 104729) % (i % 5 == 0 ? 3000000 : 5000);
      tensor = Tensor::full({count}, values[place], DType::float32, Device::cuda());
    }
    return wrong;
  };
  std::vector<std::future<int64_t>> threads;
  for (int64_t seed = 1; seed <= 3; ++seed) threads.push_back(std::async(std::launch::async, come_and_go, seed));
  EXPECT_EQ(come_and_go(0), 0);
  for (auto& thread : threads) EXPECT_EQ(thread.get(), 0);
}

TEST(CudaTensor, LargeCopies) {
  constexpr int64_t kRows = 65537, kColumns = 32769;
  const Tensor x = Tensor::zeros({kRows, kColumns}, DType::boolean, Device::cuda());
  x.select(0, kRows - 1).fill(1);
  const Tensor across = x.transpose(0, 1).contiguous();
  for (int64_t column : {int64_t{0}, kColumns - 1}) {
    EXPECT_EQ(across.at({column, kRows - 1}), 1) << column;
    EXPECT_EQ(across.at({column, kRows - 2}), 0) << column;
    EXPECT_EQ(across.at({column, 0}), 0) << column;
  }
  const Tensor halves = x.to(DType::bfloat16);
  EXPECT_EQ(halves.at({kRows - 1, kColumns - 1}), 1);
  EXPECT_EQ(headway::sum(halves.slice(0, kRows - 2, kRows).to(DType::float32)).item(), kColumns);
  const Tensor sums = headway::sum(halves, {1});
  EXPECT_EQ(sums.at({0}), 0);
  EXPECT_NEAR(sums.at({kRows - 1}), kColumns, kColumns * 0x1p-8);
}

void expect_names_both(const std::string& message) {
  EXPECT_PRED2(contains, message, "cpu");
  EXPECT_PRED2(contains, message, "cuda");
}

TEST(CudaTensor, MixedDevicesAreRefused) {
  const Tensor here = Tensor::zeros({4, 4}), there = here.to(Device::cuda());
  expect_names_both(message_of([&] { here + there; }));
  expect_names_both(message_of([&] { there* here; }));
  expect_names_both(message_of([&] { headway::matmul(here, there); }));
  expect_names_both(message_of([&] { headway::linear(there, here); }));
  expect_names_both(message_of([&] { headway::linear(there, there, Tensor::zeros({4})); }));
  expect_names_both(message_of([&] { headway::layer_norm(there, Tensor::zeros({4})); }));
  expect_names_both(message_of([&] { headway::rms_norm(there, Tensor::zeros({4})); }));
  expect_names_both(message_of([&] { headway::concat({here, there}); }));
  expect_names_both(message_of([&] { headway::add_dropout(here, there, 0.5, 1); }));
}

TEST(CudaTensor, RefusesTheCpusPointer) {
  const Tensor there = Tensor::zeros({4}, DType::float32, Device::cuda());
  EXPECT_PRED2(contains, message_of([&] { there.data<float>(); }), "cuda");
  EXPECT_NE(message_of([] { Device::cuda(99); }), "no error");
  EXPECT_NE(message_of([] { Device::cuda(-1); }), "no error");
  EXPECT_NE(message_of([] { Device::parse("gpu"); }), "no error");
}

// Gradients meet on the GPU, and stay there.
TEST(CudaTensor, GradientsStayOnTheGpu) {
  Tensor x = counted({5, 6}, DType::float32).to(Device::cuda());
  x.set_requires_grad();
  const Tensor loss = headway::sum(x * x + x.transpose(0, 1).slice(0, 0, 5).slice(1, 0, 1) * 0.0);
  EXPECT_EQ(loss.device(), Device::cuda());
  loss.backward();
  EXPECT_EQ(x.grad().device(), Device::cuda());
  EXPECT_TRUE(near(on_cpu(x.grad()), on_cpu(x.detach()) * 2.0, 1e-6));
  headway::sum(x * 3.0).backward();
  EXPECT_TRUE(near(on_cpu(x.grad()), on_cpu(x.detach()) * 2.0 + Tensor::full({}, 3), 1e-6));
}

}  // namespace
}  // namespace headway_test
