// PictureClassifier: pictures as tensors, logits, scores.
#include "headway/picture_classifier.h"

#include <algorithm>

#include "base/check.h"
#include "headway/autograd.h"
#include "tasks/label_scores.h"
#include "tasks/task_model.h"

namespace headway::inline v0 {

namespace internal {
namespace {

constexpr std::size_t kPicturesTogether = 64;

std::string size_text(std::int64_t height, std::int64_t width) {
  return std::to_string(width) + " x " + std::to_string(height);
}

// The notes of reading, and the new size where it is another one.
std::string notes_of(const Picture& picture, const Tensor& tensor) {
  const std::int64_t height = picture.pixels.size(0), width = picture.pixels.size(1);
  if (height == tensor.size(1) && width == tensor.size(2)) return picture.notes;
  return picture.notes + (picture.notes.empty() ? "" : "; ") + "resized from " + size_text(height, width) + " to " +
         size_text(tensor.size(1), tensor.size(2));
}

// Throws unless the model reads pictures of this size.
void check_input(const TransformerModel& model, const PictureInput& input) {
  const TransformerModelOptions& options = model.options();
  const FrontOptions& front = options.encoder.front;
  check(options.kind == ModelKind::encoder && front.kind == FrontKind::patches, "the ", model.family(),
        " model does not read pictures, expected one as \"vit\"");
  check(options.head.kind == HeadKind::sequence, "the ", model.family(),
        " model has another head or none, expected an architecture that ends in ForImageClassification");
  check(input.channels == front.channels, "preprocessor_config.json gives ", input.channels,
        " channels, and the model reads ", front.channels);
  const bool cropped = input.crop_height > 0;
  const std::int64_t height = cropped ? input.crop_height : input.height;
  const std::int64_t width = cropped ? input.crop_width : input.width;
  check(height == front.image_height && width == front.image_width, "preprocessor_config.json gives pictures of ",
        size_text(height, width), " pixels, and the model reads ", size_text(front.image_height, front.image_width));
}

}  // namespace
}  // namespace internal

struct PictureClassifier::Parts {
  Parts(TransformerModel with_model, PictureInput with_input)
      : model(std::move(with_model)), input(std::move(with_input)), labels(internal::label_names(model.options())) {
    internal::check_input(model, input);
    scores = internal::scores_of_config(model.config(), model.options().head.labels);
    const Tensor parameter = model.parameters().front();
    device = parameter.device();
    dtype = parameter.dtype();
  }

  // float32 [pictures, labels] on the CPU.
  Tensor logits_of(const std::vector<Tensor>& tensors) const {
    const NoGradGuard guard;
    const Tensor features = stack(tensors).to(dtype).to(device);  // [pictures, channels, height, width]
    return model.forward({.features = features}).logits.to(Device::cpu()).to(DType::float32).contiguous();
  }

  TransformerModel model;
  PictureInput input;
  std::vector<std::string> labels;
  LabelScores scores = LabelScores::softmax;
  Device device;
  DType dtype = DType::float32;
};

PictureClassifier::PictureClassifier(const std::filesystem::path& directory, const TaskOptions& options)
    : parts_(std::make_shared<const Parts>(
          TransformerModel::load(directory, {.dtype = options.dtype, .device = options.device}),
          PictureInput::load(directory))) {}

PictureClassifier::PictureClassifier(TransformerModel model, PictureInput input)
    : parts_(std::make_shared<const Parts>(std::move(model), std::move(input))) {}

std::vector<PictureClassification> PictureClassifier::classify(const std::vector<Picture>& pictures,
                                                               std::int64_t most) const {
  internal::check(most >= 0, "PictureClassifier: most is ", most, ", expected at least 1, or 0 for all");
  std::vector<PictureClassification> results;
  for (std::size_t first = 0; first < pictures.size(); first += internal::kPicturesTogether) {
    std::vector<Tensor> tensors;
    for (std::size_t i = first; i < std::min(pictures.size(), first + internal::kPicturesTogether); ++i) {
      tensors.push_back(picture_tensor(pictures[i], parts_->input));
    }
    const Tensor logits = parts_->logits_of(tensors);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const float* const row = logits.data<float>() + i * parts_->labels.size();
      results.push_back({internal::best_labels(parts_->labels, row, parts_->scores, most),
                         internal::notes_of(pictures[first + i], tensors[i])});
    }
  }
  return results;
}

std::vector<PictureClassification> PictureClassifier::classify_files(const std::vector<std::filesystem::path>& files,
                                                                     std::int64_t most) const {
  std::vector<PictureClassification> results;
  for (std::size_t first = 0; first < files.size(); first += internal::kPicturesTogether) {
    std::vector<Picture> pictures;
    for (std::size_t i = first; i < std::min(files.size(), first + internal::kPicturesTogether); ++i) {
      pictures.push_back(read_picture(files[i], parts_->input.channels));
    }
    for (PictureClassification& one : classify(pictures, most)) results.push_back(std::move(one));
  }
  return results;
}

Tensor PictureClassifier::logits(const std::vector<Picture>& pictures) const {
  if (pictures.empty()) return Tensor::empty({0, static_cast<std::int64_t>(parts_->labels.size())});
  std::vector<Tensor> tensors;
  tensors.reserve(pictures.size());
  for (const Picture& picture : pictures) tensors.push_back(picture_tensor(picture, parts_->input));
  return parts_->logits_of(tensors);
}

const std::vector<std::string>& PictureClassifier::labels() const { return parts_->labels; }
const PictureInput& PictureClassifier::input() const { return parts_->input; }
const TransformerModel& PictureClassifier::model() const { return parts_->model; }

}  // namespace headway::inline v0
