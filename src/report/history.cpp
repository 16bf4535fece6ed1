// The course of a run, as it happens and from its log.
#include "report/history.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

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

History History::load(const std::filesystem::path& log, std::int64_t last_step) {
  using Json = nlohmann::ordered_json;
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto number = [](const Json& line, const char* name) {
    const auto found = line.find(name);
    return found != line.end() && found->is_number() ? found->get<double>() : kNone;
  };
  History history;
  std::ifstream file(log);
  for (std::string text; std::getline(file, text);) {
    const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || !(number(line, "step") <= static_cast<double>(last_step))) continue;
    StepReport report;
    report.step = static_cast<std::int64_t>(number(line, "step"));
    report.loss = number(line, "loss");
    report.learning_rate = number(line, "learning_rate");
    const auto layers = line.find("layers");
    if (layers != line.end() && layers->is_object()) {
      for (const auto& [name, norm] : layers->items()) {
        report.layers.push_back({name, norm.is_number() ? norm.get<double>() : kNone});
      }
    }
    history.add(report);
  }
  return history;
}

}  // namespace headway::inline v0::internal
