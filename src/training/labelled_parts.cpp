// Reading texts with labels or targets.
#include "training/labelled_parts.h"

namespace headway::inline v0::internal {

DataParts<LabelledText> read_labelled_parts(const FineTuneConfig& config) {
  return read_parts<LabelledText>(config, [&](const std::filesystem::path& file, const std::string& names) {
    return read_labelled_texts(file, {.text = config.text_field, .label = config.label_field, .parts = names});
  });
}

}  // namespace headway::inline v0::internal
