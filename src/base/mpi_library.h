// The interface of libheadway_mpi.so to libheadway: two C functions, declared here for both sides.
#pragma once

#include <memory>

#include "base/interface_hash.h"
#include "headway/transport.h"

namespace headway::inline v0::internal {

// const char* headway_mpi_interface(): the kInterfaceHash that the library was built with. Called first.
inline constexpr const char* kMpiInterfaceName = "headway_mpi_interface";
using MpiInterface = const char* (*)();

// What the engine asks of libheadway.
struct MpiHost {
  // What must be the same on all ranks: "0.2.0, interface 0123456789abcdef".
  const char* build = "";
  // Waits for the work that this thread has given to the device, before MPI reads from its memory.
  void (*synchronize)(Device device) = nullptr;
};

// void headway_mpi_open(const MpiHost* host, std::shared_ptr<Transport>* transport): all processes; initialises MPI
// where the program has not. Throws an Error where MPI cannot be used.
inline constexpr const char* kMpiOpenName = "headway_mpi_open";
using MpiOpen = void (*)(const MpiHost* host, std::shared_ptr<Transport>* transport);

}  // namespace headway::inline v0::internal
