// From features to rows of an encoder's width: patches of pictures, frames of sound.
#pragma once

#include <memory>

#include "headway/transformer_model.h"

namespace headway::inline v0::internal {

// Throws where sizes are missing or do not fit; the message begins with "TransformerModel: ".
void check_front(const FrontOptions& options);

// How many positions of the encoder come before those of the patches.
std::int64_t special_positions(const FrontOptions& options);

// Features of a call: a batch of one picture or sound each, floating. Throws in the function's name.
void check_features(const char* function, const FrontOptions& options, const Tensor& features);

// Parameters: projection.{weight,bias}, class_token, distillation_token of patches; conv1.*, conv2.* of sound.
class ModelFront : public Module {
 public:
  ModelFront(const FrontOptions& options, std::int64_t width, DType dtype);
  // Checked features -> [batch, positions, width].
  Tensor forward(const Tensor& features) const;
  // The first product's.
  const Tensor& main_weight() const;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace headway::inline v0::internal
