// Search with a decoder that was made ready before.
#pragma once

#include <vector>

#include "generate/step_decoder.h"
#include "headway/translator.h"

namespace headway::inline v0::internal {

// search() with a decoder at hand. `text_of` gives the text of tokens, for on_token.
std::vector<std::vector<Hypothesis>> search_with(
    const StepDecoder& decoder, const std::vector<std::vector<std::int64_t>>& sources, const SearchOptions& options,
    const std::function<std::string(const std::vector<std::int64_t>&)>& text_of = {});

}  // namespace headway::inline v0::internal
