#include "core/openmp_threads.h"

#ifdef __linux__
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/check.h"
#endif

namespace headway::inline v0::internal {

#ifdef __linux__

namespace {

enum class ThreadChoice { automatic, own, openmp };

// What HEADWAY_THREADS says. Read once.
ThreadChoice thread_choice() {
  static const ThreadChoice chosen = [] {
    const char* text = std::getenv("HEADWAY_THREADS");
    if (text == nullptr) return ThreadChoice::automatic;
    const std::string_view view(text);
    if (view == "own") return ThreadChoice::own;
    check(view == "openmp", "HEADWAY_THREADS is \"", view, "\", expected \"own\" or \"openmp\"");
    return ThreadChoice::openmp;
  }();
  return chosen;
}

std::atomic<bool> forked{false};

// At load time, so that no fork can happen before it.
[[maybe_unused]] const int child_handler_registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });

// How many libraries were ever loaded into the process.
unsigned long long loaded_libraries() {
  unsigned long long count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        *static_cast<unsigned long long*>(data) = info->dlpi_adds;
        return 1;  // every entry has the same number
      },
      &count);
  return count;
}

template <typename Function>
bool find_function(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

bool find_runtime(void* library, OpenMpThreads& found) {
  return find_function(library, "GOMP_parallel", found.parallel) &&
         find_function(library, "omp_in_parallel", found.in_parallel) &&
         find_function(library, "omp_get_max_threads", found.count);
}

// Looks at what is loaded now; null where there is nothing to work with.
std::unique_ptr<const OpenMpThreads> search_openmp() {
  // Waits until a load of PyTorch in another thread has ended, and keeps PyTorch in the process from then on.
  void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (torch == nullptr && thread_choice() != ThreadChoice::openmp) return nullptr;
  // Several runtimes may be loaded, under any name. PyTorch calls the one that the program and its global libraries
  // bring, else the one that it was linked with.
  OpenMpThreads found;
  void* program = dlopen(nullptr, RTLD_LAZY);
  if (!find_runtime(program, found) && (torch == nullptr || !find_runtime(torch, found))) found = {};
  dlclose(program);
  if (thread_choice() == ThreadChoice::own) found.parallel = nullptr;
  found.always = thread_choice() == ThreadChoice::openmp;
  // torch.set_num_threads() holds for every thread of the process, the runtime's number for the one that set it:
  // at::get_num_threads() brings the runtime's number up to date.
  int (*torch_count)() = nullptr;
  if (torch != nullptr && find_function(torch, "_ZN2at15get_num_threadsEv", torch_count)) found.count = torch_count;
  if (found.count == nullptr) return nullptr;
  return std::make_unique<const OpenMpThreads>(found);
}

// What a calling thread knows of its team: the processor time of one of the others, as the last region saw it.
struct OpenMpTeam {
  bool known = false;
  clockid_t clock = 0;

  // Whether that thread computes or spins at this moment. Where nothing is known, or the runtime has ended the thread,
  // a region tells more, so the answer is true.
  bool is_awake() const {
    timespec first;
    timespec second;
    if (!known || clock_gettime(clock, &first) != 0 || clock_gettime(clock, &second) != 0) return true;
    return first.tv_nsec != second.tv_nsec;
  }
};
constinit thread_local OpenMpTeam openmp_team;

// A parallel region that runs a job. Its threads are numbered as they come, so that the first ones get the work.
struct OpenMpRegion {
  ParallelJob& job;
  const int workers;
  OpenMpTeam& team = openmp_team;  // the caller's
  const pthread_t caller = pthread_self();
  std::atomic<int> arrived{1};  // the caller is worker 0

  static void run(void* data) {
    OpenMpRegion& region = *static_cast<OpenMpRegion*>(data);
    if (pthread_equal(pthread_self(), region.caller) != 0) return region.job.run(0);
    const int worker = region.arrived.fetch_add(1, std::memory_order_relaxed);
    if (worker == 1) region.team.known = pthread_getcpuclockid(pthread_self(), &region.team.clock) == 0;
    if (worker < region.workers) region.job.run(worker);
  }
};

}  // namespace

bool OpenMpThreads::run(ParallelJob& job, int workers, int limit) const {
  if (parallel == nullptr || limit > count() || forked.load(std::memory_order_relaxed)) return false;
  if (!always && !openmp_team.is_awake()) return false;
  OpenMpRegion region{.job = job, .workers = workers};
  // Always a team of PyTorch's size, named by 0: to change it costs the runtime, and PyTorch's next call, new threads.
  parallel(OpenMpRegion::run, &region, 0, 0);
  return true;
}

const OpenMpThreads* openmp_threads() {
  static constinit std::atomic<const OpenMpThreads*> known{nullptr};
  static constinit std::atomic<unsigned long long> searched{0};  // loaded_libraries() at the last search
  const OpenMpThreads* found = known.load(std::memory_order_acquire);
  // In a child after fork() the loader's locks may be locked forever.
  if (found != nullptr || forked.load(std::memory_order_relaxed)) return found;
  const unsigned long long loaded = loaded_libraries();
  if (searched.load(std::memory_order_relaxed) == loaded) return nullptr;
  auto made = search_openmp();
  searched.store(loaded, std::memory_order_relaxed);
  if (made != nullptr && known.compare_exchange_strong(found, made.get())) found = made.release();
  return found;
}

#else

bool OpenMpThreads::run(ParallelJob&, int, int) const { return false; }

const OpenMpThreads* openmp_threads() { return nullptr; }

#endif

}  // namespace headway::inline v0::internal
