// Devices: their names, the errors where there is none, and tensors that move between them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "headway/autograd.h"
#include "headway/device.h"
#include "headway/ops.h"
#include "support/message_of.h"

namespace {

using headway::Device;
using headway::DType;
using headway::Tensor;
using headway_test::message_of;

bool no_device() { return headway::cuda_device_count() == 0; }

TEST(Device, NamesAreRead) {
  EXPECT_EQ(Device::parse("cpu"), Device::cpu());
  EXPECT_EQ(Device::cpu().name(), "cpu");
  for (const char* bad : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda1", "cuda:1x", "CPU"}) {
    EXPECT_EQ(message_of([&] { Device::parse(bad); }),
              std::string("device: \"") + bad + "\" is not known, expected cpu, cuda or cuda:N");
  }
}

TEST(Device, NamesNeedNoDevice) {
  for (const char* good : {"cpu", "cuda", "cuda:0", "cuda:77"}) EXPECT_TRUE(Device::is_name(good)) << good;
  for (const char* bad : {"", "gpu", "cuda:", "cuda:-1", "CPU", "cpu:0"}) EXPECT_FALSE(Device::is_name(bad)) << bad;
}

TEST(Device, AbsenceIsTold) {
  if (!no_device()) GTEST_SKIP() << "there is a device";
  EXPECT_NE(message_of([] { Device::cuda(); }).find("cuda: "), std::string::npos);
  EXPECT_NE(message_of([] { Device::parse("cuda:3"); }).find("cuda: "), std::string::npos);
  EXPECT_EQ(headway::describe_cuda().find("not available: "), 0U);
}

TEST(Device, OtherInterfaceIsRefused) {
  const char* library = std::getenv("HEADWAY_CUDA_LIBRARY");
  if (library == nullptr || std::string(library).find("other_interface") == std::string::npos) {
    GTEST_SKIP() << "HEADWAY_CUDA_LIBRARY does not name the library of another interface";
  }
  EXPECT_EQ(headway::cuda_device_count(), 0);
  const std::string message = message_of([] { Device::cuda(); });
  EXPECT_EQ(message.find(std::string("cuda: ") + library +
                         " is of another build than this Headway: its interface is "
                         "0123456789abcdef, expected "),
            0U)
      << message;
}

TEST(Device, ThereIsNoOneAfterTheLast) {
  if (no_device()) GTEST_SKIP() << headway::describe_cuda();
  const int count = headway::cuda_device_count();
  EXPECT_EQ(message_of([&] { Device::cuda(count); }),
            "cuda: there is no device " + std::to_string(count) + ", expected 0 to " + std::to_string(count - 1));
}

TEST(Device, TensorsMoveWithTheirGradients) {
  if (no_device()) GTEST_SKIP() << headway::describe_cuda();
  const Device device = Device::cuda();
  Tensor x = Tensor::randn({3, 5}, 1).set_requires_grad();
  const Tensor there = x.to(device);
  EXPECT_EQ(there.device(), device);
  EXPECT_EQ(there.to_vector(), x.to_vector());
  EXPECT_EQ(there.transpose(0, 1).to(Device::cpu()).to_vector(), x.transpose(0, 1).to_vector());
  EXPECT_EQ(there.to(DType::bfloat16).to_vector(), x.to(DType::bfloat16).to_vector());
  sum(there * there).backward();
  EXPECT_EQ(x.grad().device(), Device::cpu());
  EXPECT_EQ(x.grad().to_vector(), scale(x.detach(), 2).to_vector());
}

TEST(Device, RandomValuesAreThoseOfTheCpu) {
  if (no_device()) GTEST_SKIP() << headway::describe_cuda();
  const Device device = Device::cuda();
  const Tensor normal = Tensor::randn({3, 5}, 7, DType::bfloat16, device);
  EXPECT_EQ(normal.device(), device);
  EXPECT_EQ(normal.to_vector(), Tensor::randn({3, 5}, 7, DType::bfloat16).to_vector());
  EXPECT_EQ(Tensor::uniform({9}, -1, 2, 7, DType::float64, device).to_vector(),
            Tensor::uniform({9}, -1, 2, 7, DType::float64).to_vector());
}

TEST(Device, OperationsGiveWhatTheCpuGives) {
  if (no_device()) GTEST_SKIP() << headway::describe_cuda();
  const auto results = [](Device device) {
    Tensor x = Tensor::randn({4, 33}, 1, DType::float64).to(device), y = Tensor::uniform({33}, 1, 2, 2, DType::float64);
    y = y.to(device);
    for (Tensor* leaf : {&x, &y}) leaf->set_requires_grad();
    const Tensor mixed = headway::exp(-(x / y)) + headway::log(y) * headway::pow(y, 1.5) - 1 / headway::sqrt(y + 1);
    const Tensor chosen = headway::where((mixed > 1) | ~(x >= y), headway::maximum(mixed, x), 2 - mixed);
    headway::sum(headway::stack({headway::max(chosen, 0), headway::min(chosen, -1, true).expand({4, 33})[2]}))
        .backward();
    return std::vector<Tensor>{chosen, x.grad(), y.grad(), headway::argmax(chosen, 1), headway::argmin(chosen)};
  };
  const std::vector<Tensor> here = results(Device::cpu()), there = results(Device::cuda());
  for (std::size_t i = 0; i < here.size(); ++i) {
    ASSERT_EQ(there[i].device(), Device::cuda());
    const std::vector<double> expected = here[i].to_vector(), actual = there[i].to_vector();
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t e = 0; e < expected.size(); ++e) EXPECT_NEAR(actual[e], expected[e], 1e-12) << i << ", " << e;
  }
  std::ostringstream printed;
  printed << Tensor::full({2}, 3).to(Device::cuda());
  EXPECT_EQ(printed.str(), "[3, 3] float32[2] on " + Device::cuda().name());
}

