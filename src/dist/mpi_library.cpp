// Finding and opening libheadway_mpi.
#include "base/mpi_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/check.h"
#include "dist/engines.h"
#include "headway/device.h"
#include "headway/version.h"

namespace headway::inline v0::internal {
namespace {

constexpr const char* kMpiLibrary = "libheadway_mpi.so.0";

// HEADWAY_MPI_LIBRARY, the file beside libheadway.so or the program that contains it, or the system's search path.
std::string mpi_library_file() {
  const char* named = std::getenv("HEADWAY_MPI_LIBRARY");
  if (named != nullptr && *named != '\0') return named;
  Dl_info own;
  if (dladdr(reinterpret_cast<const void*>(&open_mpi), &own) != 0 && own.dli_fname != nullptr) {
    const std::filesystem::path beside = std::filesystem::path(own.dli_fname).parent_path() / kMpiLibrary;
    std::error_code ignored;
    if (std::filesystem::exists(beside, ignored)) return beside.string();
  }
  return kMpiLibrary;
}

// What to do about a library that cannot be opened; the system's words name the file that is missing.
std::string advice_for(std::string_view problem) {
  if (problem.starts_with("libmpi")) {
    return "no MPI is installed, or another than Headway was built with (Debian and Ubuntu: openmpi-bin)";
  }
  return "Headway builds it where MPI is installed (Debian and Ubuntu: libopenmpi-dev openmpi-bin)";
}

// A launcher of another MPI starts processes that each believe to be alone.
void check_launcher(const Transport& transport) {
  const int launched = launched_processes();
  check(transport.size() > 1 || launched <= 1, "MPI: ", launched, " processes were started, but ",
        transport.description(),
        " sees one alone: start them with its own mpirun, or with srun --mpi=pmix or --mpi=pmi2, whichever it knows");
}

std::shared_ptr<Transport> open_mpi_library() {
  const std::string file = mpi_library_file();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* told = dlerror();
    const std::string problem = told != nullptr ? told : file;
    fail("MPI: libheadway_mpi cannot be opened: ", problem, "; ", advice_for(problem));
  }
  const auto interface = reinterpret_cast<MpiInterface>(dlsym(library, kMpiInterfaceName));
  const auto open = reinterpret_cast<MpiOpen>(dlsym(library, kMpiOpenName));
  check(interface != nullptr && open != nullptr, "MPI: ", file, " is not an MPI engine of this version of Headway");
  check(std::string_view(interface()) == kInterfaceHash, "MPI: ", file,
        " is of another build than this Headway: its interface is ", interface(), ", expected ", kInterfaceHash);
  static const std::string build = join_parts(HEADWAY_VERSION, " with interface ", kInterfaceHash);
  const MpiHost host = {.build = build.c_str(), .synchronize = [](Device device) { synchronize(device); }};
  std::shared_ptr<Transport> transport;
  open(&host, &transport);
  check_launcher(*transport);
  return transport;
}

}  // namespace

// The library is never closed: what it does at the end of the process comes after all static objects.
std::shared_ptr<Transport> open_mpi() {
  static const std::shared_ptr<Transport> opened = open_mpi_library();
  return opened;
}

}  // namespace headway::inline v0::internal
