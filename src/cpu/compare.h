// Comparisons, choices and extremes on the CPU; the tasks are described in backend/compare_tasks.h.
#pragma once

#include "backend/compare_tasks.h"

namespace headway::inline v0::internal::cpu {

void compare(const CompareTask& task);
void select(const SelectTask& task);
void extreme(const ExtremeTask& task);
void place(const PlaceTask& task);

}  // namespace headway::inline v0::internal::cpu
