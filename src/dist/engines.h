// The engines that are opened at run time.
#pragma once

#include <memory>
#include <string>

#include "headway/transport.h"

namespace headway::inline v0::internal {

// How many processes the environment says that mpirun or srun started: 1 where it says nothing, 0 where it says that a
// launcher did, but not how many there are.
int launched_processes();
// Whether the environment says that mpirun or srun started the program with more than one process.
bool started_by_launcher();

// All processes of the launcher; throws where libheadway_mpi cannot be opened. Every call gives the same transport.
std::shared_ptr<Transport> open_mpi();

// What joins ranks that pass the same one to open_nccl(): a text of any bytes, made by one of them.
std::string new_nccl_id(Device device);
std::shared_ptr<Transport> open_nccl(Device device, const std::string& id, int rank, int size);

}  // namespace headway::inline v0::internal
