// The progress line, on terminals and elsewhere.
#include "train/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "base/terminal.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kUsualWidth = 80;

// printf into a string; the formats here have short results.
template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[160];
  const int size = std::snprintf(text, sizeof(text), pattern, values...);
  return std::string(text, static_cast<std::size_t>(std::clamp(size, 0, static_cast<int>(sizeof(text)) - 1)));
}

}  // namespace

std::string short_count(double count) {
  if (!(count >= 0.0) || std::isinf(count)) return "?";
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  while (count >= 999.5 && unit < 4) {
    count /= 1000.0;
    ++unit;
  }
  const int digits = unit == 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
  return format("%.*f%s", digits, count, kUnits[unit]);
}

std::string short_time(double seconds) {
  constexpr double kLongest = 1e9;  // some 30 years; longer times are not shown
  if (!(seconds >= 0.0) || seconds > kLongest) return "?";
  const long long whole = std::llround(seconds);
  const long long minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (days > 0) return format("%lldd %02lld:%02lld", days, hours % 24, minutes % 60);
  if (hours > 0) return format("%lld:%02lld:%02lld", hours, minutes % 60, whole % 60);
  return format("%lld:%02lld", minutes, whole % 60);
}

Progress::Progress(const ProgressOptions& options) : options_(options), last_(Clock::now()) {}

Progress::~Progress() {
  try {
    end_line();
  } catch (...) {  // the stream has reported its error already
  }
}

void Progress::show(const StepReport& report, std::int64_t tokens) {
  if (options_.stream == nullptr) return;
  tokens_ += tokens;
  if (report.skipped) {
    ++skipped_;
    bad_gradient_ = report.bad_gradient;
  }
  const Clock::time_point now = Clock::now();
  const double passed = std::chrono::duration<double>(now - last_).count();
  if (anything_shown_ && passed < options_.seconds && report.step < options_.steps) return;
  write(line_of(report, passed > 0.0 ? static_cast<double>(tokens_) / passed : 0.0));
  anything_shown_ = true;
  last_ = now;
  tokens_ = 0;
}

void Progress::note(const std::string& text) {
  if (options_.stream == nullptr) return;
  end_line();
  *options_.stream << text << '\n' << std::flush;
}

std::string Progress::line_of(const StepReport& report, double tokens_per_second) const {
  std::string line =
      format("step %lld/%lld", static_cast<long long>(report.step), static_cast<long long>(options_.steps));
  line += format("  loss %.4f  learning rate %.3g", report.loss, report.learning_rate);
  line += format("  gradient norm %.3g", report.gradient_norm);
  if (tokens_per_second > 0.0) line += "  " + short_count(tokens_per_second) + " tokens/s";
  if (report.ranks > 1) {
    line += format(" on %d ranks, %.0f%% waiting, ", report.ranks, 100.0 * report.waiting) +
            short_count(static_cast<double>(report.peak_bytes)) + "B";
  }
  line += "  " + short_time(report.seconds_left) + " left";
  if (skipped_ > 0) {
    line += format("  skipped %lld", static_cast<long long>(skipped_));
    if (!bad_gradient_.empty()) line += " (" + bad_gradient_ + ")";
  }
  return line;
}

void Progress::write(const std::string& line) {
  std::ostream& stream = *options_.stream;
  if (!options_.terminal) {
    stream << line << '\n' << std::flush;
    return;
  }
  // A line that wraps cannot be rewritten by \r.
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(terminal_width(stream, kUsualWidth), 2));
  const std::string cut = line.substr(0, width - 1);
  // Spaces overwrite the rest of a longer line before.
  stream << '\r' << cut << std::string(shown_ - std::min(shown_, cut.size()), ' ') << std::flush;
  shown_ = cut.size();
}

void Progress::end_line() {
  if (shown_ == 0) return;
  *options_.stream << '\n' << std::flush;
  shown_ = 0;
}

}  // namespace headway::inline v0::internal
