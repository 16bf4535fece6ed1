// Who uses which slot of a thread's scratch memory (core/scratch.h). Attention computes products of its own, and a
// product may run inside a task of attention, so that the two share none.
#pragma once

#include "core/scratch.h"

namespace headway::inline v0::internal::cpu {

inline constexpr int kAttentionWorkspaceSlot = 0;
inline constexpr int kAttentionPackSlot = 1;
inline constexpr int kMatmulWorkspaceSlot = 2;
inline constexpr int kMatmulPackSlot = 3;
static_assert(kMatmulPackSlot < kScratchSlots);

}  // namespace headway::inline v0::internal::cpu
