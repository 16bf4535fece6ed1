// Stands in for libtorch_cpu and its OpenMP runtime: the functions that Headway looks up, on new threads for each
// region.
#include "stand_in/torch_openmp.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace {

using headway_test::AfterRegion;

headway_test::TorchOpenMp state;
std::atomic<AfterRegion> after_region{AfterRegion::end};
thread_local bool inside = false;

// Spins on other processors than the caller's, which would not see this thread run.
void spin_elsewhere(int processor) {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  CPU_CLR(static_cast<std::size_t>(processor), &allowed);
  sched_setaffinity(0, sizeof(allowed), &allowed);
  while (after_region == AfterRegion::spin) {
  }
}

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
  const AfterRegion after = after_region;
  const int processor = sched_getcpu();
  const auto member = [=] {
    inside = others > 0;
    function(data);
    inside = false;
  };
  const auto done = std::make_shared<std::latch>(others);
  std::vector<pid_t> numbers(static_cast<std::size_t>(others));
  std::vector<std::thread> team;
  for (pid_t& number : numbers) {
    team.emplace_back([=, &number] {
      number = gettid();
      member();
      done->count_down();
      if (after == AfterRegion::sleep) after_region.wait(after);
      if (after == AfterRegion::spin) spin_elsewhere(processor);
    });
  }
  member();
  done->wait();
  for (std::size_t i = 0; i < team.size(); ++i) {
    if (after != AfterRegion::end) {
      team[i].detach();
      continue;
    }
    team[i].join();
    while (tgkill(getpid(), numbers[i], 0) == 0) std::this_thread::yield();  // the system may know it a little longer
  }
}

headway_test::TorchOpenMp* headway_test_torch_openmp() {
  state.parallel = GOMP_parallel;
  state.set_after_region = [](AfterRegion after) {
    after_region = after;
    after_region.notify_all();
  };
  return &state;
}

}  // extern "C"
