// What the video model looked at, for the attention page.
#pragma once

#include <headway/attention_view.h>

#include <string>

#include "video/model.h"

namespace video {

struct Answer {
  std::int64_t action = 0, digit = 0;
  double action_probability = 0, digit_probability = 0;
  VideoResult result = {};  // of one clip, with weights
};
// The answer for one clip [frames, side, side].
Answer answer(const VideoModel& model, const headway::Tensor& pixels);

// "cross": from the words to the patches of all times; "space" and "time": from patches to patches, layer by layer.
headway::AttentionRecord record(const VideoModel& model, const headway::Tensor& pixels, const Answer& answer,
                                const std::string& name);

}  // namespace video
