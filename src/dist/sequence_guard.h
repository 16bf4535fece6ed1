// What layers ask of the guard under which sequences are cut over ranks.
#pragma once

#include <cstdint>

#include "base/internal_api.h"
#include "headway/sequence_parallel.h"

namespace headway::inline v0::internal {

// The length of a whole sequence of which this rank has `own` tokens, which must be as many as the guard's shares say.
// Every rank calls it.
std::int64_t whole_length(const char* function, const SequenceParallelGuard& guard, std::int64_t own);

// A seed for what is drawn on every rank by itself: the ranks' draws differ.
std::uint64_t seed_of_rank(std::uint64_t seed);

// Throws where a guard exists: `what` cannot be cut over ranks.
HEADWAY_INTERNAL_API void check_not_cut(const char* function, const char* what);

}  // namespace headway::inline v0::internal
