// Initial values of parameters: the distributions of torch.nn, from the process's stream of seeds.
#pragma once

#include "headway/tensor.h"

namespace headway::inline v0::internal {

// Uniform in +-sqrt(6 / (fan_in + fan_out)), for a matrix [fan_out, fan_in].
Tensor xavier_uniform(const Shape& shape, DType dtype);

// Normal with variance 2 / (fan_in + fan_out), for a tensor [.., fan_out, fan_in] as torch counts it.
Tensor xavier_normal(const Shape& shape, DType dtype);

// Uniform in +-1 / sqrt(fan_in): what torch's Linear starts with, weight and bias.
Tensor fan_in_uniform(const Shape& shape, std::int64_t fan_in, DType dtype);

// Standard normal.
Tensor normal(const Shape& shape, DType dtype);

}  // namespace headway::inline v0::internal
