// Steps of optimizers on the CPU, each over all parameters at once.
#pragma once

#include <span>
#include <vector>

#include "backend/optimizer_tasks.h"

namespace headway::inline v0::internal::cpu {

// value -= learning_rate * (momentum of) (gradient + weight_decay * value), as torch.optim.SGD.
void sgd(std::span<const ParameterSpan> parameters, const SgdStep& options);

// A step of torch.optim.Adam or AdamW; with AMSGrad for the spans that have `largest`.
void adam(std::span<const ParameterSpan> parameters, const AdamStep& options);

// The sum of the squares of every span's gradient, in float64. What is not finite shows that the gradient holds a NaN
// or an infinity, or for float64 a square past the range.
std::vector<double> sum_of_squares(std::span<const ParameterSpan> parameters);

}  // namespace headway::inline v0::internal::cpu
