// A small Transformer over the points of a track.
#pragma once

#include <headway/headway.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "gestures/rows.h"

namespace gestures {

struct GestureOptions {
  std::int64_t width = 48;
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  std::int64_t hidden = 96;
  bool blocks = false;  // which split it was trained on: by blocks, or at random
};

struct GestureResult {
  headway::Tensor logits;  // [batch, 4]
  std::vector<headway::Tensor>
      weights;  // of each layer [batch, heads, 17, 17]; the class token comes first; on request
};

class GestureModel : public headway::Module {
 public:
  explicit GestureModel(const GestureOptions& options);
  // points [batch, 16, 2]
  GestureResult forward(const headway::Tensor& points, headway::Weights weights = headway::Weights::none) const;
  const GestureOptions& options() const { return options_; }

  // A directory of config.json and model.safetensors (float16).
  void save(const std::filesystem::path& directory) const;
  static GestureModel load(const std::filesystem::path& directory);

 private:
  GestureOptions options_;
  headway::Linear points_;
  headway::Parameter class_token_;  // (1, width)
  headway::LearnedPositions positions_;
  headway::TransformerEncoder encoder_;
  headway::Linear output_;
};

}  // namespace gestures
