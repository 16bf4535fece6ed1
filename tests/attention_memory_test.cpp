// Memory stays linear in the lengths: 65,536 x 65,536 scores are never held.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include "headway/attention.h"

namespace headway_test {
namespace {

using headway::AttentionBackward;
using headway::AttentionOptions;
using headway::Causal;
using headway::DType;
using headway::Tensor;

constexpr std::int64_t kLength = 65'536;
constexpr std::int64_t kHeadSize = 64;
constexpr double kMegabyte = 1024.0 * 1024.0;
constexpr double kLimit = 64;  // in MB, beyond inputs and results

// A field of /proc/self/status such as "VmHWM" in MB, or -1 where the system has none.
double status_megabytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kilobytes = 0;
    if (word == field + ":" && status >> kilobytes) return kilobytes / 1024;
  }
  return -1;
}

// Sets the peak back to what is resident now. False where the system does not allow it.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

double megabytes(const Tensor& tensor) {
  return static_cast<double>(tensor.element_count()) * static_cast<double>(item_size(tensor.dtype())) / kMegabyte;
}

// How far the peak rises above what is resident, while `call` runs, beyond the results that it returns.
template <typename Call>
void expect_little_memory(const char* name, double results, Call call) {
  if (status_megabytes("VmHWM") < 0) GTEST_SKIP() << "this system does not say how much memory is in use";
  // Where the peak cannot be reset it only covers more: it must then not rise by more than the limit either.
  reset_peak();
  const double before = status_megabytes("VmRSS");
  call();
  const double extra = status_megabytes("VmHWM") - before - results;
  std::cout << name << ": " << extra << " MB beyond inputs and results of " << results << " MB\n";
  EXPECT_LT(extra, kLimit) << name;
}

AttentionBackward long_problem(const AttentionOptions& options) {
  AttentionBackward p;
  p.query = Tensor::randn({1, 1, kLength, kHeadSize}, 1);
  p.key = Tensor::randn({1, 1, kLength, kHeadSize}, 2);
  p.value = Tensor::randn({1, 1, kLength, kHeadSize}, 3);
  p.d_output = Tensor::randn({1, 1, kLength, kHeadSize}, 4);
  p.options = options;
  return p;
}

void expect_forward(const char* name, const AttentionBackward& p) {
  expect_little_memory(name, megabytes(p.query) + static_cast<double>(kLength) * sizeof(float) / kMegabyte, [&] {
    const headway::AttentionResult result = headway::attention(p.query, p.key, p.value, p.options);
    EXPECT_EQ(result.output.size(2), p.query.size(2));
  });
}

TEST(Memory, WindowedForward) {
  expect_forward("windowed forward", long_problem({.causal = Causal::top_left, .window = {.left = 256}}));
}

TEST(Memory, WindowedBackward) {
  AttentionBackward p = long_problem({.causal = Causal::top_left, .window = {.left = 256}});
  p.forward = headway::attention(p.query, p.key, p.value, p.options);
  expect_little_memory("windowed backward", 3 * megabytes(p.query), [&] {
    const headway::AttentionGradients gradients = headway::attention_backward(p);
    EXPECT_EQ(gradients.query.size(2), kLength);
  });
}

// Few queries over all keys, and the other way round: every tile of one side is visited.
TEST(Memory, FewQueriesOrKeys) {
  AttentionBackward p = long_problem({});
  const Tensor query = p.query, key = p.key, value = p.value;
  p.query = query.slice(2, 0, 1024);
  expect_forward("1,024 queries", p);
  p.query = query;
  p.key = key.slice(2, 0, 1024);
  p.value = value.slice(2, 0, 1024);
  expect_forward("1,024 keys", p);
}

TEST(Memory, WholeForward) {
  const char* slow = std::getenv("HEADWAY_TEST_SLOW");
  if (slow == nullptr || std::string(slow) != "1") GTEST_SKIP() << "takes half a minute; HEADWAY_TEST_SLOW=1 runs it";
  expect_forward("whole forward", long_problem({}));
}

TEST(Memory, WholeBackward) {
  const char* slow = std::getenv("HEADWAY_TEST_SLOW");
  if (slow == nullptr || std::string(slow) != "1") GTEST_SKIP() << "takes minutes; HEADWAY_TEST_SLOW=1 runs it";
  AttentionBackward p = long_problem({.causal = Causal::top_left});
  p.forward = headway::attention(p.query, p.key, p.value, p.options);
  expect_little_memory("whole backward", 3 * megabytes(p.query), [&] { headway::attention_backward(p); });
}

}  // namespace
}  // namespace headway_test
