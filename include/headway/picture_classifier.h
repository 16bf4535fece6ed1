// Pictures to labels with scores. Part of libheadway_media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/image.h"
#include "headway/tensor.h"
#include "headway/text_classifier.h"
#include "headway/text_task.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

struct PictureClassification {
  std::vector<LabelScore> labels;  // the best first
  std::string notes;               // what was changed: "alpha over white; resized from 640 x 480 to 8 x 8"; often empty

  const std::string& label() const { return labels.front().label; }
  double score() const { return labels.front().score; }
};

// A model that reads patches of a picture and has a classification head, as ViTForImageClassification, with the
// preprocessor_config.json beside it. Members may be called from several threads at once.
class HEADWAY_API PictureClassifier {
 public:
  explicit PictureClassifier(const std::filesystem::path& directory, const TaskOptions& options = {});
  // The model must be in evaluation mode.
  PictureClassifier(TransformerModel model, PictureInput input);

  // The labels of each picture, in the order of the pictures; `most` of each, 0: all.
  std::vector<PictureClassification> classify(const std::vector<Picture>& pictures, std::int64_t most = 0) const;
  // The same of PNG and JPEG files. One that cannot be read is an Error that begins with its name.
  std::vector<PictureClassification> classify_files(const std::vector<std::filesystem::path>& files,
                                                    std::int64_t most = 0) const;
  // The logits of each picture: float32 [pictures, labels] on the CPU.
  Tensor logits(const std::vector<Picture>& pictures) const;

  const std::vector<std::string>& labels() const;
  // The size, channels and scaling that pictures are brought to.
  const PictureInput& input() const;
  const TransformerModel& model() const;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace v0
}  // namespace headway
