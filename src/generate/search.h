// Search with a decoder that was prepared before.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generate/step_decoder.h"
#include "headway/translator.h"

namespace headway::inline v0::internal {

// search() with the prepared decoder of a model. `text_of` returns the text of tokens, for on_token.
std::vector<std::vector<Hypothesis>> search_with(
    const StepDecoder& decoder, const TranslationModelOptions& model,
    const std::vector<std::vector<std::int64_t>>& sources, const SearchOptions& options,
    const std::function<std::string(const std::vector<std::int64_t>&)>& text_of = {});

}  // namespace headway::inline v0::internal
