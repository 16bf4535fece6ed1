// Attention over ranks that share one GPU, over the list of cases.
#include "support/sequence_ranks.h"

namespace headway_test {
namespace {

TEST(CudaAttentionRanks, MatchTheReference) { expect_cases_on_device(1); }

// Keys and values that the tuned kernels take.
TEST(CudaAttentionRanks, MatchTheReferenceInLongSequences) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  for (const DType dtype : {DType::bfloat16, DType::float16, DType::float32}) {
    Case c = sized(dtype, 1, 4, {.queries = 700, .keys = 700, .head_dim = 64, .value_dim = 64});
    c.kv_heads = 2;
    c.causal = Causal::top_left;
    c.sinks = true;
    for (const double dropout : {0.0, 0.2}) {
      c.dropout = dropout;
      const AttentionBackward p = build(c);
      run_case(c, p, headway::Device::cuda(), [&](const std::string& how, const WholeResult& whole) {
        compare_all(c, p, whole, [&](const std::string& what, const Comparison& found) {
          EXPECT_LE(found.error, 2 * found.bound) << describe(c) << ": " << how << what << ": " << found.worst;
        });
      });
    }
  }
}

}  // namespace
}  // namespace headway_test
