// The norms of blocks: one of three kinds.
#pragma once

#include <optional>

#include "base/internal_api.h"
#include "headway/transformer_block.h"

namespace headway::inline v0::internal {

struct BlockNormOptions {
  NormKind kind = NormKind::layer;
  std::int64_t width = 0;
  double epsilon = 1e-5;
  bool bias = true;  // of LayerNorm
  DType dtype = DType::float32;
};

// RMS norm times (1 + weight). Parameter: weight, which begins at zero.
class PlusOneNorm : public Module {
 public:
  explicit PlusOneNorm(const BlockNormOptions& options);
  Tensor forward(const Tensor& x) const;

 private:
  double epsilon_;
  Parameter weight_;
};

// A norm, or none.
class BlockNorm {
 public:
  BlockNorm() = default;  // none: the identity
  HEADWAY_INTERNAL_API static BlockNorm make(const BlockNormOptions& options);

  // The module to register; there is one.
  HEADWAY_INTERNAL_API const Module& module() const;
  HEADWAY_INTERNAL_API Tensor forward(const Tensor& x) const;
  // sum = x + dropout(y) and its norm, in one pass where it is a LayerNorm.
  HEADWAY_INTERNAL_API AddNorm add_to(const Dropout& dropout, const Tensor& x, const Tensor& y) const;

 private:
  std::optional<LayerNorm> layer_;
  std::optional<RmsNorm> rms_;
  std::optional<PlusOneNorm> plus_one_;
};

}  // namespace headway::inline v0::internal
