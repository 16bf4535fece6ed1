// Steps of decoding on the CPU, one row after the other.
#pragma once

#include "backend/decoding_tasks.h"

namespace headway::inline v0::internal::cpu {

void embed_step(const EmbedStep& task);
void cache_attention(const CacheAttention& task);
void top_tokens(const TopTask& task);
void take_best(const TakeBest& task);
void gather_rows(const GatherRows& task);

}  // namespace headway::inline v0::internal::cpu
