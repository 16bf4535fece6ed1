// Sizes of a front, which need no tensor.
#include "base/check.h"
#include "models/model_front.h"

namespace headway::inline v0::internal {
namespace {

void check_patches(const FrontOptions& options) {
  constexpr std::int64_t kMost = std::int64_t{1} << 16;
  const auto in_range = [&](const char* name, std::int64_t value, std::int64_t most) {
    check(value >= 1 && value <= most, "TransformerModel: ", name, " is ", value, ", expected 1 to ", most);
  };
  in_range("channels", options.channels, kMost);
  in_range("image_height", options.image_height, kMost);
  in_range("image_width", options.image_width, kMost);
  in_range("patch_height", options.patch_height, options.image_height);
  in_range("patch_width", options.patch_width, options.image_width);
  check(options.image_height % options.patch_height == 0 && options.image_width % options.patch_width == 0,
        "TransformerModel: pictures of ", options.image_height, " x ", options.image_width, " are cut into patches of ",
        options.patch_height, " x ", options.patch_width, ", expected a size that the patches divide");
}

}  // namespace

void check_front(const FrontOptions& options) {
  if (options.kind == FrontKind::patches) check_patches(options);
  check(options.kind != FrontKind::sound || options.bins > 0, "TransformerModel: bins is ", options.bins,
        ", expected more than 0");
}

std::int64_t special_positions(const FrontOptions& options) {
  if (options.kind != FrontKind::patches) return 0;
  return (options.class_token ? 1 : 0) + (options.distillation_token ? 1 : 0);
}

}  // namespace headway::inline v0::internal

namespace headway::inline v0 {

std::int64_t front_positions(const FrontOptions& options, const Shape& features) {
  using internal::check;
  constexpr const char* kName = "front_positions";
  check(options.kind != FrontKind::tokens, kName, ": the front reads tokens, which are no features");
  const bool is_sound = options.kind == FrontKind::sound;
  check(features.rank() == (is_sound ? 2 : 3), kName, ": features is ", features, ", expected ",
        is_sound ? "[bins, frames]" : "[channels, height, width]");
  if (is_sound) return (features[1] + 1) / 2;
  internal::check_front(options);
  return internal::special_positions(options) +
         options.image_height / options.patch_height * (options.image_width / options.patch_width);
}

}  // namespace headway::inline v0
