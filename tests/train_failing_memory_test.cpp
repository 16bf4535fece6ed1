// Memory that fails at every allocation in turn: attention, gradients, a training step, a checkpoint.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "core/aligned_memory.h"
#include "failing_memory/failing_memory.h"
#include "headway/attention.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "headway/random.h"
#include "headway/threads.h"
#include "headway/training.h"
#include "headway/transformer.h"
#include "support/cases.h"
#include "support/files.h"
#include "support/thread_count.h"

namespace {

using headway::DType;
using headway::Tensor;
using namespace headway_test;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

headway::AttentionBackward make_problem(DType dtype, std::int64_t length) {
  headway::AttentionBackward problem;
  problem.query = Tensor::randn({1, 2, length, 16}, 1, dtype);
  problem.key = Tensor::randn({1, 1, length, 16}, 2, dtype);
  problem.value = Tensor::randn({1, 1, length, 16}, 3, dtype);
  problem.d_output = Tensor::randn({1, 2, length, 16}, 4, dtype);
  problem.options.bias = Tensor::randn({length, length}, 5, dtype);
  problem.options.weights = headway::Weights::mean;
  problem.bias_gradient = true;
  return problem;
}

std::string forward_and_backward(headway::AttentionBackward problem) {
  problem.forward = headway::attention(problem.query, problem.key, problem.value, problem.options);
  const headway::AttentionGradients gradients = headway::attention_backward(problem);
  return bytes_of(problem.forward.output) + bytes_of(problem.forward.weights) + bytes_of(gradients.query) +
         bytes_of(gradients.key) + bytes_of(gradients.value) + bytes_of(gradients.bias);
}

TEST(FailingMemory, AttentionAndItsBackward) {
  for (const int threads : {1, 4}) {
    SCOPED_TRACE(threads);
    const ThreadCount limit(threads);
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      const headway::AttentionBackward problem = make_problem(dtype, kSanitized ? 70 : 200);
      expect_survives_failing_memory([&] { return forward_and_backward(problem); });
    }
  }
}

// A backward in a process of its own, whose threads have no workspace yet: a task may fail while others wait for it.
class ColdProcess {
 public:
  enum Status { kFailed = 0, kWhole = 1, kWrong = 2, kHung = 3 };

  static Status run(std::int64_t number) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body(number));
    for (int waited = 0; waited < 10000; ++waited) {
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) == child) {
        return WIFEXITED(status) ? static_cast<Status>(WEXITSTATUS(status)) : kWrong;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return kHung;
  }

 private:
  static int body(std::int64_t number) {
    headway::set_num_threads(1);
    headway::AttentionBackward problem = make_problem(DType::float32, 300);
    problem.forward = headway::attention(problem.query, problem.key, problem.value, problem.options);
    headway::set_num_threads(8);
    const auto backward = [&] {
      const headway::AttentionGradients gradients = headway::attention_backward(problem);
      return bytes_of(gradients.query) + bytes_of(gradients.key) + bytes_of(gradients.bias);
    };
    std::string bytes;
    bool failed = false;
    const Ending ending = call_failing(backward, number, Failing::once, bytes, failed);
    if (ending == Ending::other || (ending == Ending::result && bytes != backward())) return kWrong;
    if (ending == Ending::error && backward() != backward()) return kWrong;
    return failed ? kFailed : kWhole;
  }
};

TEST(FailingMemory, ATaskThatOthersWaitFor) {
  ColdProcess::Status status = ColdProcess::kFailed;
  for (std::int64_t number = 1; status == ColdProcess::kFailed; ++number) {
    status = ColdProcess::run(number);
    ASSERT_NE(status, ColdProcess::kWrong) << number;
    ASSERT_NE(status, ColdProcess::kHung) << number;
  }
}

