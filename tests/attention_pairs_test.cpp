// Counts that every pair of rows of the option table occurs together in the list of cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <set>

#include "support/cases.h"
#include "support/reference.h"

namespace headway_test {
namespace {

// The share of the keys that have a weight, over all queries.
double visible_share(const Case& c) {
  headway::AttentionBackward problem = build(c);
  problem.options.weights = Weights::per_head;
  problem.options.weights_of = WeightsOf::softmax;
  const std::vector<double> weights = reference_forward(problem).weights;
  const auto visible = weights.size() - static_cast<size_t>(std::count(weights.begin(), weights.end(), 0.0));
  return weights.empty() ? 0 : static_cast<double>(visible) / static_cast<double>(weights.size());
}

TEST(Cases, EveryPairOfOptionsOccurs) {
  std::set<std::array<int, 4>> seen;
  int hidden = 0;
  for (const Case& c : pair_cases()) {
    // A case where next to nothing is visible shows nothing about the options that come together in it.
    if (visible_share(c) < 0.03) {
      ++hidden;
      continue;
    }
    const std::vector<int> levels = levels_of(c);
    for (int a = 0; a < static_cast<int>(levels.size()); ++a) {
      for (int b = a + 1; b < static_cast<int>(levels.size()); ++b) seen.insert({a, levels[a], b, levels[b]});
    }
  }
  const std::vector<OptionRow>& rows = option_rows();
  int possible = 0;
  for (int a = 0; a < static_cast<int>(rows.size()); ++a) {
    for (int b = a + 1; b < static_cast<int>(rows.size()); ++b) {
      for (int level_a = 0; level_a < static_cast<int>(rows[a].levels.size()); ++level_a) {
        for (int level_b = 0; level_b < static_cast<int>(rows[b].levels.size()); ++level_b) {
          if (!pair_possible(a, level_a, b, level_b)) continue;
          ++possible;
          EXPECT_TRUE(seen.contains({a, level_a, b, level_b}))
              << rows[a].name << " = " << rows[a].levels[level_a] << " never meets " << rows[b].name << " = "
              << rows[b].levels[level_b];
        }
      }
    }
  }
  std::cout << possible << " pairs of options in " << pair_cases().size() << " cases, " << hidden
            << " of which show too little to count\n";
}

TEST(Cases, TheListIsFixedAndNamesAreUnique) {
  const std::vector<Case> first = all_cases(), second = all_cases();
  ASSERT_EQ(first.size(), second.size());
  std::set<std::string> names;
  for (size_t n = 0; n < first.size(); ++n) {
    EXPECT_EQ(describe(first[n]), describe(second[n]));
    EXPECT_TRUE(names.insert(first[n].name).second) << first[n].name << " occurs twice";
  }
  const bool whole = !reduced() && std::getenv("HEADWAY_TEST_CASE") == nullptr;
  EXPECT_GE(first.size(), whole ? 300u : 1u);
  std::cout << first.size() << " cases\n";
}

// An option that never takes effect would be tested by name only.
TEST(Cases, OptionsTakeEffect) {
  int empty_sequences = 0, bias_infinities = 0, without_d_output = 0;
  for (const Case& c : pair_cases()) {
    const headway::AttentionBackward problem = build(c);
    EXPECT_EQ(problem.options.cu_key_lengths.defined(), c.packed);
    EXPECT_EQ(problem.options.bias.defined(), c.bias);
    bias_infinities += c.bias && c.bias_infinities;
    without_d_output += !c.d_output;
    if (c.packed) {
      const std::vector<double> lengths = problem.options.cu_key_lengths.tensor().to_vector();
      for (size_t s = 1; s < lengths.size(); ++s) empty_sequences += lengths[s] == lengths[s - 1];
    }
  }
  EXPECT_GT(empty_sequences, 3);
  EXPECT_GT(bias_infinities, 10);
  EXPECT_GT(without_d_output, 3);
}

}  // namespace
}  // namespace headway_test
