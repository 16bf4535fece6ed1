// The state of a fine-tuning run as JSON. Numbers are written so that reading them gives the same bits.
#include "training/fine_tune_state.h"

#include <limits>

#include "base/check.h"
#include "base/json.h"
#include "training/fine_tune_fields.h"

namespace headway::inline v0::internal {
namespace {

// JSON has no NaN: null stands for it.
double number_or_nan(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.number();
}

Json json_of_scores(const FineTuneScores& scores) {
  Json named = Json::object();
  for (const NamedScore& score : scores.scores) named.set(score.name, score.value);
  return {{"step", scores.step}, {"loss", scores.loss}, {"score", scores.score}, {"scores", named}};
}

FineTuneScores scores_of_json(const Json& value) {
  FineTuneScores scores{.step = value.at("step").int64(),
                        .loss = number_or_nan(value.at("loss")),
                        .score = number_or_nan(value.at("score")),
                        .scores = {}};
  for (const JsonField& field : value.at("scores").fields()) {
    scores.scores.push_back({field.name, number_or_nan(field.value)});
  }
  return scores;
}

}  // namespace

std::string FineTuneState::to_json() const {
  Json reports = Json::array();
  for (const FineTuneScores& scores : validations) reports.push_back(json_of_scores(scores));
  Json all = {{"fine_tuning", parse_json(config.to_json(), "config")},
              {"data_sha256", data_digest},
              {kTokenizerField, json_of_checksums(tokenizer)},
              {"frozen_xxh64", frozen},
              {"validations", reports},
              {"best", {{"step", best_step}, {"score", best_score}, {"without_better", without_better}}},
              {"stopped_early", stopped_early}};
  if (parts > 0 && parts != config.accumulate) all.set("batches_of_a_step", parts);
  return all.text();
}

FineTuneState FineTuneState::from_json(const std::string& text) {
  FineTuneState state;
  try {
    const Json all = parse_json(text, "its state");
    state.config = fine_tune_table().from_json(all.at("fine_tuning").text(), "its config");
    const Json* const batches = all.find("batches_of_a_step");
    state.parts = batches ? batches->int64() : state.config.accumulate;
    state.data_digest = all.at("data_sha256").string();
    state.tokenizer = checksums_of_json(all);
    if (const Json* const checksum = all.find("frozen_xxh64")) state.frozen = checksum->string();
    for (const Json& report : all.at("validations").items()) state.validations.push_back(scores_of_json(report));
    const Json& best = all.at("best");
    state.best_step = best.at("step").int64();
    state.best_score = number_or_nan(best.at("score"));
    state.without_better = best.at("without_better").int64();
    state.stopped_early = all.at("stopped_early").boolean();
  } catch (const Error& error) {
    fail("the checkpoint is not of a fine-tuning run: ", error.what());
  }
  return state;
}

void FineTuneState::check_resumable(const FineTuneConfig& now) const {
  fine_tune_table().check_resumable(now, config);
  check((now.patience > 0 || now.keep_best) == (config.patience > 0 || config.keep_best), "patience is ", now.patience,
        ", and the checkpoints were made with ", config.patience,
        "; early stopping cannot be switched on or off in between");
}

std::string FineTuneState::line_of(const FineTuneScores& scores) { return json_of_scores(scores).text(); }

}  // namespace headway::inline v0::internal

namespace headway::inline v0 {

std::optional<FineTuneConfig> FineTuneConfig::of_run(const std::filesystem::path& output) {
  return internal::settings_of_run<internal::FineTuneState>(internal::fine_tune_table(), output);
}

}  // namespace headway::inline v0
