// Stands in for libtorch_cpu and its OpenMP runtime: the functions that Headway looks up, on threads that end with the
// region.
#include "stand_in/torch_openmp.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace {

headway_test::TorchOpenMp state;
thread_local bool inside = false;

}  // namespace

namespace at {

int get_num_threads() { return state.threads; }

}  // namespace at

extern "C" {

int omp_get_max_threads() { return state.threads; }

int omp_in_parallel() { return inside ? 1 : 0; }

void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned) {
  ++state.regions;
  if (threads != 0 && static_cast<int>(threads) != state.threads) ++state.other_size;
  const int size = threads != 0 ? static_cast<int>(threads) : state.threads.load();
  const int others = std::max(size - 1 - state.missing, 0);
  const auto member = [&] {
    inside = others > 0;
    function(data);
    inside = false;
  };
  std::vector<std::thread> team;
  for (int i = 0; i < others; ++i) team.emplace_back(member);
  member();
  for (std::thread& thread : team) thread.join();
}

headway_test::TorchOpenMp* headway_test_torch_openmp() {
  state.parallel = GOMP_parallel;
  return &state;
}

}  // extern "C"
