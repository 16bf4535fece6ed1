// Cutting text where it can be cut.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

// The lines of a text, without their ends.
std::vector<std::string_view> split_lines(std::string_view text);

// The sentences of a line without the white space between them. A full stop after a single letter, a number or a common
// abbreviation, or before a small letter, ends none.
std::vector<std::string_view> split_sentences(std::string_view line);

// Parts of a text that each are short enough, cut between words where there are any, else between characters.
std::vector<std::string_view> split_to_fit(std::string_view text, const std::function<bool(std::string_view)>& fits);

}  // namespace headway::inline v0::internal
