#include "launch.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace cli {
namespace {

// The number at the begin of an environment variable; 0 where there is none. Slurm writes "4(x2),1".
int environment_number(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return 0;
  const std::string_view view(text);
  int number = 0;
  std::from_chars(view.data(), view.data() + view.size(), number);
  return std::max(number, 0);
}

struct LauncherNames {
  const char* size;
  const char* rank;
  const char* local_size;
};
// A batch script of Slurm is no step, and has no SLURM_STEP_NUM_TASKS.
constexpr LauncherNames kLaunchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE"},
};

Launch launch_of_environment() {
  Launch found;
  for (const LauncherNames& names : kLaunchers) {
    if (environment_number(names.size) < 2) continue;
    found.size = environment_number(names.size);
    found.rank = std::min(environment_number(names.rank), found.size - 1);
    found.local_size = environment_number(names.local_size);
    if (found.local_size == 0) found.local_size = environment_number("SLURM_NTASKS_PER_NODE");
    found.local_size = std::clamp(found.local_size, 1, found.size);
    break;
  }
  // Some launchers say which rank it is, and not of how many.
  if (found.size == 1 && std::getenv("PMIX_RANK") != nullptr && std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr &&
      std::getenv("SLURM_STEP_NUM_TASKS") == nullptr) {
    found.rank = environment_number("PMIX_RANK");
    found.size = found.rank + 2;
  }
  return found;
}

// The processors that a process may run on; 0 where the system does not say.
int processors_of(pid_t process) {
  cpu_set_t set;
  return sched_getaffinity(process, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

const Launch& launch() {
  static const Launch found = launch_of_environment();
  return found;
}

int share_of_processors() {
  if (launch().size == 1) return 0;
  const int mine = processors_of(0);
  // The launcher, which is not bound as its ranks are.
  const int all = std::max(processors_of(::getppid()), mine);
  const int share = std::max(all / launch().local_size, 1);
  return mine > 0 ? std::min(mine, share) : share;
}

}  // namespace cli
