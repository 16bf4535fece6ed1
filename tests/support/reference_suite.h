// Tests of every case against the reference, which say at the end how near to its bound each kind of result came.
#pragma once

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>

#include "support/each_case.h"
#include "support/reference.h"

namespace headway_test {

class ReferenceSuite : public EachCase {
 protected:
  static void SetUpTestSuite() { std::cout << "random seed " << random_seed() << "\n"; }
  static void TearDownTestSuite() {
    for (const auto& [name, worst] : worst_) {
      std::cout << "worst error / bound: " << name << " " << worst.ratio << " (" << worst.where << ")\n";
    }
  }

  // Fails the test where the error is past the bound, and keeps the largest ratio of each dtype.
  void expect(const std::string& what, const Comparison& comparison) {
    EXPECT_LE(comparison.error, comparison.bound) << what << ": " << comparison.worst;
    Worst& worst = worst_[std::string(headway::dtype_name(GetParam().dtype)) + " " + what];
    if (comparison.ratio() >= worst.ratio) worst = {comparison.ratio(), GetParam().name};
  }

 private:
  struct Worst {
    double ratio = 0;
    std::string where = {};
  };
  static inline std::map<std::string, Worst> worst_;  // by dtype and result
};

}  // namespace headway_test