// What an allocation that failed asked for is not counted as memory in use, which sets how much may be cached.
TEST(FailingMemory, AFailedBlockDoesNotCount) {
  constexpr std::size_t kMegabyte = std::size_t{1} << 20;
  { const headway::internal::AlignedMemory first_use(kMegabyte); }
  for (int repeat = 0; repeat < 4; ++repeat) {
    fail_allocation(1, Failing::from_then_on);
    EXPECT_THROW(headway::internal::allocate_block(std::size_t{1} << 62), std::exception);
    EXPECT_TRUE(stop_failing());
    fail_allocation(1, Failing::from_then_on);
    EXPECT_THROW(headway::internal::allocate_zeroed_block(std::size_t{1} << 62), std::exception);
    EXPECT_TRUE(stop_failing());
  }
  { const headway::internal::AlignedMemory first(100 * kMegabyte), second(100 * kMegabyte); }
  // As much memory as before in blocks of another size, so that the two cannot stay.
  std::vector<headway::internal::AlignedMemory> blocks;
  for (int i = 0; i < 5; ++i) blocks.emplace_back(40 * kMegabyte);
  EXPECT_EQ(headway::internal::take_cached_block(100 * kMegabyte).data, nullptr);
}

// One step of a small Transformer from given weights; the weights after it.
std::string training_step() {
  headway::set_random_seed(7);
  const headway::Transformer model(
      {.layer = {.d_model = 8, .nhead = 2, .dim_feedforward = 8}, .num_encoder_layers = 1, .num_decoder_layers = 1});
  headway::AdamW optimizer(model, {.learning_rate = 0.1});
  const Tensor source = Tensor::randn({2, 3, 8}, 1), target = Tensor::randn({2, 2, 8}, 2);
  const Tensor output = model.forward({.source = source, .target = target}).output;
  sum(mul(output, output)).backward();
  optimizer.step();
  std::string bytes;
  for (const auto& [name, parameter] : model.named_parameters()) bytes += bytes_of(parameter.detach());
  return bytes;
}

TEST(FailingMemory, ATrainingStep) {
  for (const int threads : {1, 4}) {
    const ThreadCount limit(threads);
    expect_survives_failing_memory(training_step, kSanitized ? 29 : threads == 1 ? 1 : 11);
  }
}

TEST(FailingMemory, ACheckpointIsWrittenOrTheOlderOneStays) {
  const TemporaryDirectory directory;
  const std::vector<headway::Checkpoint> both = {
      {.step = 1, .module = {{"weight", Tensor::randn({3, 4}, 1)}}, .state = "older"},
      {.step = 2, .module = {{"weight", Tensor::randn({3, 4}, 2)}}, .state = "newer"}};
  save_checkpoint(directory.path(), both[0]);
  const auto save_newer = [&] {
    save_checkpoint(directory.path(), both[1]);
    return std::string("written");
  };
  for (const Failing failing : {Failing::once, Failing::from_then_on}) {
    bool failed = true;
    for (std::int64_t number = 1; failed; ++number) {
      std::string written;
      ASSERT_NE(call_failing(save_newer, number, failing, written, failed), Ending::other) << number;
      const auto newest = headway::load_checkpoint(directory.path());
      ASSERT_TRUE(newest.has_value() && newest->unreadable.empty()) << number;
      ASSERT_TRUE(written.empty() || newest->step == 2) << number;
      const headway::Checkpoint& expected = both.at(static_cast<std::size_t>(newest->step) - 1);
      ASSERT_EQ(newest->state, expected.state) << number;
      ASSERT_EQ(bytes_of(newest->module.at("weight")), bytes_of(expected.module.at("weight"))) << number;
      ASSERT_EQ(directory.listing().size(), static_cast<std::size_t>(newest->step)) << number;  // nothing half written
      std::filesystem::remove(directory / "step-00000002.safetensors");
    }
  }
  expect_survives_failing_memory([&] {
    save_newer();
    return bytes_of(headway::load_checkpoint(directory.path())->module.at("weight"));
  });
}

}  // namespace
