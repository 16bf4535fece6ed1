// The plot and the model card of a run.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/markup.h"
#include "report/chart.h"
#include "report/history.h"
#include "report/model_card.h"
#include "report/plot.h"
#include "support/files.h"
#include "support/message_of.h"

namespace {

using headway::StepReport;
using headway::ValidationReport;
using headway::internal::ChartPoint;
using headway::internal::History;
using headway_test::contains;

const std::vector<headway::internal::Direction> kDirections = {{.reverse = false, .from = "a<b", .to = "c", .tag = "c"},
                                                               {.reverse = true, .from = "c", .to = "a<b", .tag = "b"}};

StepReport report_of(std::int64_t step, double loss) {
  StepReport report;
  report.step = step;
  report.loss = loss;
  report.learning_rate = 1e-3;
  report.layers = {{"shared", 0.5}, {"encoder.layers.0", 0.1}, {"encoder.layers.1", 0.2}, {"decoder.layers.0", 3.0}};
  return report;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TranslationPlot, ShowsEveryLine) {
  History history;
  for (int step = 1; step <= 5000; ++step) history.add(report_of(step, 9.0 / std::sqrt(step)));
  const std::vector<ValidationReport> validations = {
      {.step = 1000, .loss = 3.0, .bleu = 10.0, .directions = {8.0, 12.0}},
      {.step = 2000, .loss = 2.0, .bleu = 20.0, .directions = {18.0, 22.0}}};
  const std::string html = plot_html(history, validations, kDirections);
  EXPECT_EQ(count_of(html, "<svg"), 4U);
  EXPECT_EQ(count_of(html, "<polyline"), 2U + 2U + 4U + 1U);
  EXPECT_EQ(count_of(html, "<circle"), 6U);
  EXPECT_PRED2(contains, html, "prefers-color-scheme: dark");
  EXPECT_PRED2(contains, html, "a&lt;b → c");
  EXPECT_EQ(count_of(html, "a<b"), 0U);
  EXPECT_EQ(count_of(html, "http"), count_of(html, "http-equiv"));  // nothing is loaded from elsewhere
  const std::size_t style = html.find("<style>") + 7;
  const std::string sheet = html.substr(style, html.find("</style>") - style);
  EXPECT_PRED2(contains, html, "default-src 'none'");
  EXPECT_PRED2(contains, html, "style-src " + headway::internal::policy_hash(sheet) + "\">");
  EXPECT_EQ(count_of(html, "style=\""), 0U);  // which the policy would not allow
  for (const char* line : {"main", "second", "third", "other0", "encoder0", "encoder1", "decoder0"}) {
    EXPECT_EQ(count_of(sheet, ".line-" + std::string(line) + " "), 1U) << line;
  }
  EXPECT_EQ(count_of(html, "nan"), 0U);
  EXPECT_LT(html.size(), 100000U);
}

TEST(TranslationPlot, ARunThatHasHardlyBegunOrHasFailed) {
  EXPECT_PRED2(contains, plot_html({}, {}, kDirections), "</html>");
  History history;
  history.add(report_of(1, std::numeric_limits<double>::quiet_NaN()));
  history.add(report_of(2, std::numeric_limits<double>::infinity()));
  history.add(report_of(3, 2.0));
  const std::string html = plot_html(history, {}, kDirections);
  EXPECT_EQ(count_of(html, "nan"), 0U);
  EXPECT_EQ(count_of(html, "inf"), 0U);
}

TEST(TranslationPlot, PointsAreThinnedByMeans) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 1000; ++i) points.push_back({static_cast<double>(i), i % 2 == 0 ? 1.0 : 3.0});
  const std::vector<ChartPoint> thin = headway::internal::thinned(points, 100);
  ASSERT_EQ(thin.size(), 100U);
  for (const ChartPoint& point : thin) EXPECT_DOUBLE_EQ(point.y, 2.0);
  EXPECT_DOUBLE_EQ(thin.front().x, 4.5);
  EXPECT_EQ(headway::internal::thinned(points, 2000).size(), 1000U);
}

TEST(TranslationPlot, HistoryIsReadBackFromTheLog) {
  const headway_test::TemporaryDirectory directory;
  headway_test::write_bytes(
      directory / "training.jsonl",
      "{\"step\": 1, \"loss\": 5.5, \"learning_rate\": 0.1, \"layers\": {\"x\": 2.0, \"y\": null}}\n"
      "{\"step\": 2, \"loss\": null, \"learning_rate\": 0.2, \"layers\": {\"x\": 3.0}}\n"
      "{\"step\": 3, \"loss\": 4.5, \"learning_rate\": 0.3, \"layers\": {}}\n{\"step\": 4, \"lo");
  const History history = History::load(directory / "training.jsonl", 2);
  ASSERT_EQ(history.steps().size(), 2U);
  EXPECT_EQ(history.layers(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(history.steps()[0].loss, 5.5);
  EXPECT_TRUE(std::isnan(history.steps()[1].loss));
  EXPECT_EQ(history.steps()[1].norms, (std::vector<float>{3.0F}));
  EXPECT_TRUE(History::load(directory / "none.jsonl", 2).steps().empty());
}

TEST(TranslationCard, NamesDataSettingsAndScores) {
  headway::TranslationTrainingConfig config;
  config.data_source = "a collection (CC0)";
  const std::string card =
      headway::internal::model_card(config,
                                    {.parameters = 9400000,
                                     .training_pairs = 1234,
                                     .last_step = 900,
                                     .saved_step = 900,
                                     .averaged = 135,
                                     .device = "cuda (a GPU)"},
                                    {{.step = 900, .loss = 1.25, .bleu = 45.0, .directions = {40.125, 49.5}}});
  for (const char* part : {"# English ↔ German", "9.4 million", "1234 sentence pairs", "Data: a collection (CC0).",
                           "| English → German | 40.12 |", "| German → English | 49.50 |", "last 135 steps",
                           "`>>deu<<`", "on cuda (a GPU) in float32."}) {
    EXPECT_PRED2(contains, card, part);
  }
  config.both_directions = false;
  config.data_source = "";
  config.precision = headway::DType::bfloat16;
  const std::string plain = headway::internal::model_card(config, {.last_step = 9, .saved_step = 5}, {});
  EXPECT_FALSE(contains(plain, "Data:"));
  EXPECT_PRED2(contains, plain, "those of step 5");
  EXPECT_PRED2(contains, plain, "nothing was measured");
  EXPECT_PRED2(contains, plain, "on the CPU in bfloat16 with float32 master weights.");
}

}  // namespace
