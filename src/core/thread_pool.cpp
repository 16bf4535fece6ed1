#include "core/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/openmp_threads.h"
#include "core/parallel_job.h"
#include "core/placement.h"
#include "core/spin.h"
#include "headway/threads.h"

namespace headway::inline v0::internal {
namespace {

constexpr int kMaxThreads = 1024;

// How long a waiting thread spins before it sleeps: a few times the cost of waking it. Where threads outnumber
// processors, spinning takes processor time from the thread that is waited for.
constexpr std::chrono::microseconds kSpinTime{50};
constexpr std::chrono::microseconds kSpinTimeCrowded{2};

// The processors that this process may run on.
int processor_count() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(CPU_COUNT(&set), 1);
  }
#endif
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

// Spins until ready() or until the time is over; returns which of the two.
template <typename Ready>
bool spin_until(const Ready& ready, std::chrono::microseconds time) {
  constexpr int kPausesPerLook = 32;  // the clock costs about as much as a pause
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (ready()) {
        return true;
      }
      spin_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// Waiting for a condition: first spinning, then asleep.
class Waiting {
 public:
  // Returns when ready() holds; the thread that changes it calls notify() afterwards. ready() reads a seq_cst atomic.
  template <typename Ready>
  void wait(const Ready& ready, std::chrono::microseconds spin_time) {
    if (spin_until(ready, spin_time)) {
      return;
    }
    std::unique_lock lock(mutex_);
    asleep_.store(true);
    // Either this check sees the change, or notify(), which reads asleep_ after the change, sees true.
    wake_.wait(lock, ready);
    asleep_.store(false);
  }

  void notify() {
    if (asleep_.load()) {
      std::lock_guard lock(mutex_);
      wake_.notify_one();
    }
  }

 private:
  std::atomic<bool> asleep_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

// A thread of the pool and the slot through which it gets jobs.
struct alignas(64) Worker {
  enum class State { idle, offered, running };

  std::atomic<State> state{State::idle};
  ParallelJob* job = nullptr;  // written before the state becomes `offered`
  Waiting offer;
  Placement placement;
};

// Threads that are made when first needed and never end: they sleep when there is nothing to do, in memory that is
// never freed, so that the end of the process needs no order of destruction.
class ThreadPool {
 public:
  // Runs the job on up to `count` threads, the caller's included; false where another caller holds the pool.
  bool run(ParallelJob& job, int count) {
    std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock.owns_lock()) {
      return false;
    }
    add_workers(count - 1);
    spin_time_.store(count > processors_ ? kSpinTimeCrowded : kSpinTime, std::memory_order_relaxed);
    const auto used = workers_.begin() + std::min<std::ptrdiff_t>(count - 1, std::ssize(workers_));
    BusyProcessors busy;
    for (auto worker = workers_.begin(); worker != used; ++worker) {
      (*worker)->job = &job;
      (*worker)->placement.steer(busy);
      (*worker)->state.store(Worker::State::offered);
      (*worker)->offer.notify();
    }
    job.run(0);
    for (auto worker = workers_.begin(); worker != used; ++worker) {
      finish(**worker);
    }
    return true;
  }

 private:
  // Where the system has no more threads, or no memory for one, fewer do the same work.
  void add_workers(int wanted) noexcept {
    if (std::ssize(workers_) >= wanted) {
      return;
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    // The application's signals belong to the application's threads.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      while (std::ssize(workers_) < wanted) {
        auto worker = std::make_unique<Worker>();
        const int number = static_cast<int>(workers_.size()) + 1;
        workers_.reserve(workers_.size() + 1);
        std::thread(&ThreadPool::work, this, worker.get(), number).detach();
        workers_.push_back(std::move(worker));
      }
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  // Takes the job back from a worker that has not begun, else waits for its end.
  void finish(Worker& worker) {
    auto offered = Worker::State::offered;
    if (worker.state.compare_exchange_strong(offered, Worker::State::idle)) {
      return;
    }
    done_.wait([&] { return worker.state.load() == Worker::State::idle; }, spin_time());
  }

  std::chrono::microseconds spin_time() const { return spin_time_.load(std::memory_order_relaxed); }

  void work(Worker* worker, int number) {
    while (true) {
      worker->offer.wait([&] { return worker->state.load() == Worker::State::offered; }, spin_time());
      auto offered = Worker::State::offered;
      if (worker->state.compare_exchange_strong(offered, Worker::State::running)) {
        worker->placement.begin();
        worker->job->run(number);
        worker->placement.end();
        worker->state.store(Worker::State::idle);
        done_.notify();
      }
    }
  }

  std::mutex busy_;                               // held by the caller whose job runs
  std::vector<std::unique_ptr<Worker>> workers_;  // changed only under busy_
  Waiting done_;
  const int processors_ = processor_count();
  std::atomic<std::chrono::microseconds> spin_time_{kSpinTime};
};

std::atomic<ThreadPool*> current_pool{nullptr};

constexpr int kNotRead = -1;
std::atomic<int> chosen_threads{kNotRead};  // what was set, else what the environment says; 0: neither

// A child process has none of the threads, and its copies of their locks may be locked forever.
void forget_pool_in_child() { current_pool.store(nullptr); }

// At load time, so that no fork can happen before or during it.
[[maybe_unused]] const int fork_handler_registered = pthread_atfork(nullptr, nullptr, forget_pool_in_child);

ThreadPool& pool() {
  ThreadPool* found = current_pool.load();
  if (found == nullptr) {
    auto made = std::make_unique<ThreadPool>();
    if (current_pool.compare_exchange_strong(found, made.get())) {
      found = made.release();
    }
  }
  return *found;
}

// HEADWAY_NUM_THREADS, or 0 where it is not set.
int environment_thread_count() {
  const char* text = std::getenv("HEADWAY_NUM_THREADS");
  if (text == nullptr) return 0;
  const std::string_view view(text);
  long long count = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), count);
  check(error == std::errc() && end == view.data() + view.size() && count >= 1, "HEADWAY_NUM_THREADS is \"", view,
        "\", expected a number of threads, at least 1");
  return static_cast<int>(std::min<long long>(count, kMaxThreads));
}

int default_thread_count() {
  if (const OpenMpThreads* openmp = openmp_threads()) return std::clamp(openmp->count(), 1, kMaxThreads);
  static const int processors = std::min(processor_count(), kMaxThreads);
  return processors;
}

// Runs the job on up to `workers` threads; false where the calling thread has to run it alone.
bool run_on_threads(ParallelJob& job, int workers, int limit) {
  if (const OpenMpThreads* openmp = openmp_threads()) {
    if (openmp->inside_region()) return false;
    if (openmp->run(job, workers, limit)) return true;
  }
  return pool().run(job, workers);
}

}  // namespace

