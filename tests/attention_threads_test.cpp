// The same bits whatever the number of threads, and calls from several threads at once.
#include <gtest/gtest.h>

#include <thread>

#include "headway/threads.h"
#include "support/bits.h"
#include "support/each_case.h"
#include "support/thread_count.h"

namespace headway_test {
namespace {

Case base(DType dtype, std::int64_t queries, std::int64_t keys, std::int64_t heads, std::int64_t kv_heads) {
  Case c = sized(dtype, 1, heads, {queries, keys, 40, 40});
  c.kv_heads = kv_heads;
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
    add(extent == Extent::query_key   ? "bias query_key"
        : extent == Extent::batch_key ? "bias batch_key"
                                      : "bias head",
        c);
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

// Forward and backward on one thread, and the same bits on each of the other counts.
void expect_same_bits_on(const std::vector<int>& counts, int repeats, const AttentionBackward& p) {
  ThreadCount restore;
  headway::set_num_threads(1);
  const Named expected = run(p);
  for (int threads : counts) {
    SCOPED_TRACE(std::to_string(threads) + " threads");
    headway::set_num_threads(threads);
    for (int repeat = 0; repeat < repeats; ++repeat) expect_same_bits(run(p), expected);
  }
}

class ThreadedCases : public EachCase {};

TEST_P(ThreadedCases, CountDoesNotChangeOneBit) {
  expect_same_bits_on(reduced() ? std::vector<int>{3} : std::vector<int>{2, 3, 5, 8}, 2, build(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Large, ThreadedCases, testing::ValuesIn(threaded_cases()), name_of_case);

class ThreadedPairs : public EachCase {};

TEST_P(ThreadedPairs, CountDoesNotChangeOneBit) { expect_same_bits_on({4}, 1, build(GetParam())); }

// Every pair of options, thinned out under sanitizers and emulation.
std::vector<Case> thinned_pairs() {
  std::vector<Case> cases = pair_cases();
  if (reduced()) std::erase_if(cases, [](const Case& c) { return c.seed % 12 != 0; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(List, ThreadedPairs, testing::ValuesIn(thinned_pairs()), name_of_case);

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
