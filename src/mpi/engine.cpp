#include "mpi/engine.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/check.h"

namespace headway::inline v0::internal::mpi {
namespace {

// Who catches an exception calls fail() with its words, or ends the process.
constexpr std::chrono::seconds kTimeToSayWhy{1};

}  // namespace

Engine* Engine::of_process_ = nullptr;

Engine& Engine::open(const MpiHost& host) {
  static Engine* const engine = of_process_ = new Engine(host);
  const std::lock_guard lock(engine->mutex_);
  check(engine->problem_.empty(), engine->problem_);
  if (engine->started_) return *engine;
  try {
    engine->start();
  } catch (const Error& error) {
    engine->problem_ = error.what();
    throw;
  }
  engine->started_ = true;
  return *engine;
}

Engine::Engine(const MpiHost& host) : host_(host), process_(getpid()) {}

void Engine::start() {
  initialise();
  version_ = library_version();
  moves_cuda_ = moves_cuda_memory();
  control_.open();
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int* most = nullptr;
  int known = 0;
  check_mpi(MPI_Comm_get_attr(communicator_, MPI_TAG_UB, &most, &known), "MPI_Comm_get_attr");
  most_tag_ = known != 0 ? *most : 32767;
  see_to_the_end();
  compare_builds();
  if (size() > 1 && has_progress_) start_progress();
}

// Other parts of the program may call MPI too, from a thread of their own: the mutex orders the engine's calls alone.
void Engine::initialise() {
  int is_initialised = 0, is_finalised = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&is_initialised);
  MPI_Finalized(&is_finalised);
  check(is_finalised == 0, "MPI: the program has finalised it");
  if (is_initialised != 0) {
    check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  } else {
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    initialised_here_ = true;
  }
  has_progress_ = level == MPI_THREAD_MULTIPLE || (initialised_here_ && level == MPI_THREAD_SERIALIZED);
}

// Ranks of different builds would not understand each other's messages.
void Engine::compare_builds() const {
  constexpr std::size_t kLength = 64;
  char own[kLength] = {};
  std::strncpy(own, host_.build, kLength - 1);
  std::vector<char> all(kLength * static_cast<std::size_t>(size()));
  check_mpi(MPI_Allgather(own, kLength, MPI_CHAR, all.data(), kLength, MPI_CHAR, communicator_), "MPI_Allgather");
  const std::string_view first = all.data();
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(size()); ++rank) {
    const std::string_view build = &all[rank * kLength];
    check(build == first, "MPI: the ranks run different builds of Headway: rank ", rank, " runs ", build, ", rank 0 ",
          first);
  }
}

void Engine::add(Pending& messages) {
  pending_.push_back(&messages);
  last_start_ = Clock::now();
  if (is_asleep_) wake_.notify_one();
}

void Engine::remove(Pending& messages) { std::erase(pending_, &messages); }

void Engine::fail(const std::string& why) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!is_open() || size() == 1) return;
    control_.look();  // whoever failed first is named
    control_.tell_failure({rank(), why});
  } catch (...) {
  }
}

// Signals are for the program's own threads.
void Engine::start_progress() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { progress(); });
  } catch (const std::system_error&) {  // messages go on while someone waits for them
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// A look costs little, but waking up for it does: the longer a message has been under way, the rarer the looks are. A
// thread that nobody needed for a while is asleep until messages are started.
void Engine::progress() {
  constexpr std::chrono::microseconds kUnused{500}, kOften{100}, kSeldom{1000};
  constexpr std::chrono::microseconds kBusy{100};         // after a look that moved bytes more are about to come
  constexpr std::chrono::microseconds kFirstBusyLook{8};  // after a pause nothing is in the caches
  constexpr std::chrono::milliseconds kUntilAsleep{20};
  Clock::time_point last_busy;
  precise_sleep();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Clock::time_point now = Clock::now();
    std::chrono::nanoseconds pause = kUnused;
    if (!pending_.empty() && watching_ == 0) {
      const bool is_busy = now - last_busy < kBusy;
      if (look_at_all() >= (is_busy ? kBusyLook : kFirstBusyLook)) last_busy = now;
      pause = std::clamp<std::chrono::nanoseconds>((now - last_start_) / 8, kOften, kSeldom);
      if (now - last_busy < kBusy) pause = {};
    } else if (dropped_ && now - *dropped_ > kTimeToSayWhy) {
      dropped_.reset();
      fail("it dropped messages that were not done");
    } else if (pending_.empty() && !dropped_ && now - last_start_ > kUntilAsleep) {
      is_asleep_ = true;
      wake_.wait(lock, [this] { return stop_ || !pending_.empty() || dropped_; });
      is_asleep_ = false;
      continue;
    }
    lock.unlock();
    if (pause == std::chrono::nanoseconds{}) {
      std::this_thread::yield();
    } else {
      sleep_for(pause);
    }
    lock.lock();
  }
}

void Engine::drop() {
  if (control_.failure()) return;
  if (std::uncaught_exceptions() == 0 || !thread_.joinable()) {
    fail("it dropped messages that were not done");
  } else if (!dropped_) {
    dropped_ = Clock::now();
    wake_.notify_one();
  }
}

std::chrono::nanoseconds Engine::look_at_all() noexcept {
  const Clock::time_point start = Clock::now();
  for (Pending* messages : pending_) messages->look();
  std::erase_if(pending_, [](const Pending* messages) { return !messages->is_open(); });
  try {
    control_.look();
  } catch (...) {  // whoever waits next meets the same
  }
  return Clock::now() - start;
}

}  // namespace headway::inline v0::internal::mpi
