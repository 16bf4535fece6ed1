// The state of a run as JSON. Numbers are written so that reading them gives the same bits.
#include "translation/run_state.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "translation/config_fields.h"

namespace headway::inline v0::internal {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN: null stands for it.
double number_of(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

Json json_of(const ValidationReport& report) {
  return {{"step", report.step}, {"loss", report.loss}, {"bleu", report.bleu}, {"directions", report.directions}};
}

ValidationReport validation_of(const Json& value) {
  return {.step = value.at("step").get<std::int64_t>(),
          .loss = number_of(value.at("loss")),
          .bleu = number_of(value.at("bleu")),
          .directions = value.at("directions").get<std::vector<double>>()};
}

}  // namespace

std::string RunState::to_json() const {
  Json all = {{"config", Json::parse(config.to_json())},
              {"data_sha256", data_digest},
              {"averaged", averaged},
              {"best_step", best_step},
              {"best_bleu", best_bleu},
              {"without_better", without_better},
              {"stopped_early", stopped_early},
              {"validations", Json::array()}};
  for (const ValidationReport& report : validations) all["validations"].push_back(json_of(report));
  return all.dump();
}

RunState RunState::from_json(const std::string& text) {
  try {
    const Json all = Json::parse(text);
    RunState state;
    state.config = config_from_json(all.at("config").dump(), "the checkpoint");
    state.data_digest = all.at("data_sha256").get<std::string>();
    state.averaged = all.at("averaged").get<std::int64_t>();
    state.best_step = all.at("best_step").get<std::int64_t>();
    state.best_bleu = number_of(all.at("best_bleu"));
    state.without_better = all.at("without_better").get<std::int64_t>();
    state.stopped_early = all.at("stopped_early").get<bool>();
    for (const Json& report : all.at("validations")) state.validations.push_back(validation_of(report));
    return state;
  } catch (const Json::exception& error) {
    fail("train_translation: the checkpoint is none of a translation run: ", error.what());
  }
}

void check_resumable(const TranslationTrainingConfig& config, const TranslationTrainingConfig& earlier) {
  for (const ConfigEntry& entry : config_entries()) {
    if (entry.on_resume == OnResume::free) continue;
    const std::string now = config_text(config, entry), before = config_text(earlier, entry);
    check(now == before, "train_translation: ", entry.name, " is ", now, ", and the checkpoints in ",
          config.output.string(), "/training were made with ", before);
  }
  check((config.average_last > 0.0) == (earlier.average_last > 0.0), "train_translation: average_last is ",
        config.average_last, ", and the checkpoints were made with ", earlier.average_last,
        "; averaging cannot be switched on or off in between");
  check((config.patience > 0) == (earlier.patience > 0), "train_translation: patience is ", config.patience,
        ", and the checkpoints were made with ", earlier.patience,
        "; early stopping cannot be switched on or off in between");
}

std::string validation_line(const ValidationReport& report) { return json_of(report).dump(); }

}  // namespace headway::inline v0::internal
