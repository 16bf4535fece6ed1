#include "ranks.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "headway/error.h"
#include "launch.h"
#include "program.h"

namespace cli {

headway::Communicator open_world() {
  if (launch().rank == 0) return headway::Communicator::world();
  try {
    return headway::Communicator::world();
  } catch (const std::exception&) {
    throw ToldElsewhere(kFailed);
  }
}

void on_every_rank(const headway::Communicator& world, const std::function<void()>& work) {
  if (world.is_alone()) return work();
  std::string problem;  // the exit code's digit, then the message
  try {
    work();
  } catch (const UsageError& error) {
    problem = std::to_string(kWrongUsage) + error.what();
  } catch (const std::bad_alloc&) {
    problem = std::to_string(kFailed) + "not enough memory";
  } catch (const std::exception& error) {
    problem = std::to_string(kFailed) + error.what();
  }
  const std::vector<std::string> all = world.all_gather(problem);
  const auto failed = std::find_if(all.begin(), all.end(), [](const std::string& one) { return !one.empty(); });
  if (failed == all.end()) return;
  const int code = failed->front() - '0';
  if (world.rank() > 0) {
    // Rank 0 must not hear that this rank has ended before it has said why. It does not come: it ends.
    try {
      world.barrier();
    } catch (const std::exception&) {
    }
    throw ToldElsewhere(code);
  }
  const auto rank = failed - all.begin();
  const std::string message = (rank == 0 ? "" : "rank " + std::to_string(rank) + ": ") + failed->substr(1);
  if (code == kWrongUsage) throw UsageError(message);
  throw std::runtime_error(message);
}

}  // namespace cli
