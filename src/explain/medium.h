// What tokens are cut from where they are not text: checks, places, and the medium as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "headway/attention_view.h"

namespace headway::inline v0::internal {

// Throws in `function`'s name unless the medium is whole and stands for `tokens` tokens; `what` names it in the
// message.
void check_medium(const char* function, const std::string& what, const AttentionMedium& medium, std::int64_t tokens);

// Whether the tokens lie on a grid: pictures, sounds and videos.
inline bool has_grid(const AttentionMedium& medium) {
  return medium.kind != MediumKind::text && medium.kind != MediumKind::list;
}

struct PictureSize {
  std::int64_t width = 0, height = 0;
};
// The size that a PNG's header names; {0, 0} where there is no PNG.
PictureSize png_size(const std::string& png);

// "text", "picture", "sound", "video" or "list".
const char* medium_name(MediumKind kind);
// {"kind":"picture",...} with the PNG in base64.
std::string medium_json(const AttentionMedium& medium);

}  // namespace headway::inline v0::internal
