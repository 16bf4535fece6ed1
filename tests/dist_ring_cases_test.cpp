// Attention over ranks, over the whole list of cases: ring and Ulysses, forward and gradients, as near to the reference
// as one rank.
#include <gtest/gtest.h>

#include "support/reference_suite.h"
#include "support/sequence_ranks.h"

namespace headway_test {
namespace {

class SequenceRanks : public ReferenceSuite {};

TEST_P(SequenceRanks, MatchTheReference) {
  const AttentionBackward p = build(GetParam());
  run_case(GetParam(), p, headway::Device::cpu(), [&](const std::string& how, const WholeResult& whole) {
    compare_all(GetParam(), p, whole,
                [&](const std::string& what, const Comparison& found) { expect(how + what, found); });
  });
}

TEST(SequenceRanksDevice, MatchTheReference) { expect_cases_on_device(3); }

INSTANTIATE_TEST_SUITE_P(List, SequenceRanks, testing::ValuesIn(all_cases()), name_of_case);

}  // namespace
}  // namespace headway_test