void parallel_for(std::int64_t task_count, FunctionRef<void(std::int64_t task, int worker)> body) {
  if (task_count > 1 && !inside_parallel_for) {
    const int limit = worker_limit();
    const auto workers = static_cast<int>(std::min<std::int64_t>(limit, task_count));
    ParallelJob job{.body = body, .task_count = task_count};
    if (workers > 1 && run_on_threads(job, workers, limit)) {
      if (job.exception) {
        std::rethrow_exception(job.exception);
      }
      return;
    }
  }
  const InsideParallelFor inside;
  for (std::int64_t task = 0; task < task_count; ++task) {
    body(task, 0);
  }
}

int worker_limit() { return num_threads(); }

}  // namespace headway::inline v0::internal

namespace headway::inline v0 {

void set_num_threads(int count) {
  internal::check(count >= 1, "set_num_threads: count is ", count, ", expected at least 1");
  internal::chosen_threads.store(std::min(count, internal::kMaxThreads));
}

int num_threads() {
  int count = internal::chosen_threads.load();
  if (count == internal::kNotRead) {
    const int read = internal::environment_thread_count();
    // Another thread may have set a number meanwhile; that one then stands.
    count = internal::chosen_threads.compare_exchange_strong(count, read) ? read : count;
  }
  return count > 0 ? count : internal::default_thread_count();
}

}  // namespace headway::inline v0
