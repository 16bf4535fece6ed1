#include "training/class_weights.h"

#include <string_view>

#include "base/check.h"
#include "base/number_text.h"
#include "headway/ops.h"

namespace headway::inline v0::internal {
namespace {

std::vector<double> balanced_weights(const std::map<std::string, std::int64_t>& counts) {
  double examples = 0.0;
  for (const auto& [label, count] : counts) examples += static_cast<double>(count);
  std::vector<double> weights;
  weights.reserve(counts.size());
  for (const auto& [label, count] : counts) {
    weights.push_back(examples / (static_cast<double>(counts.size()) * static_cast<double>(count)));
  }
  return weights;
}

}  // namespace

std::vector<double> class_weights(const std::string& text, const std::map<std::string, std::int64_t>& counts) {
  if (text.empty()) return {};
  if (text == "balanced") return balanced_weights(counts);
  std::vector<double> weights(counts.size(), 1.0);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t sign = item.rfind('=');
    const std::string label(item.substr(0, std::min(sign, item.size())));
    const auto weight = sign == std::string_view::npos ? std::nullopt : parse_number<double>(item.substr(sign + 1));
    check(weight && *weight > 0.0 && *weight <= 1e6, "class_weights has \"", item,
          "\", expected balanced, or labels with numbers above 0 as in oos=5,other=2");
    const auto found = counts.find(label);
    check(found != counts.end(), "class_weights names \"", label, "\", and no training example has this label");
    weights[static_cast<std::size_t>(std::distance(counts.begin(), found))] = *weight;
  }
  return weights;
}

Tensor weighted_cross_entropy(const Tensor& logits, const std::vector<std::int64_t>& targets,
                              const std::vector<double>& weights, double label_smoothing) {
  std::vector<double> factors;  // of the rows: they add up to 1
  double total = 0.0;
  for (const std::int64_t target : targets) {
    factors.push_back(weights[static_cast<std::size_t>(target)]);
    total += factors.back();
  }
  for (double& factor : factors) factor /= total;
  const Shape rows = {std::ssize(targets)};
  const Tensor losses = cross_entropy(logits, Tensor::from(targets, rows).to(logits.device()),
                                      {.label_smoothing = label_smoothing, .reduction = Reduction::none});
  return sum(mul(losses, Tensor::from(factors, rows).to(losses.dtype()).to(losses.device())));
}

}  // namespace headway::inline v0::internal
