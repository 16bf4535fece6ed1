// NCCL, through the backend of the GPUs.
#include "base/check.h"
#include "dist/engines.h"
#include "headway/communicator.h"

namespace headway::inline v0 {
namespace internal {

std::string new_nccl_id(Device device) { fail("Communicator::nccl: there is no NCCL for ", device); }

std::shared_ptr<Transport> open_nccl(Device device, const std::string&, int, int) {
  fail("Communicator::nccl: there is no NCCL for ", device);
}

}  // namespace internal

Communicator Communicator::nccl(const std::filesystem::path& file, int, int, Device device) {
  internal::fail("Communicator::nccl: there is no NCCL for ", device, " through ", file.string());
}

}  // namespace headway::inline v0
