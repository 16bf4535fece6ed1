// Names and codes of languages, and a guess at what language a text is in.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

// The one of `codes` that a name stands for: a code itself, another code of the same language ("de", "ger", "deu") or
// its name in English or in itself; whatever the case.
std::optional<std::string> find_language(std::string_view name, const std::vector<std::string>& codes);

// Which of two codes a text's language is, by the most common words of both; nothing where that does not tell.
std::optional<std::string> guess_language(std::string_view text, const std::string& first, const std::string& second);

}  // namespace headway::inline v0::internal
