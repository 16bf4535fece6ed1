// What whole runs over ranks need besides train().
#pragma once

#include <exception>
#include <string>

#include "base/internal_api.h"
#include "headway/communicator.h"
#include "headway/module.h"
#include "headway/optimizer.h"

namespace headway::inline v0::internal {

// Throws the same Error on all ranks, with the first line that differs, where they have not all passed the same text.
HEADWAY_INTERNAL_API void check_same_lines(const Communicator& ranks, const char* who, const std::string& text);

// The text that rank 0 passes.
HEADWAY_INTERNAL_API std::string text_of_first(const Communicator& ranks, const std::string& text);

// Shares out the optimizer's state as train() will do, with the same arguments: before that, each rank need not hold
// all masters.
HEADWAY_INTERNAL_API void share_out_state(const Module& module, Optimizer& optimizer, const Communicator& ranks,
                                          std::int64_t bucket_bytes);

// Runs the work of a rank. An exception that leaves it ends the other ranks' waiting.
template <typename Work>
auto ending_all(const Communicator& ranks, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    ranks.fail(error.what());
    throw;
  } catch (...) {
    ranks.fail("it threw something that is no exception");
    throw;
  }
}

}  // namespace headway::inline v0::internal
