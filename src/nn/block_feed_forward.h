// The feed-forward network of a block.
#pragma once

#include <memory>
#include <optional>

#include "headway/transformer_block.h"
#include "nn/quantized_product.h"

namespace headway::inline v0::internal {

// Parameters: {up,down}.{weight,bias}, with gate.* or with gate_up.* for up.* where gated.
class BlockFeedForward : public Module {
 public:
  explicit BlockFeedForward(const BlockOptions& options);
  Tensor forward(const Tensor& x) const;

 private:
  Tensor gated_hidden(const Tensor& x) const;  // [batch, length, hidden]

  Activation activation_;
  std::int64_t hidden_;
  std::optional<Linear> gate_up_;                      // (2 * hidden, width)
  std::shared_ptr<QuantizedProduct> gate_up_product_;  // where it is in 8 bits
  std::optional<Linear> gate_;
  std::optional<Linear> up_;
  Linear down_;
  Dropout dropout_;
};

}  // namespace headway::inline v0::internal
