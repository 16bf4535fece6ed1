// ImageCaptioner: pictures to tensors, generation from the encoder's memory, and what the tokens looked at.
#include "headway/image_captioner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "explain/model_tokens.h"
#include "headway/autograd.h"
#include "tasks/feature_generator.h"

namespace headway::inline v0 {

using internal::check;

namespace {

constexpr const char* kCaption = "caption";
constexpr const char* kAttend = "attend";

void check_picture(const char* function, std::size_t number, const Picture& picture, const PictureInput& input) {
  const Tensor& pixels = picture.pixels;
  check(pixels.defined() && pixels.rank() == 3 && pixels.element_count() > 0, function, ": picture ", number, " is ",
        pixels.defined() ? pixels.describe() : std::string("undefined"), ", expected pixels [height, width, ",
        input.channels, "]");
  check(pixels.size(2) == input.channels, function, ": picture ", number, " has ", pixels.size(2),
        " channels, and the model reads ", input.channels);
}

std::string size_text(std::int64_t height, std::int64_t width) {
  return std::to_string(width) + " x " + std::to_string(height);
}

// What the picture's size becomes, where it loses its proportion or its edges, or was smaller than what is read.
std::string size_note(const Picture& picture, const PictureInput& input) {
  const std::int64_t height = picture.pixels.size(0), width = picture.pixels.size(1);
  if (input.crop_height > 0 && height * input.crop_width != width * input.crop_height) {
    return "cut from " + size_text(height, width) + " pixels to the middle";
  }
  if (input.crop_height > 0 || input.shortest > 0 || input.height == 0) return "";
  const std::string sizes =
      "from " + size_text(height, width) + " to " + size_text(input.height, input.width) + " pixels";
  if (height * input.width != width * input.height) return "stretched " + sizes;
  return height < input.height ? "enlarged " + sizes : "";
}

// The part of the picture that the model reads, in colours from 0 to 1.
Tensor read_part(const Picture& picture, PictureInput input) {
  if (input.crop_height == 0 && input.shortest == 0) return picture.pixels;
  input.scale = 1.0 / 255.0;
  input.mean.clear();
  input.deviation.clear();
  return picture_tensor(picture, input).permute({1, 2, 0}).contiguous();
}

AttentionMedium medium_of(const FrontOptions& front, const Tensor& pixels) {
  constexpr std::int64_t kLongestSide = 512;  // enough to be seen, and a page stays small
  const std::int64_t height = pixels.size(0), width = pixels.size(1), longest = std::max(height, width);
  const auto shown = [longest](std::int64_t side) {
    return longest <= kLongestSide ? side : std::max<std::int64_t>(1, side * kLongestSide / longest);
  };
  return {.kind = MediumKind::picture,
          .png = encode_png(resize(pixels, shown(height), shown(width))),
          .first = (front.class_token ? 1 : 0) + (front.distillation_token ? 1 : 0),
          .rows = front.image_height / front.patch_height,
          .columns = front.image_width / front.patch_width};
}

}  // namespace

ImageCaptioner::ImageCaptioner(const std::filesystem::path& directory, const TaskOptions& options)
    : ImageCaptioner(TransformerModel::load(directory, {.dtype = options.dtype, .device = options.device}),
                     TextTokenizer::is_in(directory) ? std::optional(TextTokenizer::load(directory)) : std::nullopt,
                     PictureInput::load(directory)) {}

ImageCaptioner::ImageCaptioner(TransformerModel model, std::optional<TextTokenizer> tokenizer,
                               const PictureInput& input)
    : generator_(std::make_shared<const internal::FeatureGenerator>(std::move(model), std::move(tokenizer))),
      input_(input) {
  const FrontOptions& front = this->model().options().encoder.front;
  check(front.kind == FrontKind::patches, "the model of family ", this->model().family(),
        " reads sound, expected one of pictures, as vision-encoder-decoder");
  check(input_.channels == front.channels, "preprocessor_config.json makes ", input_.channels,
        " channels, and the model reads ", front.channels);
  const bool crops = input_.crop_height > 0;
  const std::int64_t height = crops ? input_.crop_height : input_.height;
  const std::int64_t width = crops ? input_.crop_width : input_.width;
  check(height == front.image_height && width == front.image_width, "preprocessor_config.json makes pictures of ",
        size_text(height, width), " pixels, and the model reads ", size_text(front.image_height, front.image_width));
}

const TransformerModel& ImageCaptioner::model() const { return generator_->model(); }
const std::optional<TextTokenizer>& ImageCaptioner::tokenizer() const { return generator_->tokenizer(); }

Caption ImageCaptioner::caption(const Picture& picture, const GenerateOptions& options) const {
  return std::move(caption(std::vector<Picture>{picture}, options).front());
}

Caption ImageCaptioner::caption(const std::filesystem::path& file, const GenerateOptions& options) const {
  return caption(read_picture(file, input_.channels), options);
}

std::vector<Caption> ImageCaptioner::caption(const std::vector<Picture>& pictures,
                                             const GenerateOptions& options) const {
  std::vector<internal::FeatureRequest> requests;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    check_picture(kCaption, i, pictures[i], input_);
    requests.push_back({.features = picture_tensor(pictures[i], input_)});
  }
  std::vector<std::vector<GeneratedText>> texts = generator_->generate(kCaption, requests, options);
  std::vector<Caption> captions;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string size = size_note(pictures[i], input_), &read = pictures[i].notes;
    captions.push_back(
        {.best = std::move(texts[i]), .notes = read + (read.empty() || size.empty() ? "" : "; ") + size});
  }
  return captions;
}

AttentionRecord ImageCaptioner::attend(const Picture& picture, const GeneratedText& caption) const {
  check_picture(kAttend, 0, picture, input_);
  const auto count = static_cast<std::int64_t>(caption.tokens.size());
  check(count > 0, kAttend, ": the caption has no tokens");
  const TransformerModelOptions& options = model().options();
  const std::optional<std::int64_t> start = options.decoder_start_id ? options.decoder_start_id : options.bos_id;
  check(start.has_value(), "config.json: there is no decoder_start_token_id");
  std::vector<std::int64_t> read = {*start};
  read.insert(read.end(), caption.tokens.begin(), caption.tokens.end() - 1);

  const NoGradGuard no_gradients;
  const ModelResult result = model().forward({.features = picture_tensor(picture, input_).unsqueeze(0),
                                              .target = Tensor::from(read, {1, count}),
                                              .weights = Weights::per_head});
  MediaTokens tokens = {.medium = medium_of(options.encoder.front, read_part(picture, input_))};
  const auto shown = [this](std::int64_t id) {
    return tokenizer() ? internal::shown_token(*tokenizer(), id) : std::to_string(id);
  };
  std::ranges::transform(read, std::back_inserter(tokens.read), shown);
  std::ranges::transform(caption.tokens, std::back_inserter(tokens.written), shown);
  AttentionRecord record = attention_record(result, tokens);
  record.target = caption.text;
  return record;
}

}  // namespace headway::inline v0
