// What the gesture model looked at, for the attention page.
#pragma once

#include <headway/attention_view.h>

#include <string>

#include "gestures/model.h"

namespace gestures {

struct Answer {
  std::int64_t label = 0;
  double probability = 0;
  GestureResult result = {};  // of one row, with weights
};
Answer answer(const GestureModel& model, const Row& row);

// The track as 16 frames, each with the points so far. "answer": from the answer, which the class token gives, to the
// points; "encoder": from every token to every token.
headway::AttentionRecord record(const Row& row, const Answer& answer, const std::string& name);

}  // namespace gestures
