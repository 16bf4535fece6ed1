// Pictures of attention over something that is not text.
#pragma once

#include <string>

#include "explain/media_rows.h"
#include "headway/attention_view.h"

namespace headway::inline v0::internal {

// One layer of a part that has_media(): the mean of its heads where `head` is -1.
std::string draw_media(const AttentionRecord& record, const AttentionPart& part, std::int64_t layer, std::int64_t head);

// A drawing that grows downwards: what is in it, and where the next piece goes.
struct MediaCanvas {
  std::string body;
  double y = 0.0;
};
inline constexpr double kMediaWidth = 900, kMediaMargin = 32;
inline constexpr double kMediaInner = kMediaWidth - 2 * kMediaMargin;

// Each of them draws all rows; one function for each kind of medium.
void draw_tiles(MediaCanvas& canvas, const MediaRows& rows);   // pictures
void draw_frames(MediaCanvas& canvas, const MediaRows& rows);  // videos
void draw_sound(MediaCanvas& canvas, const MediaRows& rows);
void draw_list(MediaCanvas& canvas, const MediaRows& rows);

// "12 %".
std::string percent_text(double weight);

}  // namespace headway::inline v0::internal
