// Which rows of a part over a medium are drawn, and what they are called.
#pragma once

#include <string>
#include <vector>

#include "headway/attention_view.h"

namespace headway::inline v0::internal {

// Whether a side of the part is not text.
bool has_media(const AttentionPart& part);

// What one word, or one head, looks at: a weight for each of the medium's tokens.
struct MediaRow {
  std::string name;            // to be shown, not escaped
  std::vector<float> weights;  // (tokens)
  float largest() const;
};

struct MediaRows {
  const AttentionMedium& medium;
  const std::vector<std::string>& tokens;  // of the medium
  bool reversed = false;                   // the medium looks at the words, not the words at the medium
  std::vector<MediaRow> rows;
  std::int64_t left_out = 0;  // rows past the most that are drawn
};

// One row for each word of the other side (pieces of a word together), of one head, or of the mean of all where `head`
// is -1. Where the other side is a medium too, the row of its class token, of its last item or the mean of all its
// tokens; then the heads one by one, too. `part` has a medium.
MediaRows media_rows(const AttentionPart& part, std::int64_t layer, std::int64_t head);

}  // namespace headway::inline v0::internal
