// preprocessor_config.json of ViT and CLIP, and the tensors that it asks for.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "headway/image.h"
#include "media/picture_file.h"
#include "media/preprocessor_config.h"
#include "media/resize.h"
#include "media/values.h"

namespace headway::inline v0 {
namespace internal {
namespace {

struct PictureSize {
  std::int64_t height = 0, width = 0, shortest = 0;
};

// {"height": 224, "width": 224}, {"shortest_edge": 224}, or a number, which is the one or the other.
PictureSize size_field(const PreprocessorConfig& config, const char* name, bool number_is_shortest,
                       const PictureSize& otherwise) {
  const Json* value = config.find(name);
  if (value == nullptr) return otherwise;
  const auto side = [&](const Json& number) {
    check(number.is_int64() && number.int64() >= 1 && number.int64() <= kMostPixels, config.file(), ": ", name, " is ",
          value->text(), ", expected sizes from 1 on");
    return number.int64();
  };
  if (!value->is_object()) {
    const std::int64_t number = side(*value);
    return number_is_shortest ? PictureSize{.shortest = number} : PictureSize{.height = number, .width = number};
  }
  const Json* height = value->find("height");
  const Json* width = value->find("width");
  const Json* shortest = value->find("shortest_edge");
  if (height != nullptr && width != nullptr) return {.height = side(*height), .width = side(*width)};
  check(shortest != nullptr && value->fields().size() == 1, config.file(), ": ", name, " is ", value->text(),
        ", expected height and width, or shortest_edge");
  return {.shortest = side(*shortest)};
}

Resampling resampling_field(const PreprocessorConfig& config, Resampling otherwise) {
  const Json* value = config.find("resample");
  if (value == nullptr) return otherwise;
  const std::int64_t number = value->is_int64() ? value->int64() : -1;  // Pillow's
  check(number == 0 || number == 2 || number == 3, config.file(), ": resample is ", value->text(),
        ", expected 0 (nearest), 2 (bilinear) or 3 (bicubic)");
  return number == 0 ? Resampling::nearest : number == 2 ? Resampling::bilinear : Resampling::bicubic;
}

std::vector<double> numbers_field(const PreprocessorConfig& config, const char* name, std::vector<double> otherwise) {
  const Json* value = config.find(name);
  if (value == nullptr) return otherwise;
  check(value->is_array() && !value->items().empty() && value->items().size() <= 4, config.file(), ": ", name, " is ",
        value->text(), ", expected a number for each channel");
  std::vector<double> numbers;
  for (const Json& item : value->items()) {
    check(item.is_number() && std::isfinite(item.number()), config.file(), ": ", name, " is ", value->text(),
          ", expected numbers");
    numbers.push_back(item.number());
  }
  return numbers;
}

// "CLIPImageProcessor", "CLIPFeatureExtractor", "ViTImageProcessorFast", …
bool is_clip(const PreprocessorConfig& config) {
  for (const char* name : {"image_processor_type", "feature_extractor_type"}) {
    const Json* value = config.find(name);
    if (value == nullptr) continue;
    check(value->is_string(), config.file(), ": ", name, " is ", value->text(), ", expected a text");
    const std::string& kind = value->string();
    check(kind.starts_with("CLIP") || kind.starts_with("ViT") || kind.starts_with("DeiT"), config.file(), ": ", name,
          " is ", value->text(), ", expected that of ViT or CLIP");
    return kind.starts_with("CLIP");
  }
  // A file without its kind: what CLIP alone does.
  return config.boolean("do_center_crop", false);
}

constexpr double kClipMean[] = {0.48145466, 0.4578275, 0.40821073};
constexpr double kClipDeviation[] = {0.26862954, 0.26130258, 0.27577711};

PictureInput clip_defaults() {
  PictureInput input;
  input.height = input.width = 0;
  input.shortest = 224;
  input.crop_height = input.crop_width = 224;
  input.resampling = Resampling::bicubic;
  input.mean.assign(std::begin(kClipMean), std::end(kClipMean));
  input.deviation.assign(std::begin(kClipDeviation), std::end(kClipDeviation));
  return input;
}

void check_input(const PictureInput& input) {
  const char* who = "picture_tensor: the input's ";
  const std::int64_t channels = input.channels;
  check(channels == 1 || channels == 3 || channels == 4, who, "channels is ", channels, ", expected 1, 3 or 4");
  check(input.height >= 0 && input.width >= 0 && (input.height == 0) == (input.width == 0), who, "size is ",
        input.width, " x ", input.height);
  check(input.shortest >= 0, who, "shortest is ", input.shortest);
  check(input.crop_height >= 0 && input.crop_width >= 0 && (input.crop_height == 0) == (input.crop_width == 0), who,
        "crop is ", input.crop_width, " x ", input.crop_height);
  check(input.crop_width == 0 || input.crop_height <= kMostPixels / input.crop_width, who, "crop is ", input.crop_width,
        " x ", input.crop_height, ", more than ", kMostPixels, " pixels");
  check(std::isfinite(input.scale), who, "scale is ", input.scale);
  check(input.mean.size() == input.deviation.size(), who, "mean has ", input.mean.size(), " numbers, its deviation ",
        input.deviation.size());
  check(input.mean.empty() || input.mean.size() == static_cast<std::size_t>(channels), who, "mean has ",
        input.mean.size(), " numbers for ", channels, " channels");
  for (const double deviation : input.deviation) check(deviation != 0.0, who, "deviation has a zero");
}

// Whole levels from 0 to 255, which is what Transformers' processors are given.
Tensor levels_of(const Tensor& pixels) {
  const Tensor levels = plain_values(pixels).clone();
  float* const values = levels.data<float>();
  for (std::int64_t i = 0; i < levels.element_count(); ++i) {
    check(!std::isnan(values[i]), "picture_tensor: the picture has a value that is not a number");
    values[i] = std::nearbyint(std::clamp(values[i], 0.0f, 1.0f) * 255.0f);
  }
  return levels;
}

Tensor resized_for(const Tensor& levels, const PictureInput& input) {
  std::int64_t height = input.height;
  std::int64_t width = input.width;
  if (input.shortest > 0) {
    const auto longer = [&](std::int64_t longer_side, std::int64_t shorter_side) {
      const double side = static_cast<double>(input.shortest * longer_side) / static_cast<double>(shorter_side);
      return static_cast<std::int64_t>(side);
    };
    const bool is_upright = levels.size(1) <= levels.size(0);
    height = is_upright ? longer(levels.size(0), levels.size(1)) : input.shortest;
    width = is_upright ? input.shortest : longer(levels.size(1), levels.size(0));
  }
  if (height == 0) return levels;
  check(
      height <= kMostPixels / width && height <= kMostPixels / levels.size(1) && width <= kMostPixels / levels.size(0),
      "picture_tensor: resizing to ", width, " x ", height, " needs too many pixels");
  return resized(levels, height, width, input.resampling, PixelValues::levels);
}

// Half of what is left over, rounded up where zeros are put around the picture and down where it is cut.
std::int64_t crop_start(std::int64_t size, std::int64_t crop) {
  return crop > size ? -((crop - size + 1) / 2) : (size - crop) / 2;
}

}  // namespace
}  // namespace internal

PictureInput PictureInput::load(const std::filesystem::path& directory) {
  using namespace internal;
  const PreprocessorConfig config(directory);
  const bool clip = is_clip(config);
  PictureInput input = clip ? clip_defaults() : PictureInput();
  const PictureSize size =
      size_field(config, "size", clip, {.height = input.height, .width = input.width, .shortest = input.shortest});
  const bool resizes = config.boolean("do_resize", true);
  input.height = resizes ? size.height : 0;
  input.width = resizes ? size.width : 0;
  input.shortest = resizes ? size.shortest : 0;
  const PictureSize crop =
      size_field(config, "crop_size", false, {.height = input.crop_height, .width = input.crop_width});
  check(crop.shortest == 0, config.file(), ": crop_size has shortest_edge, expected height and width");
  const bool crops = config.boolean("do_center_crop", clip);
  check(!crops || crop.height > 0, config.file(), ": do_center_crop is true, and there is no crop_size");
  input.crop_height = crops ? crop.height : 0;
  input.crop_width = crops ? crop.width : 0;
  input.resampling = resampling_field(config, input.resampling);
  config.number("rescale_factor", input.scale);
  if (!config.boolean("do_rescale", true)) input.scale = 1.0;
  input.mean = numbers_field(config, "image_mean", input.mean);
  input.deviation = numbers_field(config, "image_std", input.deviation);
  check(input.mean.size() == input.deviation.size(), config.file(), ": image_mean has ", input.mean.size(),
        " numbers, image_std ", input.deviation.size());
  input.channels = static_cast<std::int64_t>(input.mean.size());
  check(input.channels != 2, config.file(), ": image_mean has 2 numbers, expected 1, 3 or 4");
  if (!config.boolean("do_normalize", true)) {
    input.mean.clear();
    input.deviation.clear();
  }
  return input;
}

void PictureInput::save(const std::filesystem::path& directory) const {
  using namespace internal;
  const bool clip = shortest > 0 || crop_height > 0;
  const auto numbers = [](const std::vector<double>& values) {
    Json list = Json::array();
    for (const double value : values) list.push_back(value);
    return list;
  };
  Json json = Json::object();
  json.set("image_processor_type", clip ? "CLIPImageProcessor" : "ViTImageProcessor");
  json.set("do_convert_rgb", channels == 3);
  json.set("do_resize", shortest > 0 || height > 0);
  if (shortest > 0) json.set("size", Json({{"shortest_edge", shortest}}));
  if (shortest == 0 && height > 0) json.set("size", Json({{"height", height}, {"width", width}}));
  json.set("resample", resampling == Resampling::nearest ? 0 : resampling == Resampling::bilinear ? 2 : 3);
  json.set("do_center_crop", crop_height > 0);
  if (crop_height > 0) json.set("crop_size", Json({{"height", crop_height}, {"width", crop_width}}));
  json.set("do_rescale", scale != 1.0);
  if (scale != 1.0) json.set("rescale_factor", scale);
  json.set("do_normalize", !mean.empty());
  // Of as many channels also where they are not used: load() counts them.
  const std::vector<double> none(static_cast<std::size_t>(channels), 0.0);
  const std::vector<double> one(static_cast<std::size_t>(channels), 1.0);
  json.set("image_mean", numbers(mean.empty() ? none : mean));
  json.set("image_std", numbers(mean.empty() ? one : deviation));
  save_preprocessor_config(directory, json);
}

Tensor picture_tensor(const Picture& picture, const PictureInput& input) {
  using namespace internal;
  check_input(input);
  check(picture.pixels.defined() && picture.pixels.rank() == 3 && picture.pixels.element_count() > 0 &&
            picture.pixels.size(2) == input.channels,
        "picture_tensor: pixels must be [height, width, ", input.channels, "], not ", described(picture.pixels));
  const Tensor levels = resized_for(levels_of(picture.pixels), input);
  const std::int64_t rows = levels.size(0);
  const std::int64_t columns = levels.size(1);
  const std::int64_t height = input.crop_height > 0 ? input.crop_height : rows;
  const std::int64_t width = input.crop_width > 0 ? input.crop_width : columns;
  const std::int64_t top = crop_start(rows, height);
  const std::int64_t left = crop_start(columns, width);
  const Tensor result = Tensor::empty({input.channels, height, width});
  const auto* from = levels.data<const float>();
  float* there = result.data<float>();
  for (std::int64_t channel = 0; channel < input.channels; ++channel) {
    const bool normalizes = !input.mean.empty();
    const auto mean = normalizes ? static_cast<float>(input.mean[static_cast<std::size_t>(channel)]) : 0.0f;
    const auto deviation = normalizes ? static_cast<float>(input.deviation[static_cast<std::size_t>(channel)]) : 1.0f;
    for (std::int64_t y = top; y < top + height; ++y) {
      for (std::int64_t x = left; x < left + width; ++x) {
        const bool is_inside = y >= 0 && y < rows && x >= 0 && x < columns;
        const float level = is_inside ? from[(y * columns + x) * input.channels + channel] : 0.0f;
        *there++ = (static_cast<float>(static_cast<double>(level) * input.scale) - mean) / deviation;
      }
    }
  }
  return result;
}

}  // namespace headway::inline v0
