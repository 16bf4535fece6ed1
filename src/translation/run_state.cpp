// The state of a run as JSON. Numbers are written so that reading them gives the same bits.
#include "translation/run_state.h"

#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "translation/config_fields.h"

namespace headway::inline v0::internal {
namespace {

// JSON has no NaN: null stands for it.
double number_of(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.number();
}

Json json_of(const ValidationReport& report) {
  Json directions = Json::array();
  for (const double bleu : report.directions) directions.push_back(bleu);
  return {{"step", report.step}, {"loss", report.loss}, {"bleu", report.bleu}, {"directions", directions}};
}

ValidationReport validation_of(const Json& value) {
  ValidationReport report{.step = value.at("step").int64(),
                          .loss = number_of(value.at("loss")),
                          .bleu = number_of(value.at("bleu")),
                          .directions = {}};
  for (const Json& bleu : value.at("directions").items()) report.directions.push_back(number_of(bleu));
  return report;
}

}  // namespace

std::string RunState::to_json() const {
  Json all = {{"config", parse_json(config.to_json(), "training config")},
              {"data_sha256", data_digest},
              {kTokenizerField, json_of_checksums(tokenizer)},
              {"averaged", averaged},
              {"best_step", best_step},
              {"best_bleu", best_score},
              {"without_better", without_better},
              {"stopped_early", stopped_early}};
  if (parts > 0 && parts != config.accumulate) all.set("batches_of_a_step", parts);
  Json reports = Json::array();
  for (const ValidationReport& report : validations) reports.push_back(json_of(report));
  all.set("validations", std::move(reports));
  return all.text();
}

RunState RunState::from_json(const std::string& text) {
  RunState state;
  std::string config_text;
  std::optional<std::int64_t> parts;
  try {
    const Json all = parse_json(text, "its state");
    config_text = all.at("config").text();
    state.data_digest = all.at("data_sha256").string();
    state.tokenizer = checksums_of_json(all);
    if (const Json* const batches = all.find("batches_of_a_step")) parts = batches->int64();
    state.averaged = all.at("averaged").int64();
    state.best_step = all.at("best_step").int64();
    state.best_score = number_of(all.at("best_bleu"));
    state.without_better = all.at("without_better").int64();
    state.stopped_early = all.at("stopped_early").boolean();
    for (const Json& report : all.at("validations").items()) state.validations.push_back(validation_of(report));
  } catch (const Error& error) {
    fail("the checkpoint is not of a translation run: ", error.what());
  }
  state.config = translation_config_table().from_json(config_text, "the checkpoint");
  state.parts = parts.value_or(state.config.accumulate);
  return state;
}

void RunState::check_resumable(const TranslationTrainingConfig& now) const {
  translation_config_table().check_resumable(now, config);
  check((now.average_last > 0.0) == (config.average_last > 0.0), "average_last is ", now.average_last,
        ", and the checkpoints were made with ", config.average_last,
        "; averaging cannot be switched on or off in between");
  check((now.patience > 0) == (config.patience > 0), "patience is ", now.patience,
        ", and the checkpoints were made with ", config.patience,
        "; early stopping cannot be switched on or off in between");
}

std::string RunState::line_of(const ValidationReport& report) { return json_of(report).text(); }

}  // namespace headway::inline v0::internal

namespace headway::inline v0 {

std::optional<TranslationTrainingConfig> TranslationTrainingConfig::of_run(const std::filesystem::path& output) {
  return internal::settings_of_run<internal::RunState>(internal::translation_config_table(), output);
}

}  // namespace headway::inline v0
