// Argument checks: check(cond, "attention: key has ", a, " heads, which does not divide the query's ", b).
#pragma once

#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include "headway/error.h"

namespace headway::inline v0::internal {

// Text and numbers as they are; a Tensor as "float32[2, 3]", a Shape as "[2, 3]", a Device and a DType by their names.
template <typename Part>
void append_part(std::ostream& text, const Part& part) {
  if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    text << std::string_view(part);
  } else if constexpr (std::is_same_v<Part, bool>) {
    text << (part ? "true" : "false");
  } else if constexpr (std::is_arithmetic_v<Part>) {
    text << part;
  } else if constexpr (requires { part.describe(); }) {
    text << part.describe();
  } else if constexpr (requires { part.to_string(); }) {
    text << part.to_string();
  } else if constexpr (requires { part.name(); }) {
    text << part.name();
  } else {
    text << dtype_name(part);
  }
}

// The parts joined.
template <typename... Parts>
[[gnu::cold, gnu::noinline]] std::string join_parts(const Parts&... parts) {
  std::ostringstream text;
  (append_part(text, parts), ...);
  return text.str();
}

// Throws an Error with the parts joined.
template <typename... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  throw Error(join_parts(parts...));
}

// Throws an Error with the parts joined unless the condition holds. A passing check costs a branch, provided that the
// parts are values at hand: pass a Tensor or a Shape itself, never the string made from it.
template <typename... Parts>
inline void check(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]] {
    fail(parts...);
  }
}

}  // namespace headway::inline v0::internal
