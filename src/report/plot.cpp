// The plot of a run.
#include "report/plot.h"

#include <cstdio>
#include <limits>
#include <string_view>

#include "base/markup.h"
#include "report/chart.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::size_t kMostPoints = 400;  // of a line; more cannot be distinguished

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --page: #fbfbf9; --ink: #22262b; --faint: #6b7178; --rule: #e2e3de;
  --main: #1f5fa8; --second: #c8571b; --third: #2b8a5f; --other0: #7a7f86; --other1: #9a6fb0; --other2: #5d8f3a;
  --other3: #a8842c; }
@media (prefers-color-scheme: dark) {
  :root { --page: #16181b; --ink: #e7e8ea; --faint: #9aa0a7; --rule: #2d3136;
    --main: #6fb0f2; --second: #f2965a; --third: #5cc796; --other0: #9aa0a7; --other1: #c39bd8; --other2: #94c46c;
    --other3: #d8b45c; }
}
body { margin: 0 auto; max-width: 1500px; padding: 24px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 20px; font-weight: 600; margin: 0; }
p { color: var(--faint); margin: 4px 0 20px; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr)); gap: 28px; }
figure { margin: 0; } figcaption { font-weight: 600; } small { color: var(--faint); font-weight: 400; }
svg { width: 100%; height: auto; display: block; }
.grid { stroke: var(--rule); } .axis { stroke: var(--faint); }
.tick { fill: var(--faint); font: 11px system-ui, sans-serif; }
polyline { fill: none; stroke: var(--line); stroke-width: 1.8; stroke-linejoin: round; }
circle { fill: var(--line); }
.legend { list-style: none; margin: 4px 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: 2px 16px;
  color: var(--faint); font-size: 13px; }
.legend i { display: inline-block; width: 14px; height: 3px; margin-right: 6px; vertical-align: middle;
  background: var(--line); }
)";

// The colour of a line, by the class that chart_html() gives it.
std::string line_rule(const std::string& style) { return ".line-" + style + " { --line: var(--" + style + "); }\n"; }

// Shades from light to dark for the layers of a stack: --encoder0, --encoder1, ...
std::string shades(const std::string& stack, int hue, std::size_t count) {
  std::string light, dark, rules;
  for (std::size_t i = 0; i < count; ++i) {
    const double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0.5;
    char text[160];
    std::snprintf(text, sizeof(text), "--%s%zu: hsl(%d 70%% %.0f%%); ", stack.c_str(), i, hue, 68.0 - 40.0 * share);
    light += text;
    std::snprintf(text, sizeof(text), "--%s%zu: hsl(%d 75%% %.0f%%); ", stack.c_str(), i, hue, 40.0 + 42.0 * share);
    dark += text;
    rules += line_rule(stack + std::to_string(i));
  }
  return ":root { " + light + "}\n@media (prefers-color-scheme: dark) { :root { " + dark + "} }\n" + rules;
}

template <typename Value>
std::vector<ChartPoint> points_of(const History& history, const Value& value) {
  std::vector<ChartPoint> points;
  for (const History::Step& step : history.steps()) points.push_back({static_cast<double>(step.step), value(step)});
  return thinned(points, kMostPoints);
}

Chart loss_chart(const History& history, const std::vector<ChartPoint>& validation, const std::string& label) {
  Chart chart{.title = "Loss", .y_label = label, .lines = {}};
  chart.lines.push_back({"training", "main", points_of(history, [](const History::Step& step) { return step.loss; })});
  chart.lines.push_back({.name = "validation", .style = "second", .points = validation, .dots = true});
  return chart;
}

// The loss of every validation.
template <typename Report>
std::vector<ChartPoint> losses_of(const std::vector<Report>& validations) {
  std::vector<ChartPoint> points;
  points.reserve(validations.size());
  for (const Report& report : validations) points.push_back({static_cast<double>(report.step), report.loss});
  return points;
}

