// What the launchers of processes write into the environment.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "dist/engines.h"

namespace headway::inline v0::internal {
namespace {

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

// The number in a variable; 0 where there is none.
int number_in(const char* name) {
  const char* text = std::getenv(name);
  int number = 0;
  if (text == nullptr) return 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, number);
  return error == std::errc() && rest == end ? number : 0;
}

}  // namespace

// Open MPI's mpirun; MPICH's, Intel's and others by PMI; Slurm's srun. What sbatch runs sees SLURM_NTASKS and
// SLURM_PROCID too, but is no step: only srun counts the tasks of a step. PMIx alone does not say how many there are.
int launched_processes() {
  int most = 1;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    most = std::max(most, number_in(name));
  }
  if (is_set("SLURM_PROCID") && is_set("SLURM_STEP_ID")) most = std::max(most, number_in("SLURM_STEP_NUM_TASKS"));
  if (most > 1) return most;
  const bool has_count = is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMI_SIZE") || is_set("SLURM_STEP_NUM_TASKS");
  return is_set("PMIX_RANK") && !has_count ? 0 : 1;
}

bool started_by_launcher() { return launched_processes() != 1; }

}  // namespace headway::inline v0::internal
