// Failures of a disk that tests make.
#pragma once

#include <atomic>

namespace headway::inline v0::internal {

// Asked before each system call that writes files ("open", "write", "fsync", "close", "rename", ...). A result other
// than 0 is the errno that the call fails with. Only tests set it.
using FileFault = int (*)(const char* call);
extern std::atomic<FileFault> file_fault;

// Whether a test wants this call to fail; errno is set then.
bool file_call_fails(const char* call);

}  // namespace headway::inline v0::internal
