// How far the logit of an out-of-scope label may be raised.
#pragma once

#include <cstdint>
#include <vector>

namespace headway::inline v0::internal {

// What may be added to the logit of the out-of-scope label so that at most `cost` percent of `count` in-scope texts are
// lost. margins: of those that are labelled rightly, by how much their logit is above that of the out-of-scope label.
double scope_shift(std::vector<double> margins, std::int64_t count, double cost);

}  // namespace headway::inline v0::internal
