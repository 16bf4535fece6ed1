#include "video/record.h"

#include <headway/image.h>

#include "video/frames.h"

namespace video {
namespace {

using headway::Tensor;

// A clip's patches as tokens: one frame of each tubelet, four times as large.
headway::AttentionMedium medium_of(const VideoOptions& options, const Tensor& pixels) {
  const Tensor strip = frame_strip(pixels.slice(0, 0, kFrames, options.tubelet));
  return {.kind = headway::MediumKind::video,
          .png = headway::encode_png(headway::resize(strip, 4 * strip.size(0), 4 * strip.size(1))),
          .frames = options.times(),
          .rows = options.columns(),
          .columns = options.columns()};
}

// Attention inside groups as attention of all to all: groups [groups, heads, n, n] -> [heads, groups * n, groups * n],
// zero between groups. Token i of group g is number g * n + i, or i * groups + g where the groups are places.
Tensor spread(const Tensor& groups, bool are_places) {
  const std::int64_t count = groups.size(0), heads = groups.size(1), n = groups.size(2), all = count * n;
  Tensor weights = Tensor::zeros({heads, all, all});
  const Tensor source = groups.contiguous();
  const float* in = source.data<float>();
  float* out = weights.data<float>();
  const auto number = [&](std::int64_t group, std::int64_t i) {
    return are_places ? i * count + group : group * n + i;
  };
  for (std::int64_t group = 0; group < count; ++group) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t row = 0; row < n; ++row) {
        for (std::int64_t column = 0; column < n; ++column) {
          out[(head * all + number(group, row)) * all + number(group, column)] = *in++;
        }
      }
    }
  }
  return weights;
}

}  // namespace

Answer answer(const VideoModel& model, const Tensor& pixels) {
  const headway::NoGradGuard guard;
  Answer answer = {.result = model.forward(pixels.unsqueeze(0), headway::Weights::per_head)};
  const Tensor actions = softmax(answer.result.actions), digits = softmax(answer.result.digits);
  answer.action = static_cast<std::int64_t>(argmax(actions).item());
  answer.digit = static_cast<std::int64_t>(argmax(digits).item());
  answer.action_probability = max(actions).item();
  answer.digit_probability = max(digits).item();
  return answer;
}

headway::AttentionRecord record(const VideoModel& model, const Tensor& pixels, const Answer& answer,
                                const std::string& name) {
  const std::string action = kActions[static_cast<std::size_t>(answer.action)];
  const std::string digit = "digit " + std::to_string(answer.digit);
  const headway::AttentionMedium medium = medium_of(model.options(), pixels);
  const std::vector<std::string> patches = headway::medium_labels(medium);
  const auto over_patches = [&](const std::string& part) -> headway::AttentionPart {
    return {
        .name = part, .queries = patches, .keys = patches, .layers = {}, .query_medium = medium, .key_medium = medium};
  };
  headway::AttentionPart answers = {.name = "cross",
                                    .queries = {action, digit},
                                    .keys = patches,
                                    .layers = {answer.result.answers.select(0, 0)},
                                    .key_medium = medium};
  headway::AttentionPart space = over_patches("space"), time = over_patches("time");
  for (const Tensor& weights : answer.result.space) space.layers.push_back(spread(weights, false));
  for (const Tensor& weights : answer.result.time) time.layers.push_back(spread(weights, true));
  return {.source = name, .target = action + ", " + digit, .language = "", .parts = {answers, space, time}};
}

}  // namespace video
