// NCCL with one rank, which is all that one GPU takes: messages to itself, straight through the backend's transport,
// and every operation of a communicator.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "backend/cuda_library.h"
#include "headway/communicator.h"
#include "headway/headway.h"
#include "support/message_of.h"

namespace {

using namespace headway;
using headway_test::message_of;

// The library that libheadway has opened.
internal::Backend& gpu() {
  static internal::Backend& first = []() -> internal::Backend& {
    Dl_info own;
    EXPECT_NE(dladdr(reinterpret_cast<const void*>(&headway::cuda_device_count), &own), 0);
    const auto file = std::filesystem::path(own.dli_fname).parent_path() / "libheadway_cuda.so.0";
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto fill = reinterpret_cast<internal::CudaDevices>(dlsym(library, internal::kCudaDevicesName));
    internal::DeviceList list;
    fill(&list);
    return *list.backend(0);
  }();
  return first;
}

// Empty where NCCL is there.
std::string absence() {
  const std::string message = message_of([] { gpu().new_nccl_id(); });
  return message == "no error" ? "" : message;
}

TEST(Nccl, MessagesComeInTheOrderOfTheStream) {
  if (!absence().empty()) GTEST_SKIP() << absence();
  const Device device = Device::cuda();
  const std::shared_ptr<Transport> transport = gpu().open_nccl(gpu().new_nccl_id(), 0, 1);
  EXPECT_EQ(transport->rank(), 0);
  EXPECT_EQ(transport->size(), 1);
  EXPECT_EQ(transport->description().substr(0, 7), "NCCL 2.");
  EXPECT_TRUE(transport->moves(device));
  EXPECT_FALSE(transport->moves(Device::cpu()));
  for (const std::int64_t count : {1, 1000, 1 << 22}) {
    const Tensor values = Tensor::uniform({count}, 0, 1, 7).to(device), received = Tensor::zeros({count}).to(device);
    const Tensor sent = add(values, values);  // enqueued, perhaps not done
    const auto bytes = static_cast<std::size_t>(count) * 4;
    const auto messages = transport->start({{0, sent.raw_data(), bytes}}, {{0, received.raw_data(), bytes}}, device);
    messages->wait();
    EXPECT_EQ(add(received, values).to(Device::cpu()).to_vector(), add(sent, values).to(Device::cpu()).to_vector());
    EXPECT_TRUE(messages->done());
  }
  EXPECT_EQ(transport->split(3, 0)->size(), 1);
  EXPECT_EQ(message_of([&] { transport->start({}, {}, Device::cpu()); }),
            "NCCL: messages lie in the memory of cpu, expected " + Device::cuda().name());
}

TEST(Nccl, AfterAFailureNothingStarts) {
  if (!absence().empty()) GTEST_SKIP() << absence();
  const std::shared_ptr<Transport> transport = gpu().open_nccl(gpu().new_nccl_id(), 0, 1);
  transport->fail("no more");
  EXPECT_EQ(message_of([&] { transport->start({}, {}, Device::cuda()); }), "rank 0: no more");
}

TEST(Nccl, CommunicatorOfOneRank) {
  if (!absence().empty()) GTEST_SKIP() << absence();
  const Device device = Device::cuda();
  const auto file = std::filesystem::temp_directory_path() / ("headway_nccl_test_" + std::to_string(getpid()));
  for (const Communicator& ranks :
       {Communicator::nccl(Communicator(), device), Communicator::nccl(file, 0, 1, device)}) {
    EXPECT_EQ(ranks.size(), 1);
    const Tensor values = Tensor::uniform({37, 3}, 0, 1, 3).to(device);
    const std::vector<double> expected = values.to(Device::cpu()).to_vector();
    const Tensor sum = values.clone();
    ranks.all_reduce(sum);
    ranks.broadcast(sum);
    ranks.barrier();
    EXPECT_EQ(ranks.all_gather(ranks.reduce_scatter(sum)).to(Device::cpu()).to_vector(), expected);
    EXPECT_EQ(ranks.all_gather(std::string("text")), std::vector<std::string>{"text"});
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

// Two ranks on one GPU are refused by NCCL, on both.
TEST(Nccl, OneGpuTakesOneRank) {
  if (!absence().empty()) GTEST_SKIP() << absence();
  const std::string id = gpu().new_nccl_id();
  std::string messages[2];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] { messages[rank] = message_of([&] { gpu().open_nccl(id, rank, 2); }); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages) EXPECT_EQ(message.find("NCCL: ncclCommInitRank: "), 0U) << message;
}

TEST(Nccl, ACpuIsNoRank) {
  EXPECT_NE(message_of([] { Communicator::nccl(Communicator(), Device::cpu()); }).find("cannot use it"),
            std::string::npos);
}

}  // namespace