TEST(Device, HostAccessIsRefused) {
  if (no_device()) GTEST_SKIP() << headway::describe_cuda();
  const Tensor there = Tensor::full({2}, 3.0, DType::float32, Device::cuda());
  EXPECT_EQ(there.at({1}), 3.0);
  EXPECT_NE(message_of([&] { there.data<float>(); }).find("is float32[2] on cuda"), std::string::npos);
  EXPECT_EQ(message_of([&] { add(there, Tensor::zeros({2})); }), "add: a is on cuda and b on cpu, expected one device");
}

// Adds x to the total and doubles x, on a device.
void expect_replays(Device device) {
  const headway::NoGradGuard guard;
  Tensor x = Tensor::full({3}, 1.0, DType::float32, device), total = Tensor::zeros({3}, DType::float32, device);
  const auto work = [&] {
    total.copy_from(add(total, x));
    x.copy_from(add(x, x));
  };
  work();
  const headway::DeviceGraph graph(device, work);
  EXPECT_EQ(total.to_vector(), std::vector<double>(3, 1.0));  // recorded, and not done
  graph.replay();
  const headway::DeviceGraph shared = graph;
  shared.replay();
  EXPECT_EQ(total.to_vector(), std::vector<double>(3, 7.0));
  x.fill(10.0);
  graph.replay();
  EXPECT_EQ(total.to_vector(), std::vector<double>(3, 17.0));
}

TEST(DeviceGraph, TheCpuCallsTheWorkAgain) { expect_replays(Device::cpu()); }

TEST(DeviceGraph, ReplaysOnTheSameTensors) {
  if (no_device()) GTEST_SKIP() << headway::describe_cuda();
  expect_replays(Device::cuda());
}

TEST(DeviceGraph, WhatCannotBeRecordedIsTold) {
  EXPECT_EQ(message_of([] { headway::DeviceGraph().replay(); }),
            "DeviceGraph: replay() is called on a graph without work");
  EXPECT_EQ(message_of([] { headway::DeviceGraph(Device::cpu(), nullptr); }),
            "DeviceGraph: work is not given, expected a function");
  if (no_device()) return;
  const Tensor x = Tensor::zeros({2}, DType::float32, Device::cuda());
  const auto copies = [&] { x.to(Device::cpu()); };
  EXPECT_NE(message_of([&] { headway::DeviceGraph(Device::cuda(), copies).replay(); }).find("to the host"),
            std::string::npos);
  EXPECT_EQ(add(x, x).to_vector(), std::vector<double>(2, 0.0));  // the device goes on
}

}  // namespace
