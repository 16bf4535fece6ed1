// Products with a weight that stays the same for many calls of few rows.
#pragma once

#include <cstdint>

#include "headway/ops.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

// x W^T + b. For few rows the time goes into reading the weight, so there is a copy of it in the order in which a
// product of few rows reads it; many rows use the weight itself, and so does a device.
class StepProduct {
 public:
  StepProduct() = default;
  // weight [out, in], bias [out]; both are shared, not copied.
  StepProduct(const Tensor& weight, const Tensor& bias);

  // activation(x W^T + b), or added + x W^T + b where `added` is given: x [rows, in] -> [rows, out].
  Tensor operator()(const Tensor& x, Activation activation = Activation::none, const Tensor& added = {}) const;

 private:
  Tensor of_few_rows(const Tensor& x, Activation activation, const Tensor& added) const;

  Tensor weight_;  // [out, in]
  Tensor bias_;    // [out]
  Tensor panels_;  // [panels, in, panel_columns]: outputs side by side, those past the last are zero; on the CPU alone
};

}  // namespace headway::inline v0::internal
