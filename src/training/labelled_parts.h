// Texts with labels or targets, as a config names them.
#pragma once

#include "text/example_files.h"
#include "training/data_parts.h"

namespace headway::inline v0::internal {

DataParts<LabelledText> read_labelled_parts(const FineTuneConfig& config);

}  // namespace headway::inline v0::internal