Chart bleu_chart(const std::vector<ValidationReport>& validations, const std::vector<Direction>& directions) {
  constexpr const char* kStyles[] = {"main", "second"};
  Chart chart{.title = "BLEU", .y_label = "greedy search on the validation part", .lines = {}};
  for (std::size_t i = 0; i < directions.size(); ++i) {
    ChartLine line{
        .name = directions[i].from + " → " + directions[i].to, .style = kStyles[i % 2], .points = {}, .dots = true};
    for (const ValidationReport& report : validations) {
      if (i < report.directions.size()) {
        line.points.push_back({static_cast<double>(report.step), report.directions[i]});
      }
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

// The named scores of every validation, all in percent.
Chart score_chart(const std::vector<FineTuneScores>& validations) {
  constexpr const char* kStyles[] = {"main", "second", "third"};
  Chart chart{.title = "Scores", .y_label = "percent, on the validation part", .lines = {}};
  for (std::size_t i = 0; !validations.empty() && i < validations.front().scores.size(); ++i) {
    ChartLine line{.name = validations.front().scores[i].name, .style = kStyles[i % 3], .points = {}, .dots = true};
    for (const FineTuneScores& scores : validations) {
      line.points.push_back({static_cast<double>(scores.step), scores.scores[i].value});
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

// The layers of a stack have shades of one colour; other parameters share four colours.
struct LayerStyles {
  std::vector<std::string> names;  // one per layer of the history
  std::string css;
};
LayerStyles layer_styles(const std::vector<std::string>& layers) {
  LayerStyles styles;
  std::size_t encoder = 0, decoder = 0, other = 0;
  for (const std::string& layer : layers) {
    if (layer.starts_with("encoder.layers.")) {
      styles.names.push_back("encoder" + std::to_string(encoder++));
    } else if (layer.starts_with("decoder.layers.")) {
      styles.names.push_back("decoder" + std::to_string(decoder++));
    } else {
      styles.names.push_back("other" + std::to_string(other++ % 4));
    }
  }
  styles.css = shades("encoder", 212, encoder) + shades("decoder", 24, decoder);
  return styles;
}

Chart norm_chart(const History& history, const LayerStyles& styles) {
  Chart chart{.title = "Gradient norms", .y_label = "by layer, before clipping", .lines = {}, .logarithmic = true};
  for (std::size_t i = 0; i < history.layers().size(); ++i) {
    chart.lines.push_back({history.layers()[i], styles.names[i], points_of(history, [i](const History::Step& step) {
                             return i < step.norms.size() ? static_cast<double>(step.norms[i])
                                                          : std::numeric_limits<double>::quiet_NaN();
                           })});
  }
  return chart;
}

Chart rate_chart(const History& history) {
  Chart chart{.title = "Learning rate", .y_label = "", .lines = {}};
  chart.lines.push_back(
      {"learning rate", "third", points_of(history, [](const History::Step& step) { return step.learning_rate; })});
  return chart;
}

// A page with charts of the loss and of scores, and those that every run has.
std::string page_of(const History& history, const std::string& title, std::vector<Chart> charts) {
  const std::int64_t last = history.steps().empty() ? 0 : history.steps().back().step;
  const LayerStyles styles = layer_styles(history.layers());
  charts.push_back(norm_chart(history, styles));
  charts.push_back(rate_chart(history));
  std::string figures;
  for (Chart& chart : charts) {
    chart.last_step = static_cast<double>(last);
    figures += chart_html(chart);
  }
  std::string style = std::string(kStyle) + styles.css;
  for (const char* name : {"main", "second", "third", "other0", "other1", "other2", "other3"}) style += line_rule(name);
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action "
         "'none'; "
         "style-src " +
         policy_hash(style) + "\">\n<title>Training, step " + std::to_string(last) + "</title>\n<style>" + style +
         "</style></head>\n<body><h1>" + title + "</h1>\n<p>after step " + std::to_string(last) + "</p>\n<main>\n" +
         figures + "</main></body></html>\n";
}

}  // namespace

std::string plot_html(const History& history, const std::vector<ValidationReport>& validations,
                      const std::vector<Direction>& directions) {
  return page_of(
      history, "Training a translator",
      {loss_chart(history, losses_of(validations), "per target token; training's with dropout and label smoothing"),
       bleu_chart(validations, directions)});
}

std::string plot_html(const History& history, const std::vector<FineTuneScores>& validations) {
  std::vector<Chart> charts = {
      loss_chart(history, losses_of(validations), "training's with dropout and label smoothing")};
  if (!validations.empty() && !validations.front().scores.empty()) charts.push_back(score_chart(validations));
  return page_of(history, "Fine-tuning a model", std::move(charts));
}

}  // namespace headway::inline v0::internal
