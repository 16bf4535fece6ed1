// ViT's encoder, which is a family by itself and a part of others.
#pragma once

#include <string>
#include <vector>

#include "models/family_options.h"

namespace headway::inline v0::internal {

// A picture's size in a config: one number for both, or [height, width].
struct PictureSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
};
PictureSize read_picture_size(const ModelConfig& config, const char* field, std::int64_t otherwise);

// The front of pictures of image_size in patches of patch_size, which must divide it.
FrontOptions read_patches(const ModelConfig& config, std::int64_t image_size, std::int64_t patch_size);

// The encoder without a head; the positions are those of the class token and the patches.
StackOptions read_vit_encoder(const ModelConfig& config);
// The names of its tensors, which begin with `prefix`, and that of the pooler.
std::vector<TensorName> vit_encoder_names(const StackOptions& encoder, const std::string& prefix);

}  // namespace headway::inline v0::internal
