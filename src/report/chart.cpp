// Line charts as SVG: axes with round numbers, lines, legend.
#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/markup.h"

namespace headway::inline v0::internal {
namespace {

constexpr double kWidth = 720.0, kHeight = 300.0;
constexpr double kLeft = 56.0, kRight = 12.0, kTop = 10.0, kBottom = 34.0;

std::string text_of(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}
std::string coordinate(double value) { return text_of("%.1f", value); }
std::string label(double value) { return text_of("%.6g", value); }

// Maps values to pixels.
struct Axis {
  double low = 0.0;
  double high = 1.0;
  double pixel_low = 0.0;
  double pixel_high = 1.0;
  bool logarithmic = false;

  double scaled(double value) const { return logarithmic ? std::log10(value) : value; }
  double at(double value) const {
    const double share = (scaled(value) - scaled(low)) / (scaled(high) - scaled(low));
    return pixel_low + share * (pixel_high - pixel_low);
  }
  bool shows(double value) const { return std::isfinite(value) && (!logarithmic || value > 0.0); }
};

// Steps of 1, 2 or 5 times a power of ten, some five of them; powers of ten on a logarithmic axis.
std::vector<double> ticks_of(const Axis& axis) {
  std::vector<double> ticks;
  if (axis.logarithmic) {
    const double first = std::ceil(std::log10(axis.low) - 1e-9), last = std::floor(std::log10(axis.high) + 1e-9);
    const double stride = std::max(1.0, std::ceil((last - first) / 6.0));
    for (double power = first; power <= last; power += stride) ticks.push_back(std::pow(10.0, power));
    return ticks;
  }
  const double rough = (axis.high - axis.low) / 5.0;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double factor = rough / power <= 1.0 ? 1.0 : rough / power <= 2.0 ? 2.0 : rough / power <= 5.0 ? 5.0 : 10.0;
  const double stride = factor * power;
  const double first = std::ceil(axis.low / stride - 1e-9);
  for (int i = 0; (first + i) * stride <= axis.high + 1e-9 * stride; ++i) ticks.push_back((first + i) * stride);
  return ticks;
}

// The y axis that spans all values of the lines.
Axis fitted(const Chart& chart) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  Axis axis{.low = 0.0, .high = 1.0, .pixel_low = kHeight - kBottom, .pixel_high = kTop};
  axis.logarithmic = chart.logarithmic;
  for (const ChartLine& line : chart.lines) {
    for (const ChartPoint& point : line.points) {
      if (!axis.shows(point.y)) continue;
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
  }
  if (axis.logarithmic) {
    const bool any = low <= high;
    const double first = any ? std::floor(std::log10(low)) : -1.0;
    axis.low = std::pow(10.0, first);
    axis.high = std::pow(10.0, std::max(any ? std::ceil(std::log10(high)) : 0.0, first + 1.0));
  } else if (high > 0.0) {
    axis.high = high;
  }
  return axis;
}

std::string grid(const Axis& x, const Axis& y) {
  std::string svg;
  for (const double tick : ticks_of(y)) {
    const std::string place = coordinate(y.at(tick));
    svg += "<line class=\"grid\" x1=\"" + coordinate(kLeft) + "\" x2=\"" + coordinate(kWidth - kRight) + "\" y1=\"" +
           place + "\" y2=\"" + place + "\"/><text class=\"tick\" text-anchor=\"end\" x=\"" + coordinate(kLeft - 6) +
           "\" y=\"" + coordinate(y.at(tick) + 4) + "\">" + label(tick) + "</text>\n";
  }
  for (const double tick : ticks_of(x)) {
    svg += "<text class=\"tick\" text-anchor=\"middle\" x=\"" + coordinate(x.at(tick)) + "\" y=\"" +
           coordinate(kHeight - kBottom + 16) + "\">" + label(tick) + "</text>\n";
  }
  return svg + "<line class=\"axis\" x1=\"" + coordinate(kLeft) + "\" x2=\"" + coordinate(kWidth - kRight) +
         "\" y1=\"" + coordinate(kHeight - kBottom) + "\" y2=\"" + coordinate(kHeight - kBottom) +
         "\"/><text class=\"tick\" text-anchor=\"end\" x=\"" + coordinate(kWidth - kRight) + "\" y=\"" +
         coordinate(kHeight - 4) + "\">step</text>\n";
}

std::string drawn(const ChartLine& line, const Axis& x, const Axis& y) {
  std::string points, dots;
  for (const ChartPoint& point : line.points) {
    if (!y.shows(point.y)) continue;
    const std::string px = coordinate(x.at(point.x)), py = coordinate(y.at(point.y));
    points += (points.empty() ? "" : " ") + px + "," + py;
    if (line.dots) {
      dots += "<circle cx=\"" + px + "\" cy=\"" + py + "\" r=\"3.5\" class=\"line-" + line.style + "\"><title>" +
              escape_markup(line.name) + ", step " + label(point.x) + ": " + label(point.y) + "</title></circle>\n";
    }
  }
  if (points.empty()) return "";
  return "<polyline points=\"" + points + "\" class=\"line-" + line.style + "\"/>\n" + dots;
}

}  // namespace

std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, std::size_t count) {
  if (points.size() <= count) return points;
  std::vector<ChartPoint> means;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = points.size() * i / count, last = points.size() * (i + 1) / count;
    ChartPoint sum;
    double finite = 0.0;
    for (std::size_t j = first; j < last; ++j) {
      if (!std::isfinite(points[j].y)) continue;
      sum.x += points[j].x;
      sum.y += points[j].y;
      finite += 1.0;
    }
    if (finite > 0.0) means.push_back({sum.x / finite, sum.y / finite});
  }
  return means;
}

std::string chart_html(const Chart& chart) {
  const Axis x{.low = 0.0, .high = std::max(chart.last_step, 1.0), .pixel_low = kLeft, .pixel_high = kWidth - kRight};
  const Axis y = fitted(chart);
  std::string html = "<figure><figcaption>" + escape_markup(chart.title) + " <small>" + escape_markup(chart.y_label) +
                     "</small></figcaption>\n<svg viewBox=\"0 0 " + coordinate(kWidth) + " " + coordinate(kHeight) +
                     "\" role=\"img\" aria-label=\"" + escape_markup(chart.title) + "\">\n" + grid(x, y);
  for (const ChartLine& line : chart.lines) html += drawn(line, x, y);
  html += "</svg>\n<ul class=\"legend\">";
  for (const ChartLine& line : chart.lines) {
    html += "<li><i class=\"line-" + line.style + "\"></i>" + escape_markup(line.name) + "</li>";
  }
  return html + "</ul></figure>\n";
}

}  // namespace headway::inline v0::internal
