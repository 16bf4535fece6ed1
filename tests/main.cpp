// Runs the tests, or none where the environment's HEADWAY_ISA names an instruction set that this machine lacks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "headway/info.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  testing::InitGoogleTest(&argc, argv);
  if (const char* wanted = std::getenv("HEADWAY_ISA"); wanted != nullptr && *wanted != 0) {
    const std::vector<std::string> present = headway::instruction_sets();
    if (std::find(present.begin(), present.end(), wanted) == present.end()) {
      std::cout << "skipped: this machine does not run " << wanted << "\n";
      return kSkipped;
    }
  }
  return RUN_ALL_TESTS();
}
