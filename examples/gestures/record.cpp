#include "gestures/record.h"

#include <headway/image.h>

#include <algorithm>
#include <cmath>

namespace gestures {
namespace {

using headway::Tensor;

constexpr std::int64_t kSide = 64;  // pixels of a frame

// Makes a round dot of a brightness.
void dot(float* pixels, std::int64_t stride, double x, double y, double radius, double brightness) {
  for (std::int64_t row = 0; row < kSide; ++row) {
    for (std::int64_t column = 0; column < kSide; ++column) {
      const double edge = radius + 0.5 - std::hypot(static_cast<double>(column) - x, static_cast<double>(row) - y);
      float& pixel = pixels[row * stride + column];
      pixel = std::max(pixel, static_cast<float>(brightness * std::clamp(edge, 0.0, 1.0)));
    }
  }
}

// Frames side by side [side, 16 * side, 1]; the whole track fits into a frame.
Tensor track_strip(const Row& row) {
  double left = 0, right = 0, top = 0, bottom = 0;
  for (std::size_t i = 0; i < row.points.size(); i += 2) {
    left = std::min<double>(left, row.points[i]), right = std::max<double>(right, row.points[i]);
    top = std::min<double>(top, row.points[i + 1]), bottom = std::max<double>(bottom, row.points[i + 1]);
  }
  const double size = std::max({right - left, bottom - top, 0.05}), scale = 0.7 * static_cast<double>(kSide) / size;
  const double middle = static_cast<double>(kSide - 1) / 2;
  constexpr std::int64_t kStride = kPoints * kSide;
  Tensor strip = Tensor::zeros({kSide, kStride, 1});
  for (std::int64_t frame = 0; frame < kPoints; ++frame) {
    float* pixels = strip.data<float>() + frame * kSide;
    double last_x = 0, last_y = 0;
    for (std::int64_t i = 0; i <= frame; ++i) {
      const auto at = static_cast<std::size_t>(2 * i);
      const double x = middle + scale * (static_cast<double>(row.points[at]) - (left + right) / 2);
      const double y = middle + scale * (static_cast<double>(row.points[at + 1]) - (top + bottom) / 2);
      for (int step = 0; i > 0 && step <= 12; ++step) {  // the way from the point before
        dot(pixels, kStride, last_x + (x - last_x) * step / 12, last_y + (y - last_y) * step / 12, 0.8, 0.45);
      }
      last_x = x, last_y = y;
    }
    dot(pixels, kStride, last_x, last_y, 3, 1);
  }
  return strip;
}

}  // namespace

Answer answer(const GestureModel& model, const Row& row) {
  const headway::NoGradGuard guard;
  Answer answer = {.result = model.forward(point_tensor({row}), headway::Weights::per_head)};
  const Tensor probabilities = softmax(answer.result.logits);
  answer.label = static_cast<std::int64_t>(argmax(probabilities).item());
  answer.probability = max(probabilities).item();
  return answer;
}

headway::AttentionRecord record(const Row& row, const Answer& answer, const std::string& name) {
  const headway::AttentionMedium medium = {.kind = headway::MediumKind::video,
                                           .png = headway::encode_png(track_strip(row)),
                                           .first = 1,
                                           .frames = kPoints,
                                           .rows = 1,
                                           .columns = 1};
  std::vector<std::string> tokens = {"class"};
  for (std::int64_t i = 1; i <= kPoints; ++i) tokens.push_back("point " + std::to_string(i));
  const std::string word = kNames[static_cast<std::size_t>(answer.label)];
  headway::AttentionPart first = {
      .name = "answer", .queries = {word}, .keys = tokens, .layers = {}, .key_medium = medium};
  headway::AttentionPart all = {
      .name = "encoder", .queries = tokens, .keys = tokens, .layers = {}, .query_medium = medium, .key_medium = medium};
  for (const Tensor& weights : answer.result.weights) {  // [1, heads, 17, 17]
    first.layers.push_back(weights.select(0, 0).slice(1, 0, 1));
    all.layers.push_back(weights.select(0, 0));
  }
  return {.source = name, .target = word, .language = "", .parts = {first, all}};
}

}  // namespace gestures
