// Numbers as text and back, without loss.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace headway::inline v0::internal {

// The shortest text that reads back as the same number.
template <typename Number>
std::string number_text(Number value) {
  char text[40];  // the longest double has 24 characters
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

// The number that the whole text spells.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc() && stop == end && !text.empty() ? std::optional(value) : std::nullopt;
}

}  // namespace headway::inline v0::internal
