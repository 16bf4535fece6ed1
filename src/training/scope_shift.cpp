#include "training/scope_shift.h"

#include <algorithm>

namespace headway::inline v0::internal {

double scope_shift(std::vector<double> margins, std::int64_t count, double cost) {
  if (margins.empty()) return 0.0;
  std::sort(margins.begin(), margins.end());
  constexpr double kRounding = 1e-9;  // so that 10% of 30 are 3
  const auto lost = static_cast<std::size_t>(cost / 100.0 * static_cast<double>(count) + kRounding);
  if (lost >= margins.size()) return margins.back() + 1.0;
  // Halfway between the last text that is lost and the first that is kept; of equal margins all are kept.
  const double kept = margins[lost];
  const auto first = std::lower_bound(margins.begin(), margins.end(), kept);
  const double before = first == margins.begin() ? 0.0 : *std::prev(first);
  return (before + kept) / 2.0;
}

}  // namespace headway::inline v0::internal
