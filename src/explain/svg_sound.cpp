// Attention over a sound: curves above the spectrogram, the alignment below it.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/base64.h"
#include "explain/medium.h"
#include "explain/packing.h"
#include "explain/svg_media.h"
#include "explain/svg_parts.h"
#include "explain/token_text.h"

namespace headway::inline v0::internal {
namespace {

// Colours of curves that differ for colour-blind people too, dark enough for text.
constexpr std::array<const char*, 6> kInks = {"#1f5fa8", "#c2410c", "#0f766e", "#9d174d", "#6d4bb0", "#7c5a06"};

struct SoundPlot {
  const MediaRows& rows;
  double left = 0, width = 0;
  std::int64_t columns() const { return rows.medium.columns; }
  const float* weights(std::size_t row) const { return rows.rows[row].weights.data() + rows.medium.first; }
  double x_of(double column) const { return left + width * column / static_cast<double>(columns()); }
  std::int64_t peak(std::size_t row) const {
    return std::max_element(weights(row), weights(row) + columns()) - weights(row);
  }
};

// A filled curve of one row whose strongest place is `height` above `base`.
std::string curve(const SoundPlot& plot, std::size_t row, double base, double height, const char* ink) {
  const float* weights = plot.weights(row);
  const double largest = std::max(1e-9F, *std::max_element(weights, weights + plot.columns()));
  // No more points than pixels; a point shows the strongest of its columns.
  const std::int64_t step = std::max<std::int64_t>(1, plot.columns() / 420);
  std::string line;
  for (std::int64_t column = 0; column < plot.columns(); column += step) {
    const std::int64_t end = std::min(column + step, plot.columns());
    const double weight = *std::max_element(weights + column, weights + end);
    char point[48];
    std::snprintf(point, sizeof(point), "L%.1f %.1f", plot.x_of(static_cast<double>(column + end) / 2.0),
                  base - height * weight / largest);
    line += point;
  }
  const std::string start = svg_number(plot.left) + " " + svg_number(base);
  return "<path d=\"M" + start + line + "L" + svg_number(plot.left + plot.width) + " " + svg_number(base) +
         "\" fill-opacity=\".16\" stroke-width=\"1.6\" stroke-linejoin=\"round\"" + svg_attribute("fill", ink) +
         svg_attribute("stroke", ink) + "/>\n";
}

// Seconds along the bottom of a plot; without seconds nothing.
void draw_time(MediaCanvas& canvas, const SoundPlot& plot) {
  const double total = plot.rows.medium.seconds * static_cast<double>(plot.columns());
  if (total <= 0.0) return;
  double step = std::pow(10.0, std::floor(std::log10(total / 4.0)));
  for (const double factor : {2.0, 2.5}) {  // 1, 2, 5 of a power of ten
    if (total / step > 9.0) step *= factor;
  }
  for (std::int64_t i = 0; static_cast<double>(i) * step <= total * 1.0001; ++i) {
    const double x = plot.left + plot.width * static_cast<double>(i) * step / total;
    char text[32];
    std::snprintf(text, sizeof(text), step < 0.1 ? "%.2f" : "%.1f", static_cast<double>(i) * step);
    canvas.body += "<path stroke=\"#9aa3ad\" d=\"M" + svg_number(x) + " " + svg_number(canvas.y) + "v5\"/>";
    canvas.body += svg_text(x, canvas.y + 18, i == 0 ? std::string(text) + " s" : std::string(text),
                            " text-anchor=\"middle\" class=\"muted small\"");
  }
  canvas.y += 26;
}

// A row's name above its peak; `level` counts lines upwards.
struct PeakName {
  std::size_t row = 0;
  std::string text;
  double x = 0;
  std::size_t level = 0;
};

// The names of all rows, in up to three lines where they would touch.
std::vector<PeakName> peak_names(const SoundPlot& plot) {
  constexpr double kCharacter = 9.6, kSpace = 6;
  std::vector<PeakName> names;
  for (std::size_t row = 0; row < plot.rows.rows.size(); ++row) {
    names.push_back(
        {row, cut_to_width(plot.rows.rows[row].name, 24), plot.x_of(static_cast<double>(plot.peak(row)) + 0.5)});
  }
  std::stable_sort(names.begin(), names.end(), [](const PeakName& a, const PeakName& b) { return a.x < b.x; });
  std::array<double, 3> ends = {-1e9, -1e9, -1e9};
  for (PeakName& name : names) {
    const double half = static_cast<double>(display_width(name.text)) * kCharacter / 2.0;
    name.x = std::clamp(name.x, plot.left + half, std::max(plot.left + half, plot.left + plot.width - half));
    while (name.level + 1 < ends.size() && ends[name.level] > name.x - half) ++name.level;
    ends[name.level] = name.x + half + kSpace;
  }
  return names;
}

// Words down, time to the right: dark where a word looks.
void draw_alignment(MediaCanvas& canvas, const SoundPlot& plot) {
  const auto count = static_cast<std::int64_t>(plot.rows.rows.size());
  const double line = std::clamp(240.0 / static_cast<double>(count), 15.0, 30.0);
  IndexedImage map{.width = plot.columns(), .height = count, .pixels = {}, .palette = {}};
  for (int level = 0; level < 256; ++level) {
    const Color color = color_at(kPaperScale, static_cast<float>(level) / 255.0F);
    for (const std::uint8_t channel : {color.red, color.green, color.blue}) {
      map.palette.push_back(static_cast<char>(channel));
    }
  }
  for (std::size_t row = 0; row < plot.rows.rows.size(); ++row) {
    const float* weights = plot.weights(row);
    const float largest = *std::max_element(weights, weights + plot.columns());
    for (std::int64_t column = 0; column < plot.columns(); ++column) {
      map.pixels.push_back(static_cast<char>(std::lround(shade_of(weights[column], largest) * 255.0F)));
    }
    const double y = canvas.y + line * (static_cast<double>(row) + 0.5);
    canvas.body += svg_text(plot.left - 10, y + 5, cut_to_width(plot.rows.rows[row].name, 14),
                            std::string(" text-anchor=\"end\" style=\"fill:") + kInks[row % kInks.size()] + "\"");
  }
  canvas.body += "<image" + svg_box(plot.left, canvas.y, plot.width, line * static_cast<double>(count)) +
                 " preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64," +
                 base64(png(map)) + "\"/>\n";
  canvas.y += line * static_cast<double>(count);
}

}  // namespace

void draw_sound(MediaCanvas& canvas, const MediaRows& rows) {
  constexpr double kCurves = 84, kSpectrogram = 150, kNames = 108;
  const SoundPlot plot{rows, kMediaMargin + kNames, kMediaInner - kNames};
  const std::vector<PeakName> names = peak_names(plot);
  std::size_t levels = 0;
  for (const PeakName& name : names) levels = std::max(levels, name.level);
  canvas.y += 14 + 21.0 * static_cast<double>(levels);
  for (const PeakName& name : names) {
    canvas.body += svg_text(
        name.x, canvas.y - 21.0 * static_cast<double>(name.level), name.text,
        std::string(" class=\"word\" text-anchor=\"middle\" style=\"fill:") + kInks[name.row % kInks.size()] + "\"");
  }
  canvas.y += kCurves + 8;
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    canvas.body += curve(plot, row, canvas.y, kCurves, kInks[row % kInks.size()]);
  }
  const PictureSize size = png_size(rows.medium.png);
  if (size.width > 0) {
    canvas.body += "<svg" + svg_box(plot.left, canvas.y, plot.width, kSpectrogram) +
                   svg_attribute("viewBox", "0 0 " + std::to_string(size.width) + " " + std::to_string(size.height)) +
                   " preserveAspectRatio=\"none\"><use href=\"#medium\"/></svg>\n";
    canvas.body +=
        svg_text(plot.left - 10, canvas.y + kSpectrogram / 2, "sound", " text-anchor=\"end\" class=\"muted\"");
    canvas.y += kSpectrogram;
  }
  canvas.y += 14;
  draw_alignment(canvas, plot);
  draw_time(canvas, plot);
  canvas.y += 12;
}

}  // namespace headway::inline v0::internal
