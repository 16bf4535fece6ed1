// Names and codes of languages, and a guess at what language a text is in.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/internal_api.h"

namespace headway::inline v0::internal {

// The one of `codes` that a name refers to: a code itself, another code of the same language ("de", "ger", "deu") or
// its name in English or in itself, in any case of letters.
HEADWAY_INTERNAL_API std::optional<std::string> find_language(std::string_view name,
                                                              const std::vector<std::string>& codes);

// The language's name in English, as "German" for "deu", "de" or "ger"; an unknown code, or one with a country or a
// script ("pt-BR"), is returned unchanged.
std::string language_name(std::string_view code);

// ">>deu<<" in front of a text, where "deu" is one of `codes`: the code, and the text after it. Else "" and the text.
struct CodedText {
  std::string_view code;
  std::string_view body;
};
CodedText split_language_code(std::string_view text, const std::vector<std::string>& codes);

// The target language of a text that names none: "" in a model without codes, the only code where there is one, and of
// two the one that the text is not in, by its common words. Nothing where they do not decide.
std::optional<std::string> choose_target_language(std::string_view text, const std::vector<std::string>& codes);

// Which of two codes a text's language is, by the most common words of both; nothing where they do not decide.
std::optional<std::string> guess_language(std::string_view text, const std::string& first, const std::string& second);

}  // namespace headway::inline v0::internal
