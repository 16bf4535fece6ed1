#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "support/epsilon.h"
#include "support/reference.h"

namespace headway_test {
namespace {

using headway::DType;

// The error of one element; NaN and infinity are only right where the reference has the same.
double difference(double actual, double exact) {
  if (actual == exact || (std::isnan(actual) && std::isnan(exact))) return 0;
  const double error = std::abs(actual - exact);
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

}  // namespace

// The bound is twice the largest error of the naive implementation, as in FlashAttention's tests, plus a floor for the
// cases where the naive one was lucky (a handful of elements, or a sum that happens to be exact).
//
// The floor is what any implementation may lose once. The result and each of its operands (P, dS) are rounded to the
// storage type: errors of epsilon / 2 of the result, and of every term of its sum, which being independent add up like
// the root of the sum of their squares, the spread. A score's rounding error is relative to the score and multiplies
// its weight: epsilon / 2 of the arithmetic * (1 + |score|) for each of the four operations between the product and the
// probability (scaling, subtracting the maximum, the exponential, the division). Weights and gradients recompute the
// probability from the stored logsumexp, which has been rounded when stored and is again when scaled to base 2.
Comparison compare(const headway::Tensor& actual, const std::vector<double>& exact, const std::vector<double>& naive,
                   const BoundOf& bound_of) {
  const double arithmetic = bound_of.storage == DType::float64 ? 0x1p-52 : 0x1p-23;
  Comparison result;
  const std::vector<double> values = actual.to_vector();
  if (values.size() != exact.size()) {
    result.error = std::numeric_limits<double>::infinity();
    result.worst = actual.describe() + " has another size than the reference";
    return result;
  }
  double naive_error = 0, magnitude = 0;
  size_t worst = 0;
  for (size_t e = 0; e < exact.size(); ++e) {
    if (std::isfinite(exact[e])) magnitude = std::max(magnitude, std::abs(exact[e]));
    const double naive_difference = difference(naive[e], exact[e]);
    if (std::isfinite(naive_difference)) naive_error = std::max(naive_error, naive_difference);
    const double error = difference(values[e], exact[e]);
    if (error > result.error) {
      result.error = error;
      worst = e;
    }
  }
  const double relative = epsilon_of(bound_of.storage) / 2 + 4 * arithmetic / 2 * (1 + bound_of.score) +
                          2 * arithmetic / 2 * bound_of.logsumexp;
  result.bound = 2 * naive_error + relative * (magnitude + bound_of.spread);
  std::ostringstream text;
  if (!exact.empty()) {
    text << "element " << worst << " of " << actual.describe() << " is " << values[worst] << ", expected "
         << exact[worst] << ", error " << result.error << ", bound " << result.bound << " (naive error " << naive_error
         << ")";
  }
  result.worst = text.str();
  return result;
}

}  // namespace headway_test
