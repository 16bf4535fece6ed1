// Which queries and keys belong together, where they start and which positions they have.
#pragma once

#include <cstdint>
#include <vector>

#include "headway/attention.h"

namespace headway_test {

// The queries and keys that see each other: a batch entry, or a sequence of a packed batch.
struct Sequence {
  std::int64_t batch, index;
  std::int64_t query_begin, query_count;
  std::int64_t key_begin, key_count;
  std::int64_t key_length;  // non-padding keys
  std::int64_t offset;      // the first query's position
};

// The batch entries of a problem, or the sequences of a packed one.
std::vector<Sequence> sequences_of(const headway::AttentionBackward& problem);

}  // namespace headway_test
