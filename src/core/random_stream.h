// A stream of seeds for one thread.
#pragma once

#include "base/internal_api.h"
#include "headway/random.h"

namespace headway::inline v0::internal {

// Gives the calling thread a state of its own in place of the process's (null), and returns what it had before.
HEADWAY_INTERNAL_API RandomState* exchange_random_state(RandomState* own);

// Until the end of the scope, the functions of headway/random.h use a stream of this thread's own when this thread
// calls them, and the process's stream stays as it is: threads that train at the same time do not take each other's
// seeds.
class OwnRandomStream {
 public:
  explicit OwnRandomStream(const RandomState& start) : own_(start), previous_(exchange_random_state(&own_)) {}
  ~OwnRandomStream() { exchange_random_state(previous_); }
  OwnRandomStream(const OwnRandomStream&) = delete;
  OwnRandomStream& operator=(const OwnRandomStream&) = delete;

 private:
  RandomState own_;
  RandomState* previous_;  // of an outer scope; null: the process's
};

}  // namespace headway::inline v0::internal
