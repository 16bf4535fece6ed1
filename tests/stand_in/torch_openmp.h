// What a test sets and sees of the library that stands in for PyTorch's, torch_openmp.cpp.
#pragma once

#include <atomic>

namespace headway_test {

// What the threads of a team do after a region.
enum class AfterRegion { end, sleep, spin };

struct TorchOpenMp {
  std::atomic<int> threads{3};                      // what torch.set_num_threads() would set
  std::atomic<int> missing{0};                      // how many threads of a team the system would not start
  std::atomic<int> regions{0};                      // how many parallel regions were run
  std::atomic<int> other_size{0};                   // how many of them asked for a team of another size than PyTorch's
  void (*set_after_region)(AfterRegion) = nullptr;  // threads that sleep or spin do so until it is set anew
  void (*parallel)(void (*function)(void*), void* data, unsigned threads, unsigned flags) = nullptr;
};

inline constexpr const char* kTorchOpenMpName = "headway_test_torch_openmp";  // a function that returns TorchOpenMp*

}  // namespace headway_test
