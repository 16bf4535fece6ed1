// NCCL, through the backend of the GPUs, and ranks that find each other through a file.
#include <chrono>
#include <thread>

#include "backend/registry.h"
#include "base/check.h"
#include "base/files.h"
#include "dist/engines.h"
#include "headway/communicator.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// The file is there in one piece, because it gets its name last.
std::string wait_for_id(const std::filesystem::path& file, int rank) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience{300};
  const Clock::time_point start = Clock::now();
  std::error_code ignored;
  while (!std::filesystem::exists(file, ignored)) {
    check(Clock::now() - start < kPatience, "Communicator::nccl: ", file.string(), " did not appear within ",
          kPatience.count(), " s: rank ", rank, " waits for rank 0 to write it");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return read_whole_file(file, "Communicator::nccl", {.limit = 4096});
}

}  // namespace

std::string new_nccl_id(Device device) { return backend_of(device).new_nccl_id(); }

std::shared_ptr<Transport> open_nccl(Device device, const std::string& id, int rank, int size) {
  return backend_of(device).open_nccl(id, rank, size);
}

}  // namespace internal

// Rank 0 removes the file when all have joined.
Communicator Communicator::nccl(const std::filesystem::path& file, int rank, int size, Device device) {
  using namespace internal;
  check(size >= 1 && rank >= 0 && rank < size, "Communicator::nccl: this is rank ", rank, " of ", size);
  if (rank > 0) return Communicator(open_nccl(device, wait_for_id(file, rank), rank, size));
  std::error_code ignored;
  check(!std::filesystem::exists(file, ignored), "Communicator::nccl: ", file.string(),
        " exists already, expected a file that rank 0 can write");
  const std::string id = new_nccl_id(device);
  FileReplacement written(file, "Communicator::nccl");
  written.write(id);
  written.commit();
  Communicator ranks(open_nccl(device, id, rank, size));
  std::filesystem::remove(file, ignored);
  return ranks;
}

}  // namespace headway::inline v0
