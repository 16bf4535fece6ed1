// The steps of a run, as they happen and from its log.
#include "report/history.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/files.h"
#include "base/json.h"
#include "headway/error.h"

namespace headway::inline v0::internal {

std::size_t History::place_of(const std::string& layer) {
  const auto found = std::find(layers_.begin(), layers_.end(), layer);
  if (found == layers_.end()) layers_.push_back(layer);
  return static_cast<std::size_t>(std::find(layers_.begin(), layers_.end(), layer) - layers_.begin());
}

void History::add(const StepReport& report) {
  Step step{.step = report.step, .loss = report.loss, .learning_rate = report.learning_rate, .norms = {}};
  for (const NamedNorm& layer : report.layers) {
    const std::size_t place = place_of(layer.name);
    step.norms.resize(std::max(step.norms.size(), place + 1), std::numeric_limits<float>::quiet_NaN());
    step.norms[place] = static_cast<float>(layer.norm);
  }
  steps_.push_back(std::move(step));
}

namespace {

constexpr std::size_t kLargestLog = std::size_t{4} << 30;  // in bytes
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double number_or_none(const Json* value) { return value && value->is_number() ? value->number() : kNone; }

// The report in a line of a log; nothing where the line is not valid.
std::optional<StepReport> report_of(std::string_view text) {
  try {
    const Json line = parse_json(text, "the log");
    const Json* step = line.find("step");
    if (step == nullptr || !step->is_int64()) return {};
    StepReport report;
    report.step = step->int64();
    report.loss = number_or_none(line.find("loss"));
    report.learning_rate = number_or_none(line.find("learning_rate"));
    const Json* layers = line.find("layers");
    if (layers == nullptr || !layers->is_object()) return report;
    for (const JsonField& layer : layers->fields()) {
      report.layers.push_back({layer.name, number_or_none(&layer.value)});
    }
    return report;
  } catch (const Error&) {
    return {};  // the last line of a run that was killed
  }
}

}  // namespace

History History::load(const std::filesystem::path& log, std::int64_t last_step) {
  History history;
  std::error_code ignored;
  if (!std::filesystem::exists(log, ignored)) return history;
  const std::string text = read_whole_file(log, {}, {.limit = kLargestLog});
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::optional<StepReport> report = report_of(line);
    if (report && report->step <= last_step) history.add(*report);
  }
  return history;
}

}  // namespace headway::inline v0::internal
