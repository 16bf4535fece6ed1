#include "base/markup.h"

#include "base/base64.h"
#include "base/sha256.h"

namespace headway::inline v0::internal {

std::string escape_markup(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string policy_hash(std::string_view text) { return "'sha256-" + base64(sha256(text)) + "'"; }

}  // namespace headway::inline v0::internal
