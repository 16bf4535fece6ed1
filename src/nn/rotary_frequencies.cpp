// The frequencies of rotary positions with the scalings of "rope_scaling", as Hugging Face's transformers has them.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "headway/transformer_block.h"

namespace headway::inline v0 {
namespace {

using internal::check;
using Kind = RotaryScaling::Kind;

std::vector<double> plain_frequencies(double base, std::int64_t dims) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < dims / 2; ++i) {
    frequencies.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims)));
  }
  return frequencies;
}

// Texts longer than max_length stretch the base.
double dynamic_base(const RotaryPositions& rotary, std::int64_t dims, std::int64_t length) {
  const double factor = rotary.scaling.factor, d = static_cast<double>(dims);
  const double longer =
      static_cast<double>(std::max(length, rotary.max_length)) / static_cast<double>(rotary.max_length);
  return rotary.base * std::pow(factor * longer - (factor - 1), d / (d - 2));
}

// Between high and low frequencies the scaling sets in smoothly.
void scale_llama3(const RotaryScaling& scaling, std::vector<double>& frequencies) {
  const auto original = static_cast<double>(scaling.original_length);
  const double low = scaling.low_frequency_factor, high = scaling.high_frequency_factor;
  for (double& frequency : frequencies) {
    const double turns = original * frequency / (2 * std::numbers::pi);  // in a text of pre-training
    if (turns > high) continue;
    const double smooth = turns < low ? 0.0 : (turns - low) / (high - low);
    frequency = (1 - smooth) * frequency / scaling.factor + smooth * frequency;
  }
}

// Pairs that turn more than beta_fast times keep their frequency, those that turn less than beta_slow times get the
// scaled one, and a ramp lies between.
void scale_yarn(const RotaryPositions& rotary, std::int64_t dims, std::vector<double>& frequencies) {
  const RotaryScaling& scaling = rotary.scaling;
  const auto pair_of_turns = [&](double turns) {
    const double positions = static_cast<double>(scaling.original_length) / (turns * 2 * std::numbers::pi);
    return static_cast<double>(dims) * std::log(positions) / (2 * std::log(rotary.base));
  };
  double low = pair_of_turns(scaling.beta_fast), high = pair_of_turns(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dims - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double scaled = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / scaling.factor * scaled + frequencies[i] * (1 - scaled);
  }
}

double yarn_factor(const RotaryScaling& scaling) {
  const auto of = [&](double mscale) {
    return scaling.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(scaling.factor) + 1.0;
  };
  const double mscale = scaling.mscale.value_or(0), all = scaling.mscale_all_dim.value_or(0);
  return mscale != 0 && all != 0 ? of(mscale) / of(all) : of(1.0);
}

void scale_longrope(const RotaryScaling& scaling, std::int64_t length, std::vector<double>& frequencies) {
  const bool is_long = length > scaling.original_length;
  const std::vector<double>& factors = is_long ? scaling.long_factors : scaling.short_factors;
  check(factors.size() == frequencies.size(), "rotary_frequencies: ", is_long ? "long" : "short", "_factors has ",
        factors.size(), " numbers, expected one for each of ", frequencies.size(), " pairs");
  for (std::size_t i = 0; i < factors.size(); ++i) frequencies[i] /= factors[i];
}

double longrope_factor(const RotaryScaling& scaling) {
  if (scaling.factor <= 1) return 1.0;
  return std::sqrt(1 + std::log(scaling.factor) / std::log(static_cast<double>(scaling.original_length)));
}

void check_rotary(const RotaryPositions& rotary, std::int64_t head_dim, std::int64_t dims) {
  const RotaryScaling& scaling = rotary.scaling;
  check(dims > 0 && dims <= head_dim && dims % 2 == 0, "rotary_frequencies: dims is ", dims,
        ", expected an even number up to head_dim, ", head_dim);
  check(rotary.base > 0, "rotary_frequencies: base is ", rotary.base, ", expected a positive number");
  check(scaling.factor > 0, "rotary_frequencies: factor is ", scaling.factor, ", expected a positive number");
  check(scaling.kind != Kind::dynamic || rotary.max_length > 0,
        "rotary_frequencies: max_length is not given, and dynamic scaling needs it");
  check(scaling.kind != Kind::dynamic || dims > 2, "rotary_frequencies: dims is ", dims,
        ", expected more than 2 for dynamic scaling");
  const bool needs_original =
      scaling.kind == Kind::yarn || scaling.kind == Kind::llama3 || scaling.kind == Kind::longrope;
  check(!needs_original || scaling.original_length > 0,
        "rotary_frequencies: original_length is not given, and the scaling needs it");
}

}  // namespace

RotaryFrequencies rotary_frequencies(const RotaryPositions& rotary, std::int64_t head_dim, std::int64_t length) {
  const RotaryScaling& scaling = rotary.scaling;
  const std::int64_t dims = rotary.dims == 0 ? head_dim : rotary.dims;
  check_rotary(rotary, head_dim, dims);
  const bool is_dynamic = scaling.kind == Kind::dynamic;
  RotaryFrequencies result = {plain_frequencies(is_dynamic ? dynamic_base(rotary, dims, length) : rotary.base, dims)};
  switch (scaling.kind) {
    case Kind::none:
    case Kind::dynamic:
      break;
    case Kind::linear:
      for (double& frequency : result.frequencies) frequency /= scaling.factor;
      break;
    case Kind::llama3:
      scale_llama3(scaling, result.frequencies);
      break;
    case Kind::yarn:
      scale_yarn(rotary, dims, result.frequencies);
      result.factor = scaling.attention_factor.value_or(yarn_factor(scaling));
      break;
    case Kind::longrope:
      scale_longrope(scaling, length, result.frequencies);
      result.factor = scaling.attention_factor.value_or(longrope_factor(scaling));
      break;
  }
  return result;
}

}  // namespace headway::inline v0
