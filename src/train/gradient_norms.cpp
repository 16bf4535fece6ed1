// Norms of gradients, by parameter and by layer.
#include "train/gradient_norms.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "backend/registry.h"
#include "base/check.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/optimizer.h"

namespace headway::inline v0 {
namespace internal {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The norm of values whose squares leave the range of the sum: divided by the largest first. Not finite where a value
// is not.
double careful_norm(const Tensor& gradient) {
  const Tensor here = gradient.to(Device::cpu());
  return dispatch_floating(here.dtype(), [&]<typename T>() {
    const T* values = here.data<T>();
    const std::int64_t count = here.element_count();
    double largest = 0.0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double magnitude = std::fabs(convert<double>(values[i]));
      if (!std::isfinite(magnitude)) return magnitude;
      largest = std::max(largest, magnitude);
    }
    double sum = 0.0;
    for (std::int64_t i = 0; i < count && largest > 0.0; ++i) {
      const double share = convert<double>(values[i]) / largest;
      sum += share * share;
    }
    return largest * std::sqrt(sum);
  });
}

double norm_of(const Tensor& gradient, double sum_of_squares) {
  // Squares below this have lost digits, or vanished altogether; those of narrower types than float64 cannot be there.
  constexpr double kSmallest = 1e-280;
  const bool large_enough = sum_of_squares > kSmallest || gradient.dtype() != DType::float64;
  const bool in_range = std::isfinite(sum_of_squares) && large_enough;
  return in_range ? std::sqrt(sum_of_squares) : careful_norm(gradient);
}

}  // namespace

std::string layer_of(std::string_view parameter) {
  for (std::size_t start = 0; start < parameter.size();) {
    const std::size_t end = std::min(parameter.find('.', start), parameter.size());
    if (end < parameter.size() && is_number(parameter.substr(start, end - start))) {
      return std::string(parameter.substr(0, end));
    }
    start = end + 1;
  }
  const std::size_t dot = parameter.rfind('.');
  return std::string(parameter.substr(0, dot));
}

std::vector<std::string> layers_of(const std::vector<NamedTensor>& parameters) {
  std::vector<std::string> layers;
  for (const NamedTensor& parameter : parameters) {
    std::string layer = layer_of(parameter.name);
    if (std::find(layers.begin(), layers.end(), layer) == layers.end()) layers.push_back(std::move(layer));
  }
  return layers;
}

std::vector<double> norms_of(const std::vector<Tensor>& gradients) {
  std::vector<ParameterSpan> spans;
  spans.reserve(gradients.size());
  for (const Tensor& gradient : gradients) {
    spans.push_back({.gradient = gradient.raw_data(), .count = gradient.element_count(), .dtype = gradient.dtype()});
  }
  if (spans.empty()) return {};
  std::vector<double> norms = backend_of(gradients.front()).sum_of_squares(spans);
  for (std::size_t i = 0; i < norms.size(); ++i) norms[i] = norm_of(gradients[i], norms[i]);
  return norms;
}

GradientNorms joined_norms(std::vector<NamedNorm> parameters) {
  GradientNorms norms;
  std::map<std::string, std::size_t> place_of;  // in norms.layers
  for (const NamedNorm& parameter : parameters) {
    if (!std::isfinite(parameter.norm)) norms.bad.insert(norms.bad.begin(), parameter.name);
    const auto [place, added] = place_of.try_emplace(layer_of(parameter.name), norms.layers.size());
    if (added) norms.layers.push_back({.name = place->first});
    NamedNorm& layer = norms.layers[place->second];
    layer.norm = std::hypot(layer.norm, parameter.norm);  // no square leaves the range
    norms.total = std::hypot(norms.total, parameter.norm);
  }
  norms.parameters = std::move(parameters);
  return norms;
}

double clipping_factor(double norm, double max_norm) {
  constexpr double kTorchEpsilon = 1e-6;
  return std::min(1.0, max_norm / (norm + kTorchEpsilon));
}

}  // namespace internal

GradientNorms gradient_norms(const std::vector<NamedTensor>& parameters) {
  using internal::check;
  std::vector<Tensor> gradients;
  std::vector<NamedNorm> norms;
  for (const NamedTensor& parameter : parameters) {
    check(parameter.tensor.defined(), "gradient_norms: parameter \"", parameter.name, "\" is undefined");
    const Tensor gradient = parameter.tensor.grad();
    if (!gradient.defined()) continue;
    gradients.push_back(gradient.contiguous());
    check(gradient.device() == gradients.front().device(), "gradient_norms: the gradient of \"", parameter.name,
          "\" is on ", gradient.device(), " and those before it on ", gradients.front().device(),
          ", expected one device");
    norms.push_back({.name = parameter.name});
  }
  const std::vector<double> values = internal::norms_of(gradients);
  for (std::size_t i = 0; i < values.size(); ++i) norms[i].norm = values[i];
  return internal::joined_norms(std::move(norms));
}

double clip_gradient_norm(const std::vector<NamedTensor>& parameters, double max_norm) {
  internal::check(max_norm > 0.0, "clip_gradient_norm: max_norm is ", max_norm, ", expected more than 0");
  const double norm = gradient_norms(parameters).total;
  if (!std::isfinite(norm)) return norm;
  const double factor = internal::clipping_factor(norm, max_norm);
  if (factor == 1.0) return norm;
  const NoGradGuard guard;
  for (const NamedTensor& parameter : parameters) {
    const Tensor gradient = parameter.tensor.grad();
    if (gradient.defined()) Tensor(gradient).copy_from(scale(gradient, factor));
  }
  return norm;
}

}  // namespace headway::inline v0
