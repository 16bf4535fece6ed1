// The table behind FineTuneConfig.
#pragma once

#include "headway/fine_tuning.h"
#include "training/config_table.h"

namespace headway::inline v0::internal {

// All fields in the order of the struct.
const ConfigTable<FineTuneConfig>& fine_tune_table();

}  // namespace headway::inline v0::internal
