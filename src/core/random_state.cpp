// The stream of seeds behind initial weights and dropout.
#include <pthread.h>

#include <mutex>
#include <utility>

#include "core/random.h"
#include "core/random_stream.h"
#include "headway/random.h"

namespace headway::inline v0 {
namespace {

std::mutex mutex;
RandomState state;  // guarded by the mutex

thread_local RandomState* own_state = nullptr;  // of an OwnRandomStream; null: the process's

// A child process must not find it locked by a thread that it does not have.
[[maybe_unused]] const int fork_handlers_registered =
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });

}  // namespace

namespace internal {

RandomState* exchange_random_state(RandomState* own) { return std::exchange(own_state, own); }

}  // namespace internal

void set_random_seed(std::uint64_t seed) { set_random_state({.seed = seed}); }

std::uint64_t next_random_seed() {
  RandomState drawn_from;
  if (own_state != nullptr) {
    drawn_from = *own_state;
    ++own_state->drawn;
  } else {
    const std::lock_guard lock(mutex);
    drawn_from = state;
    ++state.drawn;
  }
  const std::uint64_t count = drawn_from.drawn;
  // The third word keeps these draws apart from those of a tensor or a dropout mask under the same seed.
  const auto words = internal::philox4x32_7(
      {static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(count >> 32), 0x5EED5EED, 0},
      internal::philox_key(drawn_from.seed));
  return std::uint64_t{words[0]} << 32 | words[1];
}

RandomState random_state() {
  if (own_state != nullptr) return *own_state;
  const std::lock_guard lock(mutex);
  return state;
}

void set_random_state(const RandomState& wanted) {
  if (own_state != nullptr) {
    *own_state = wanted;
    return;
  }
  const std::lock_guard lock(mutex);
  state = wanted;
}

}  // namespace headway::inline v0
