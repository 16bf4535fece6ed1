// What must be the same on all ranks.
#pragma once

#include <vector>

#include "headway/training.h"

namespace headway::inline v0::internal {

// Throws the same Error on all ranks, which names a rank and the first difference, unless they agree about options,
// optimizer, parameters and some rates of the schedule.
void check_ranks_agree(const Module& module, const Optimizer& optimizer, const TrainingOptions& options,
                       const std::vector<double>& learning_rates);

}  // namespace headway::inline v0::internal
