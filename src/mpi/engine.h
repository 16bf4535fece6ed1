// MPI in this process: one mutex around every call, the control channel, a thread that goes on with messages while the
// program computes, and the farewell at the end of the process.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mpi_library.h"
#include "mpi/control.h"

namespace headway::inline v0::internal::mpi {

// Messages that MPI has and that are not done. Called with the engine's mutex held.
class Pending {
 public:
  // Takes note of what is done. Never throws: errors are the owner's to throw.
  virtual void look() noexcept = 0;
  virtual bool is_open() const = 0;

 protected:
  ~Pending() = default;
};

class Engine {
 public:
  // The one of the process, which is never destroyed: the last use of it may come after static objects have gone. The
  // first call initialises MPI; every rank makes it.
  static Engine& open(const MpiHost& host);

  int rank() const { return control_.rank(); }
  int size() const { return control_.size(); }
  MPI_Comm communicator() const { return communicator_; }
  int most_tag() const { return most_tag_; }
  const std::string& version() const { return version_; }
  bool moves_cuda() const { return moves_cuda_; }
  void synchronize(Device device) const { host_.synchronize(device); }

  // ---- with the mutex held ----
  // Recursive, because std::terminate() may be called where it is held.
  std::recursive_mutex& mutex() { return mutex_; }
  Control& control() { return control_; }
  // False once MPI has been finalised or the process has taken leave: no call may be made.
  bool is_open() const { return !left_; }
  void add(Pending& messages);
  void remove(Pending& messages);
  // Messages were given up before they were done. Where an exception is on its way, there is a moment to say why.
  void drop();

  // While one exists, its thread looks at MPI itself.
  class Watching {
   public:
    explicit Watching(Engine& engine) : engine_(engine) { ++engine_.watching_; }
    ~Watching() { --engine_.watching_; }
    Watching(const Watching&) = delete;
    Watching& operator=(const Watching&) = delete;

   private:
    Engine& engine_;
  };

  // Tells all other ranks. Never throws.
  void fail(const std::string& why) noexcept;

 private:
  explicit Engine(const MpiHost& host);
  void start();
  void initialise();
  void compare_builds() const;
  void see_to_the_end();
  void start_progress();
  void progress();
  std::chrono::nanoseconds look_at_all() noexcept;

  // Says goodbye, waits for the others' and finalises MPI, or ends them where ranks have failed and go on. Does so
  // once.
  enum class End { finalise, by_the_program, abort };
  void leave(int exit_code, End end) noexcept;
  bool wait_for_goodbyes() noexcept;
  static Engine* of_process_;
  static int at_finalize(MPI_Comm, int, void*, void*);
  static void at_exit(int exit_code, void*);
  [[noreturn]] static void at_terminate();

  MpiHost host_;
  bool initialised_here_ = false;
  bool has_progress_ = false;
  pid_t process_ = 0;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int most_tag_ = 0;
  std::string version_;
  bool moves_cuda_ = false;
  std::terminate_handler terminate_before_ = nullptr;

  std::recursive_mutex mutex_;
  bool started_ = false;
  std::string problem_;  // why MPI cannot be used
  bool left_ = false;
  Control control_;
  std::vector<Pending*> pending_;
  std::condition_variable_any wake_;
  std::atomic<int> watching_ = 0;
  bool stop_ = false;
  bool is_asleep_ = false;  // the thread, until it is woken
  Clock::time_point last_start_;
  std::optional<Clock::time_point> dropped_;
  std::thread thread_;
};

}  // namespace headway::inline v0::internal::mpi
