// What mpirun and srun tell a process by its environment, before an engine of ranks is opened.
#pragma once

namespace cli {

struct Launch {
  int rank = 0;
  int size = 1;        // processes that were started together
  int local_size = 1;  // those of them on this machine
};

// Of the launchers of Open MPI, MPICH and Slurm; one process alone where none is known.
const Launch& launch();

// The processors that one rank may keep busy: those of the launcher, dealt out to the ranks on this machine, and never
// more than the rank is bound to. 0 without a launcher.
int share_of_processors();

}  // namespace cli
