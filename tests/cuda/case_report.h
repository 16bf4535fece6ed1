// Runs cases on the GPU against the reference; names the failing ones and what they have in common. One test takes many
// cases, because their references are computed by all threads together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cuda/messages.h"
#include "support/cases.h"
#include "support/reference.h"

namespace headway_test {

// What the reference says about a case.
struct Expected {
  Case c;
  headway::AttentionBackward problem;
  ForwardValues exact, naive;
  ForwardSpread spread;
  GradientValues exact_gradients, naive_gradients;
  GradientSpread gradient_spread;
};
Expected expected_of(const Case& c);

class CaseReport {
 public:
  // Forward and backward of one case on the GPU.
  void check(const Expected& expected);
  // Prints how near to their bounds the results came, which cases failed and which options those share.
  void print() const;

 private:
  void compare_all(const Expected& expected);
  void expect(const Case& c, const std::string& what, const Comparison& comparison);

  struct Count {
    int failed = 0;
    int all = 0;
  };
  struct Nearest {
    double ratio = 0;
    std::string where = {};
  };
  Messages messages_;
  Count cases_;
  std::vector<std::string> failed_names_;
  std::map<std::string, Count> traits_;     // by trait: "dtype bfloat16", "head_dim 64"
  std::map<std::string, Nearest> nearest_;  // by dtype
};

// Checks all cases, or the one that HEADWAY_TEST_CASE names; references are computed by many threads.
// `deterministic` is the option of the calls.
void expect_cases_match(std::vector<Case> cases, bool deterministic = true);

}  // namespace headway_test
