// A copy of this process, and a pipe for what it returns.
#include "text/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <new>
#include <system_error>

#include "base/check.h"

namespace headway::inline v0::internal {
namespace {

// How the copy ends, its exit status. It has written its result after `done` and a message after `failed`.
enum class ChildEnd { done = 0, failed = 1, no_memory = 2, terminated = 3 };

[[noreturn]] void end_child(ChildEnd end) { ::_exit(static_cast<int>(end)); }

[[noreturn]] void end_by_exception() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    end_child(ChildEnd::no_memory);
  } catch (...) {
  }
  end_child(ChildEnd::terminated);
}

[[noreturn]] void send(int pipe, std::string_view bytes, ChildEnd end) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(pipe, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) end_child(ChildEnd::terminated);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  end_child(end);
}

// The whole life of the copy. Nothing that the process had open is flushed or closed, since that is the parent's.
[[noreturn]] void live_as_child(const std::function<std::string()>& work, int pipe, pid_t parent) noexcept {
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (::getppid() != parent) end_child(ChildEnd::terminated);  // it was killed before the call above
  std::set_terminate(end_by_exception);
  try {
    send(pipe, work(), ChildEnd::done);
  } catch (const std::bad_alloc&) {
    end_child(ChildEnd::no_memory);
  } catch (const std::system_error&) {
    end_child(ChildEnd::terminated);  // no thread can be started
  } catch (const std::exception& error) {
    send(pipe, error.what(), ChildEnd::failed);
  }
}

std::string read_to_end(int pipe) {
  std::string all;
  std::array<char, 1 << 16> chunk = {};
  while (true) {
    const ssize_t count = ::read(pipe, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return all;
    all.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

// Waits for the copy also where reading from it fails, so that none is left behind.
struct Child {
  pid_t process = -1;
  int pipe = -1;
  int status = 0;

  void wait() {
    if (pipe >= 0) ::close(pipe);
    pipe = -1;
    while (process > 0 && ::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    process = -1;
  }
  ~Child() { wait(); }
};

}  // namespace

std::string run_in_child(const std::function<std::string()>& work, std::string_view who) {
  int ends[2] = {-1, -1};  // to read, to write
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(who, ": no pipe can be made: ", std::generic_category().message(errno));
  const pid_t parent = ::getpid();
  Child child = {.process = ::fork(), .pipe = ends[0]};
  if (child.process == 0) live_as_child(work, ends[1], parent);
  const int problem = errno;
  ::close(ends[1]);
  if (child.process < 0) fail(who, ": no process can be started: ", std::generic_category().message(problem));
  std::string result = read_to_end(child.pipe);
  child.wait();
  if (WIFSIGNALED(child.status)) {
    fail(who, ": its process was ended by signal ", WTERMSIG(child.status), "; is there enough memory?");
  }
  switch (static_cast<ChildEnd>(WIFEXITED(child.status) ? WEXITSTATUS(child.status) : -1)) {
    case ChildEnd::done:
      return result;
    case ChildEnd::failed:
      fail(result);
    case ChildEnd::no_memory:
      fail(who, ": there is not enough memory");
    case ChildEnd::terminated:
      break;
  }
  fail(who, ": its process ended early; are there enough memory and threads?");
}

}  // namespace headway::inline v0::internal
