#include "nn/quantized_product.h"

#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/autograd.h"
#include "headway/ops.h"
#include "nn/initial_values.h"
#include "ops/linear.h"
#include "ops/rowwise.h"

namespace headway::inline v0::internal {

QuantizedWeight initial_quantized(const Tensor& weight) {
  if (!skips_initial_values()) return quantize_weight(weight);
  return {Tensor::empty(weight.shape(), DType::int8), Tensor::empty({weight.size(0)})};
}

// A packed weight, and the tensors that it was made from with their versions at that time.
struct QuantizedProduct::Packed {
  Packed(const QuantizedWeight& quantized, const Tensor& bias) : weight(pack_weight(quantized, bias)) {
    const std::array<Tensor, 3> tensors = {quantized.values, quantized.scales, bias};
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      made_from[i] = {tensors[i], tensors[i].defined() ? tensors[i].version() : 0};
    }
  }

  bool is_of(const QuantizedWeight& quantized, const Tensor& bias) const {
    const std::array<const Tensor*, 3> tensors = {&quantized.values, &quantized.scales, &bias};
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto& [tensor, version] = made_from[i];
      if (tensor.defined() != tensors[i]->defined()) return false;
      if (tensor.defined() && (tensor.raw_data() != tensors[i]->raw_data() || tensors[i]->version() != version)) {
        return false;
      }
    }
    return true;
  }

  PackedWeight weight;
  std::array<std::pair<Tensor, std::uint64_t>, 3> made_from;
};

std::shared_ptr<const QuantizedProduct::Packed> QuantizedProduct::packed(const QuantizedWeight& weight,
                                                                         const Tensor& bias) {
  {
    const std::lock_guard lock(mutex_);
    if (packed_ && packed_->is_of(weight, bias)) return packed_;
  }
  // Not under the lock: packing uses the threads, which may be waiting for it.
  auto made = std::make_shared<const Packed>(weight, bias);
  const std::lock_guard lock(mutex_);
  packed_ = made;
  return made;
}

Tensor QuantizedProduct::forward(const Tensor& x, const QuantizedWeight& weight, const Tensor& bias,
                                 const LinearStepOptions& options) {
  check(x.defined() && x.rank() >= 1 && x.dtype() == DType::float32 && x.size(-1) == weight.values.size(1),
        "linear: x is ", x, ", expected ", DType::float32, "[..., ", weight.values.size(1),
        "] beside a weight in 8 bits");
  check(x.device().is_cpu(), "linear: x is on ", x.device(), " and the weight in 8 bits on the CPU");
  check(!needs_gradient(x, bias),
        "linear: a gradient of x or of the bias is wanted, and a weight in 8 bits has none; expected a NoGradGuard");
  const NoGradGuard guard;
  const Tensor result = linear_step(as_rows(x), packed(weight, bias)->weight, options);
  Shape shape = x.shape();
  shape[-1] = result.size(1);
  return result.view(shape);
}

Tensor quantized_rows(const QuantizedWeight& weight, const Tensor& indices) {
  const std::int64_t count = weight.values.size(0);
  const std::vector<std::int64_t> rows = read_integers("embedding", "indices", indices);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    check(rows[i] >= 0 && rows[i] < count, "embedding: index ", rows[i], " at ",
          indices_of(static_cast<std::int64_t>(i), indices.shape()), " is out of range, expected one of the weight's ",
          count, " rows");
  }
  Shape shape = indices.shape();
  shape.push_back(weight.values.size(1));
  const NoGradGuard guard;
  const Tensor chosen = Tensor::from(rows, {static_cast<std::int64_t>(rows.size())});
  return embed_step(weight, chosen, {}, {}).view(shape);
}

}  // namespace headway::inline v0::internal
