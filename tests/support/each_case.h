// Tests of every case of a list. Each is a test of its own with the case's name: --gtest_filter=*/pair_12 runs one.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <ostream>
#include <string>

#include "support/cases.h"

namespace headway_test {

// What a failure prints as the test's parameter.
inline void PrintTo(const Case& c, std::ostream* out) { *out << describe(c); }

// A suite whose tests take one case each: class Suite : public EachCase {}; TEST_P(Suite, Name) {...}
class EachCase : public testing::TestWithParam<Case> {};

// The case's name, with an underscore for what a test's name may not hold.
inline std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

}  // namespace headway_test
