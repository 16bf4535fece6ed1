// The attention of one word, head by head, for a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "headway/attention_view.h"

namespace headway::inline v0::internal {

// For each head of a layer, the keys that `drawing.word` attends to most, with bars; throws when no query spells the
// word.
std::string draw_word(const AttentionRecord& record, const AttentionPart& part, std::int64_t layer,
                      const TerminalDrawing& drawing);

}  // namespace headway::inline v0::internal
