// Products of weights in 8 bits.
#pragma once

#include "backend/decoding_tasks.h"

namespace headway::inline v0::internal::cpu {

// weight [out, in] int8 in panels: [panels, bytes] int8. Their form depends on the instruction set.
Tensor pack_quantized_weight(const Tensor& weight);

// A linear step whose weight was packed so, and has scales.
void quantized_linear_step(const LinearStep& task);

}  // namespace headway::inline v0::internal::cpu
