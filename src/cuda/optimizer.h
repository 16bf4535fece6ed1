// Steps of optimizers on the GPU: all parameters in one launch.
#pragma once

#include <span>
#include <vector>

#include "backend/optimizer_tasks.h"

namespace headway::inline v0::internal::cuda {

void sgd(std::span<const ParameterSpan> parameters, const SgdStep& step);
void adam(std::span<const ParameterSpan> parameters, const AdamStep& step);
// The sum of the squares of every span's gradient, in float64; waits for it.
std::vector<double> sum_of_squares(std::span<const ParameterSpan> parameters);

}  // namespace headway::inline v0::internal::cuda
