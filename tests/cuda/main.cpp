// Runs the tests on the first GPU, or none where there is none.
#include <gtest/gtest.h>

#include <iostream>

#include "headway/device.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  testing::InitGoogleTest(&argc, argv);
  if (headway::cuda_device_count() == 0) {
    std::cout << "no CUDA device: " << headway::describe_cuda() << "\n";
    return kSkipped;
  }
  std::cout << headway::describe_cuda() << "\n";
  return RUN_ALL_TESTS();
}
