// Remarks on a file that was read, separated by semicolons.
#pragma once

#include <string>

#include "base/check.h"

namespace headway::inline v0::internal {

template <typename... Parts>
void add_note(std::string& notes, const Parts&... parts) {
  if (!notes.empty()) notes += "; ";
  notes += join_parts(parts...);
}

}  // namespace headway::inline v0::internal
