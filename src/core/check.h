// Argument checks: check(cond, "attention: key has ", a, " heads, which does not divide the query's ", b).
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include "headway/device.h"
#include "headway/dtype.h"
#include "headway/error.h"
#include "headway/shape.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

inline void append_part(std::ostream& text, std::string_view part) { text << part; }
inline void append_part(std::ostream& text, const char* part) { text << part; }
inline void append_part(std::ostream& text, bool part) { text << (part ? "true" : "false"); }
inline void append_part(std::ostream& text, DType part) { text << dtype_name(part); }
inline void append_part(std::ostream& text, Device part) { text << part.name(); }
inline void append_part(std::ostream& text, const Shape& part) { text << part.to_string(); }
inline void append_part(std::ostream& text, const Tensor& part) { text << part.describe(); }
template <typename Number>
requires(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>) void append_part(std::ostream& text,
                                                                                         Number part) {
  text << part;
}

// Throws an Error with the parts joined: text, numbers, Shape, DType, Device and Tensor (as "float32[2, 3]").
template <typename... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (append_part(text, parts), ...);
  throw Error(text.str());
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
