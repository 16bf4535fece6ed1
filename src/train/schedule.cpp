// Learning-rate schedules: closed forms of the step.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "headway/optimizer.h"

namespace headway::inline v0 {

using internal::check;

namespace {

void check_rate(const char* function, const char* argument, double rate) {
  check(std::isfinite(rate) && rate >= 0.0, function, ": ", argument, " is ", rate,
        ", expected a finite rate of 0 or more");
}

void check_decay(const char* function, const DecayOptions& options) {
  check_rate(function, "peak", options.peak);
  check_rate(function, "final_rate", options.final_rate);
  check(options.steps >= 1, function, ": steps is ", options.steps, ", expected 1 or more");
  check(options.warmup_steps >= 0 && options.warmup_steps <= options.steps, function, ": warmup_steps is ",
        options.warmup_steps, ", expected 0 to ", options.steps, ", the steps");
}

// A line up to the peak, then final_rate + (peak - final_rate) * shape(progress), where shape goes from 1 to 0 and
// progress from 0 to 1.
template <typename DecayShape>
Schedule decay_schedule(const char* function, const DecayOptions& options, DecayShape shape) {
  check_decay(function, options);
  return [function, options, shape](std::int64_t step) {
    check(step >= 1, function, ": the step is ", step, ", expected 1 or more");
    if (step <= options.warmup_steps) {
      return options.peak * static_cast<double>(step) / static_cast<double>(options.warmup_steps);
    }
    if (step >= options.steps) {
      return options.final_rate;
    }
    const double progress =
        static_cast<double>(step - options.warmup_steps) / static_cast<double>(options.steps - options.warmup_steps);
    return options.final_rate + (options.peak - options.final_rate) * shape(progress);
  };
}

}  // namespace

Schedule constant_schedule(double rate) {
  check_rate("constant_schedule", "rate", rate);
  return [rate](std::int64_t) { return rate; };
}

Schedule warmup_schedule(std::int64_t width, std::int64_t warmup_steps, double factor) {
  check(width >= 1, "warmup_schedule: width is ", width, ", expected 1 or more");
  check(warmup_steps >= 1, "warmup_schedule: warmup_steps is ", warmup_steps, ", expected 1 or more");
  check_rate("warmup_schedule", "factor", factor);
  const double scale = factor / std::sqrt(static_cast<double>(width));
  const double slope = std::pow(static_cast<double>(warmup_steps), -1.5);
  return [scale, slope](std::int64_t step) {
    check(step >= 1, "warmup_schedule: the step is ", step, ", expected 1 or more");
    const auto count = static_cast<double>(step);
    return scale * std::min(1.0 / std::sqrt(count), count * slope);
  };
}

Schedule cosine_schedule(const DecayOptions& options) {
  return decay_schedule("cosine_schedule", options,
                        [](double progress) { return 0.5 * (1.0 + std::cos(std::numbers::pi * progress)); });
}

Schedule linear_schedule(const DecayOptions& options) {
  return decay_schedule("linear_schedule", options, [](double progress) { return 1.0 - progress; });
}

}  // namespace headway::inline v0
