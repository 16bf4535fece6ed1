// The CPU as a backend of the operations.
#pragma once

#include "backend/backend.h"

namespace headway::inline v0::internal::cpu {

Backend& backend();

}  // namespace headway::inline v0::internal::cpu
