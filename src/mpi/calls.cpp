#include "mpi/calls.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <vector>

#include "base/check.h"

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

namespace headway::inline v0::internal::mpi {

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "error " + std::to_string(code);
  return {text, static_cast<std::size_t>(length)};
}

void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) [[unlikely]]
    fail("MPI: ", call, ": ", error_text(code));
}

// From "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\n...".
std::string library_version() {
  std::vector<char> text(MPI_MAX_LIBRARY_VERSION_STRING + 1);
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown";
  std::string version(text.data());
  version.resize(std::min(version.find_first_of(",\n"), version.size()));
  const auto replace = [&](const std::string& from, const std::string& to) {
    if (const std::size_t at = version.find(from); at != std::string::npos) version.replace(at, from.size(), to);
  };
  replace(" Version:", "");
  replace("\t", " ");
  replace(" v", " ");
  return version;
}

bool moves_cuda_memory() {
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
  return MPIX_Query_cuda_support() == 1;
#elif defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

void sleep_for(std::chrono::nanoseconds time) {
  const timespec wanted = {.tv_sec = time.count() / 1'000'000'000, .tv_nsec = time.count() % 1'000'000'000};
  nanosleep(&wanted, nullptr);
}

void precise_sleep() { prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); }

void Pacer::pause(std::chrono::nanoseconds look) {
  constexpr std::chrono::microseconds kSpin{30}, kYield{2000}, kSleep{50};
  if (look >= kBusyLook) return;
  const Clock::duration waited = Clock::now() - start_;
  if (waited < kSpin) return;
  if (waited < kYield) {
    sched_yield();
  } else {
    sleep_for(kSleep);
  }
}

}  // namespace headway::inline v0::internal::mpi
