// Captions of pictures: a vision encoder and a text decoder. Part of libheadway_media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/attention_view.h"
#include "headway/export.h"
#include "headway/image.h"
#include "headway/text_generator.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

namespace internal {
class FeatureGenerator;
}

struct Caption {
  std::vector<GeneratedText> best;  // num_return captions, the best first
  std::string notes;  // what was changed: those of the picture, and what its size became; empty: nothing to note

  const std::string& text() const { return best.front().text; }
  double score() const { return best.front().score; }  // log-probability / length ^ length_penalty
};

// A model that writes what a picture shows, with its tokenizer. Members may be called from several threads at once.
class HEADWAY_API ImageCaptioner {
 public:
  // A directory in the layout of VisionEncoderDecoderModel: config.json, model.safetensors, preprocessor_config.json
  // and a tokenizer. Without a tokenizer captions are token ids alone.
  explicit ImageCaptioner(const std::filesystem::path& directory, const TaskOptions& options = {});
  ImageCaptioner(TransformerModel model, std::optional<TextTokenizer> tokenizer, const PictureInput& input);

  // Pictures of any size. GenerateOptions::prefix is not used.
  Caption caption(const Picture& picture, const GenerateOptions& options = {}) const;
  // A PNG or JPEG file.
  Caption caption(const std::filesystem::path& file, const GenerateOptions& options = {}) const;
  // Captions in the order of the pictures, each the same as alone.
  std::vector<Caption> caption(const std::vector<Picture>& pictures, const GenerateOptions& options = {}) const;

  // The attention while the caption is written: "encoder" among the patches, "decoder", and "cross" from each token to
  // the patches. `caption` is one of caption()'s for this picture.
  AttentionRecord attend(const Picture& picture, const GeneratedText& caption) const;

  const TransformerModel& model() const;
  const std::optional<TextTokenizer>& tokenizer() const;
  // What becomes of a picture before the model reads it.
  const PictureInput& input() const { return input_; }

 private:
  std::shared_ptr<const internal::FeatureGenerator> generator_;
  PictureInput input_;
};

}  // namespace v0
}  // namespace headway
