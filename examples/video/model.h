// A Transformer over clips with divided attention: in each layer over space, then over time, then a feed-forward
// network.
#pragma once

#include <headway/headway.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "video/clips.h"

namespace video {

struct VideoOptions {
  std::int64_t tubelet = 2;  // frames of a patch
  std::int64_t patch = 12;   // pixels of a patch's side
  std::int64_t stride = 6;   // pixels from a patch to the next one: patches overlap
  std::int64_t stem = 192;   // between the two products that make a patch a token
  std::int64_t width = 96;
  std::int64_t heads = 4;
  std::int64_t layers = 3;
  std::int64_t hidden = 288;  // of the feed-forward networks

  std::int64_t times() const { return kFrames / tubelet; }
  std::int64_t columns() const { return (kSide - patch) / stride + 1; }
  std::int64_t places() const { return columns() * columns(); }
};

// One layer. T: times, P: places.
struct DividedResult {
  headway::Tensor output;  // [batch, T, P, width]
  headway::Tensor space;   // [batch * T, heads, P, P], on request
  headway::Tensor time;    // [batch * P, heads, T, T], on request
};
class DividedLayer : public headway::Module {
 public:
  explicit DividedLayer(const VideoOptions& options);
  DividedResult forward(const headway::Tensor& x, headway::Weights weights) const;

 private:
  headway::LayerNorm space_norm_;
  headway::MultiHeadAttention space_;
  headway::LayerNorm time_norm_;
  headway::MultiHeadAttention time_;
  headway::LayerNorm feed_forward_norm_;
  headway::FeedForward feed_forward_;
};

struct VideoResult {
  headway::Tensor actions;                   // [batch, 9]
  headway::Tensor digits;                    // [batch, 10]
  headway::Tensor answers;                   // [batch, heads, 2, T * P]: where each question looks, on request
  std::vector<headway::Tensor> space, time;  // of each layer, on request
};
class VideoModel : public headway::Module {
 public:
  explicit VideoModel(const VideoOptions& options);
  // Clips [batch, frames, side, side], 0 to 1.
  VideoResult forward(const headway::Tensor& clips, headway::Weights weights = headway::Weights::none) const;
  const VideoOptions& options() const { return options_; }

  // A directory of config.json and model.safetensors (float16).
  void save(const std::filesystem::path& directory) const;
  static VideoModel load(const std::filesystem::path& directory);

 private:
  VideoOptions options_;
  headway::Linear patches_;
  headway::Linear tokens_;
  headway::Parameter space_positions_;  // (P, width)
  headway::Parameter time_positions_;   // (T, width)
  std::vector<DividedLayer> layers_;
  headway::LayerNorm norm_;
  headway::Parameter questions_;  // (2, width): which action? which digit?
  headway::MultiHeadAttention answer_;
  headway::LayerNorm answer_norm_;
  headway::Linear action_;
  headway::Linear digit_;
};

}  // namespace video
