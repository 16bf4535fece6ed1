// Seeds for initial weights and dropout: one stream of seeds per process, which these functions set and save.
#pragma once

#include <cstdint>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t drawn = 0;  // the number of seeds taken since the seed was set
};

// Restarts the stream: the same seed and the same calls produce the same numbers.
HEADWAY_API void set_random_seed(std::uint64_t seed);

// The next seed of the stream. Layers take one per forward pass for their dropout, and one per initial weight.
HEADWAY_API std::uint64_t next_random_seed();

// The position in the stream, to continue from it later.
HEADWAY_API RandomState random_state();
HEADWAY_API void set_random_state(const RandomState& state);

}  // namespace v0
}  // namespace headway
