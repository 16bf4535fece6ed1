// The stream of seeds behind initial weights and dropout.
#include <pthread.h>

#include <mutex>

#include "core/random.h"
#include "headway/random.h"

namespace headway::inline v0 {
namespace {

std::mutex mutex;
RandomState state;  // guarded by the mutex

// A child process must not find it locked by a thread that it does not have.
[[maybe_unused]] const int fork_handlers_registered =
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });

}  // namespace

void set_random_seed(std::uint64_t seed) { set_random_state({.seed = seed}); }

std::uint64_t next_random_seed() {
  const std::lock_guard lock(mutex);
  const std::uint64_t count = state.drawn++;
  // The third word keeps these draws apart from those of a tensor or a dropout mask under the same seed.
  const auto words = internal::philox4x32_7(
      {static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(count >> 32), 0x5EED5EED, 0},
      internal::philox_key(state.seed));
  return std::uint64_t{words[0]} << 32 | words[1];
}

RandomState random_state() {
  const std::lock_guard lock(mutex);
  return state;
}

void set_random_state(const RandomState& wanted) {
  const std::lock_guard lock(mutex);
  state = wanted;
}

}  // namespace headway::inline v0
