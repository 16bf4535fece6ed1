// The table behind TranslationTrainingConfig.
#pragma once

#include <string>
#include <string_view>

#include "headway/translation_training.h"
#include "training/config_table.h"

namespace headway::inline v0::internal {

// All fields in the order of the struct.
const ConfigTable<TranslationTrainingConfig>& translation_config_table();

// A field's value as text: what TranslationTrainingConfig::set() takes.
std::string config_text(const TranslationTrainingConfig& config, std::string_view name);

}  // namespace headway::inline v0::internal
