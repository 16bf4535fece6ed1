// Line charts as SVG.
#pragma once

#include <string>
#include <vector>

namespace headway::inline v0::internal {

struct ChartPoint {
  double x = 0.0;
  double y = 0.0;
};

struct ChartLine {
  std::string name;
  std::string style;               // the name of a CSS colour variable
  std::vector<ChartPoint> points;  // ascending in x; points that are not finite are left out
  bool dots = false;               // marks each point and shows its values on hover
};

struct Chart {
  std::string title;
  std::string y_label;
  std::vector<ChartLine> lines;
  double last_step = 0.0;    // the end of the x axis; both axes begin at 0
  bool logarithmic = false;  // the y axis is logarithmic and begins at a power of ten
};

// One <figure> with the chart and its legend. Texts are escaped.
std::string chart_html(const Chart& chart);

// At most `count` points, each the mean of neighbouring points.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, std::size_t count);

}  // namespace headway::inline v0::internal
