// What every caller of MPI needs: its errors as Errors, and how long to stay away between two looks at it.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <string>

namespace headway::inline v0::internal::mpi {

using Clock = std::chrono::steady_clock;

// Throws an Error with MPI's own words unless the code is MPI_SUCCESS.
void check_mpi(int code, const char* call);
std::string error_text(int code);

// "Open MPI 4.1.4", "MPICH 4.0.2"
std::string library_version();

// Whether messages may lie in the memory of NVIDIA's GPUs.
bool moves_cuda_memory();

// Counts are ints in MPI, so that larger messages are cut.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

// A look at MPI that took this long has moved bytes: more may be ready already.
constexpr std::chrono::nanoseconds kBusyLook{2000};

// Sleeps for so long, and hardly longer where the thread asked for it by precise_sleep().
void sleep_for(std::chrono::nanoseconds time);
void precise_sleep();

// How a thread that waits stays away between looks: first not at all, then it offers its core to others, then it
// sleeps, so that more ranks than cores do not keep each other from working.
class Pacer {
 public:
  // `look`: how long the last look took.
  void pause(std::chrono::nanoseconds look);

 private:
  Clock::time_point start_ = Clock::now();
};

}  // namespace headway::inline v0::internal::mpi
