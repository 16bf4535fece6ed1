// The random numbers behind initial weights and dropout: one stream of seeds per process, set and saved by these calls.
#pragma once

#include <cstdint>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t drawn = 0;  // how many seeds were taken since it was set
};

// Starts the stream anew: the same seed and the same calls give the same numbers.
HEADWAY_API void set_random_seed(std::uint64_t seed);

// The next seed of the stream. Layers take one per forward pass for their dropout, and one per initial weight.
HEADWAY_API std::uint64_t next_random_seed();

// The place in the stream, to go on from there later.
HEADWAY_API RandomState random_state();
HEADWAY_API void set_random_state(const RandomState& state);

}  // namespace v0
}  // namespace headway
