// How a TranslationModel is made of a TransformerModel.
#pragma once

#include "headway/translation_model.h"
#include "models/model_directory.h"
#include "models/transformer_model_parts.h"

namespace headway::inline v0::internal {

// A model of these options without initial values. Unless the row of <pad> is trained, the output gives it no gradient.
TransformerModel make_translation_transformer(const TranslationModelOptions& options, bool trains_pad_row,
                                              DType dtype = DType::float32);

}  // namespace headway::inline v0::internal
