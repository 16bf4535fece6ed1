// The same bits whatever the number of threads, and calls from several threads at once.
#include <gtest/gtest.h>

#include <thread>

#include "headway/threads.h"
#include "support/bits.h"
#include "support/cases.h"

namespace headway_test {
namespace {

using headway::AttentionBackward;

// Sets the number of threads back when a test ends.
class ThreadCount {
 public:
  ThreadCount() : before_(headway::num_threads()) {}
  ~ThreadCount() { headway::set_num_threads(before_); }

 private:
  int before_;
};

Case base(DType dtype, std::int64_t queries, std::int64_t keys, std::int64_t heads, std::int64_t kv_heads) {
  Case c;
  c.dtype = dtype;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.query_length = queries;
  c.key_length = keys;
  c.head_dim = c.value_dim = 40;
  return c;
}

// Problems with more work than one thread takes at a time, each of another kind.
std::vector<Case> threaded_cases() {
  const std::int64_t length = reduced() ? 100 : 500;
  std::vector<Case> cases;
  auto add = [&](const char* name, Case c) {
    c.name = name;
    cases.push_back(c);
  };
  add("plain", base(DType::float32, length, length, 1, 1));
  Case c = base(DType::bfloat16, length, length + 9, 6, 2);
  c.causal = Causal::bottom_right;
  add("grouped causal", c);
  c = base(DType::float32, 1, 9 * length, 8, 2);
  c.d_logsumexp = true;
  add("decode", c);
  c.dtype = DType::bfloat16;
  c.query_length = 2;
  c.causal = Causal::bottom_right;
  add("decode two", c);
  c = base(DType::float32, length / 2, length / 2, 3, 3);
  c.dropout = 0.4;
  c.sinks = true;
  add("dropout and sinks", c);
  c = base(DType::float32, length / 2, length / 2, 5, 5);
  c.batch = 2;
  c.weights = Weights::mean;
  c.d_weights = true;
  add("mean weights", c);
  c = base(DType::float64, length / 2, length / 3, 4, 2);
  c.batch = 2;
  c.weights = Weights::per_head;
  c.weights_of = WeightsOf::masked;
  c.d_weights = true;
  add("weights", c);
  for (Extent extent : {Extent::query_key, Extent::batch_key, Extent::head_query}) {
    c = base(DType::float32, length / 2, length / 2, 4, 1);
    c.batch = 2;
    c.bias = true;
    c.bias_extent = extent;
    add("bias", c);
  }
  c = base(DType::float16, length / 4, length / 3, 4, 2);
  c.batch = 7;
  c.packed = true;
  c.causal = Causal::top_left;
  add("packed", c);
  c = base(DType::float32, length, length, 2, 2);
  c.window = {60, 10};
  c.key_lengths = PerEntryKind::each;
  c.batch = 2;
  add("window", c);
  return cases;
}

TEST(Threads, CountDoesNotChangeOneBit) {
  ThreadCount restore;
  for (const Case& c : threaded_cases()) {
    SCOPED_TRACE(describe(c));
    const AttentionBackward p = build(c);
    headway::set_num_threads(1);
    const Named expected = run(p);
    for (int threads : reduced() ? std::vector<int>{3} : std::vector<int>{2, 3, 5, 8}) {
      SCOPED_TRACE(std::to_string(threads) + " threads");
      headway::set_num_threads(threads);
      for (int repeat = 0; repeat < 2; ++repeat) expect_same_bits(run(p), expected);
    }
  }
}

TEST(Threads, CountDoesNotChangeOneBitOfAnyCase) {
  ThreadCount restore;
  for (const Case& c : pair_cases()) {
    if (reduced() && c.seed % 12 != 0) continue;
    SCOPED_TRACE(describe(c));
    const AttentionBackward p = build(c);
    headway::set_num_threads(1);
    const Named expected = run(p);
    headway::set_num_threads(4);
    expect_same_bits(run(p), expected);
  }
}

TEST(Threads, SeveralCallersAtOnce) {
  ThreadCount restore;
  headway::set_num_threads(3);
  std::vector<AttentionBackward> problems;
  std::vector<Named> expected;
  for (const Case& c : random_cases(reduced() ? 8 : 24, 99)) {
    problems.push_back(build(c));
    expected.push_back(run(problems.back()));
  }
  constexpr size_t kCallers = 4;
  std::vector<std::vector<Named>> results(kCallers, std::vector<Named>(problems.size()));
  std::vector<std::thread> callers;
  for (size_t caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      // Each starts at another problem, so that different calls meet.
      for (size_t n = 0; n < problems.size(); ++n) {
        const size_t index = (n + caller * 5) % problems.size();
        results[caller][index] = run(problems[index]);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::vector<Named>& result : results) {
    for (size_t n = 0; n < problems.size(); ++n) expect_same_bits(result[n], expected[n]);
  }
}

}  // namespace
}  // namespace headway_test
