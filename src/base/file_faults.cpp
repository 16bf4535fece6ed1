#include "base/file_faults.h"

#include <cerrno>

namespace headway::inline v0::internal {

std::atomic<FileFault> file_fault = nullptr;

bool file_call_fails(const char* call) {
  const FileFault fault = file_fault.load(std::memory_order_relaxed);
  const int number = fault == nullptr ? 0 : fault(call);
  if (number != 0) errno = number;
  return number != 0;
}

}  // namespace headway::inline v0::internal
