// Remembers how near to its bound each kind of result came.
#pragma once

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>

#include "support/cases.h"
#include "support/reference.h"

namespace headway_test {

class Worst {
 public:
  // Fails the test where the error is past the bound, and keeps the largest ratio of each dtype.
  void expect(const Case& c, const std::string& what, const Comparison& comparison) {
    EXPECT_LE(comparison.error, comparison.bound) << what << ": " << comparison.worst;
    const std::string name = std::string(headway::dtype_name(c.dtype)) + " " + what;
    Entry& entry = entries_[name];
    if (comparison.ratio() >= entry.ratio) entry = {comparison.ratio(), c.name};
  }
  void print() const {
    for (const auto& [name, entry] : entries_) {
      std::cout << "worst error / bound: " << name << " " << entry.ratio << " (" << entry.where << ")\n";
    }
  }

 private:
  struct Entry {
    double ratio = 0;
    std::string where = {};
  };
  std::map<std::string, Entry> entries_;
};

}  // namespace headway_test
