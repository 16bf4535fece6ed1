// The end of a process: nobody waits for a rank that has ended, and no rank is left behind.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "mpi/engine.h"

namespace headway::inline v0::internal::mpi {
namespace {

// Where ranks have failed, so long do the others have to end by themselves.
constexpr std::chrono::seconds kPatience{5};

std::string current_exception_text() {
  try {
    if (const std::exception_ptr current = std::current_exception()) std::rethrow_exception(current);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
  return "it has called std::terminate()";
}

}  // namespace

// at_exit() sees the exit code. What the program finalises itself is seen by an attribute, which MPI_Finalize deletes
// first of all.
void Engine::see_to_the_end() {
  int key = MPI_KEYVAL_INVALID;
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &Engine::at_finalize, &key, this), "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, this), "MPI_Comm_set_attr");
  on_exit(&Engine::at_exit, this);
  if (size() > 1) terminate_before_ = std::set_terminate(&Engine::at_terminate);
}

bool Engine::wait_for_goodbyes() noexcept {
  constexpr std::chrono::microseconds kSleep{500};
  Clock::time_point first_failure = Clock::time_point::max();
  while (true) {
    const Clock::time_point now = Clock::now();
    {
      const std::lock_guard lock(mutex_);
      try {
        control_.look();
      } catch (...) {
        return false;
      }
      if (control_.all_others_have_ended() && control_.has_told()) return true;
      if (control_.failure() && first_failure == Clock::time_point::max()) first_failure = now;
    }
    if (first_failure != Clock::time_point::max() && now - first_failure > kPatience) return false;
    sleep_for(kSleep);
  }
}

void Engine::leave(int exit_code, End end) noexcept {
  if (getpid() != process_) return;  // a fork is no rank
  {
    const std::lock_guard lock(mutex_);
    if (left_) return;
    left_ = true;
    stop_ = true;
    try {
      if (size() > 1) control_.tell_end(exit_code, end == End::abort);
    } catch (...) {
    }
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    if (end == End::abort) {
      thread_.detach();  // where nothing was unwound, this thread may hold the mutex for which that one waits
    } else {
      thread_.join();
    }
  }
  if (size() > 1 && !wait_for_goodbyes()) MPI_Abort(MPI_COMM_WORLD, exit_code != 0 ? exit_code : EXIT_FAILURE);
  control_.close();
  if (end == End::finalise && initialised_here_ && !control_.any_aborts()) MPI_Finalize();
  // The launcher names the rank that ends first: the one that failed first.
  if (control_.has_failed_elsewhere()) sleep_for(std::chrono::milliseconds(500));
}

int Engine::at_finalize(MPI_Comm, int, void* engine, void*) {
  static_cast<Engine*>(engine)->leave(EXIT_SUCCESS, End::by_the_program);
  return MPI_SUCCESS;
}

void Engine::at_exit(int exit_code, void* engine) {
  int is_finalised = 0;
  MPI_Finalized(&is_finalised);
  if (is_finalised == 0) static_cast<Engine*>(engine)->leave(exit_code, End::finalise);
}

// The message is printed before the others hear of it, so that the cause comes first. A handler of the program's own
// prints what it likes.
void Engine::at_terminate() {
  Engine& engine = *of_process_;
  const bool is_default =
      engine.terminate_before_ == nullptr || engine.terminate_before_ == &__gnu_cxx::__verbose_terminate_handler;
  if (getpid() == engine.process_) {
    const std::string why = current_exception_text();
    if (is_default) {
      std::fprintf(stderr, "headway: rank %d has ended by an exception: %s\n", engine.rank(), why.c_str());
      std::fflush(stderr);
    }
    engine.fail(why);
    engine.leave(EXIT_FAILURE, End::abort);
  }
  if (!is_default) engine.terminate_before_();
  signal(SIGABRT, SIG_DFL);  // MPI's own prints the stack
  std::abort();
}

}  // namespace headway::inline v0::internal::mpi
