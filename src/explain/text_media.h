// Attention over pictures, sounds and videos in a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "headway/attention_view.h"

namespace headway::inline v0::internal {

// Whether draw_places() can draw the part: one of its sides has a grid.
bool has_places(const AttentionPart& part);
// For each word the picture's patches, the sound's stretches or the video's frames as blocks; the mean of the heads
// where `drawing.what.head` is -1.
std::string draw_places(const AttentionPart& part, std::int64_t layer, const TerminalDrawing& drawing);

}  // namespace headway::inline v0::internal
