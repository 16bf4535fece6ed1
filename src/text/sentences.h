// Splitting texts into lines, sentences and parts.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

// The lines of a text, without their ends.
std::vector<std::string_view> split_lines(std::string_view text);

// The sentences of a line without the white space between them. A full stop does not end a sentence after a single
// letter, a number or a common abbreviation, or before a small letter.
std::vector<std::string_view> split_sentences(std::string_view line);

// Parts of a text that `fits` accepts, cut between words where possible, else between characters.
std::vector<std::string_view> split_to_fit(std::string_view text, const std::function<bool(std::string_view)>& fits);

}  // namespace headway::inline v0::internal
