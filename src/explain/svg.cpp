// attention_svg: one layer's heads as maps, tokens on both axes.
#include <algorithm>
#include <string>
#include <vector>

#include "base/base64.h"
#include "base/markup.h"
#include "explain/colors.h"
#include "explain/packing.h"
#include "explain/record.h"
#include "explain/svg_media.h"
#include "explain/svg_parts.h"
#include "explain/token_text.h"
#include "headway/attention_view.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr double kMargin = 24, kTitleHeight = 24, kGap = 28, kFontSize = 11, kCharacterWidth = 7.8;
constexpr double kPanelSize = 260, kAloneSize = 640;  // of a map's longer side
constexpr double kSmallestCell = 1, kLargestCell = 26;
constexpr std::int64_t kMostPanelsInRow = 4;
constexpr std::int64_t kMostRectangles = 16384;  // more cells than these are drawn as a picture inside
constexpr std::int64_t kLongestLabel = 14;       // characters

struct Labels {
  std::vector<std::string> texts;  // escaped
  std::vector<bool> special;
  double size = 0;  // of the longest
};

Labels labels_of(const std::vector<std::string>& tokens) {
  Labels labels;
  for (const std::string& token : tokens) {
    const TokenText shown = token_text(token);
    const std::string text = cut_to_width(shown.text, kLongestLabel);
    labels.size = std::max(labels.size, static_cast<double>(display_width(text)) * kCharacterWidth);
    labels.texts.push_back(escape_markup(text));
    labels.special.push_back(shown.special);
  }
  return labels;
}

// The layout of a layer's drawing, all sizes in SVG's units.
struct Panels {
  const AttentionPart& part;
  Tensor weights;  // (heads, queries, keys)
  float largest = 0;
  Labels queries, keys;
  double cell = 0;
  double width() const { return cell * static_cast<double>(key_count(part)); }
  double height() const { return cell * static_cast<double>(query_count(part)); }
  const float* head(std::int64_t index) const {
    return weights.data<float>() + index * query_count(part) * key_count(part);
  }
};

void draw_rectangles(std::string& svg, const Panels& panels, std::int64_t head) {
  const float* weight = panels.head(head);
  const double inner = panels.cell > 6 ? panels.cell - 1 : panels.cell;  // a gap of 1 between large cells
  for (std::int64_t q = 0; q < query_count(panels.part); ++q) {
    for (std::int64_t k = 0; k < key_count(panels.part); ++k) {
      const float shade = shade_of(*weight++, panels.largest);
      if (shade < 0.03F) continue;  // as good as the background's colour
      svg += "<rect" + svg_attribute("x", static_cast<double>(k) * panels.cell) +
             svg_attribute("y", static_cast<double>(q) * panels.cell) + svg_attribute("width", inner) +
             svg_attribute("height", inner) + " fill=\"" + svg_color(color_at(kPaperScale, shade)) + "\"/>";
    }
  }
}

void draw_picture(std::string& svg, const Panels& panels, std::int64_t head) {
  IndexedImage image{.width = key_count(panels.part), .height = query_count(panels.part), .pixels = {}, .palette = {}};
  for (int level = 0; level < 256; ++level) {
    const Color color = color_at(kPaperScale, static_cast<float>(level) / 255.0F);
    for (const std::uint8_t channel : {color.red, color.green, color.blue}) {
      image.palette.push_back(static_cast<char>(channel));
    }
  }
  const float* weight = panels.head(head);
  for (std::int64_t i = 0; i < image.width * image.height; ++i) {
    image.pixels.push_back(static_cast<char>(std::lround(shade_of(*weight++, panels.largest) * 255.0F)));
  }
  svg += "<image" + svg_attribute("width", panels.width()) + svg_attribute("height", panels.height()) +
         " preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64," +
         base64(png(image)) + "\"/>";
}

// Token labels along one axis; some are left out where they would overlap.
void draw_labels(std::string& svg, const Labels& labels, double cell, bool rows) {
  const auto step = static_cast<std::size_t>(std::max(1.0, std::ceil((kFontSize + 1) / cell)));
  for (std::size_t i = 0; i < labels.texts.size(); i += step) {
    const double middle = (static_cast<double>(i) + 0.5) * cell;
    svg += rows ? "<text x=\"-6\" text-anchor=\"end\"" + svg_attribute("y", middle + kFontSize * 0.35)
                : "<text transform=\"translate(" + svg_number(middle + kFontSize * 0.35) + " -6) rotate(-90)\"";
    svg += labels.special[i] ? " class=\"special\">" : ">";
    svg += labels.texts[i] + "</text>";
  }
}

void draw_panel(std::string& svg, const Panels& panels, std::int64_t head) {
  const bool large =
      query_count(panels.part) * key_count(panels.part) * head_count(panels.part) > kMostRectangles * 2 ||
      query_count(panels.part) * key_count(panels.part) > kMostRectangles;
  svg += "<rect class=\"ground\"" + svg_attribute("width", panels.width()) + svg_attribute("height", panels.height()) +
         "/>";
  large ? draw_picture(svg, panels, head) : draw_rectangles(svg, panels, head);
  draw_labels(svg, panels.keys, panels.cell, false);
  draw_labels(svg, panels.queries, panels.cell, true);
}

std::string opening(double width, double height, const std::string& title) {
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + svg_attribute("width", width) +
                    svg_attribute("height", height) + " viewBox=\"0 0 " + svg_number(width) + " " + svg_number(height) +
                    "\" role=\"img\">\n<title>" + title + "</title>\n";
  svg += "<style>text{font:" + svg_number(kFontSize) +
         "px system-ui,sans-serif;fill:#1d2530;unicode-bidi:plaintext}.special{fill:#8a94a1}"
         ".name{font-weight:600}.heading{font-size:14px}.ground{fill:" +
         svg_color(kPaperScale[0]) + "}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  return svg;
}

}  // namespace
}  // namespace internal

std::string attention_svg(const AttentionRecord& record, const AttentionDrawing& drawing) {
  using namespace internal;
  const auto [part, layer] = drawn_layer("attention_svg", record, drawing);
  if (has_media(part)) return draw_media(record, part, layer, drawing.head);
  const bool alone = drawing.head >= 0;
  const std::int64_t first = alone ? drawing.head : 0, count = alone ? 1 : head_count(part);
  const auto longer = static_cast<double>(std::max<std::int64_t>({1, query_count(part), key_count(part)}));
  Panels panels{.part = part,
                .weights = dense_layer(part, layer),
                .largest = 0,
                .queries = labels_of(part.queries),
                .keys = labels_of(part.keys),
                .cell = std::clamp((alone ? kAloneSize : kPanelSize) / longer, kSmallestCell, kLargestCell)};
  panels.largest = strongest(panels.weights);

  const std::int64_t columns = std::min(count, kMostPanelsInRow);
  const double step_x = panels.width() + panels.queries.size + 6 + kGap;
  const double step_y = panels.height() + panels.keys.size + 6 + kTitleHeight + kGap;
  const double heading_height = 34;
  const std::string heading = escape_markup(printable(part.name)) + ", layer " + std::to_string(layer + 1);
  const std::int64_t rows = (count + columns - 1) / columns;
  std::string svg = opening(2 * kMargin + static_cast<double>(columns) * step_x - kGap,
                            2 * kMargin + heading_height + static_cast<double>(rows) * step_y - kGap, heading);
  svg += "<text class=\"name heading\"" + svg_attribute("x", kMargin) + svg_attribute("y", kMargin + 14) + ">" +
         heading + "</text>\n";
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = i / columns, column = i % columns;
    const double x = kMargin + static_cast<double>(column) * step_x + panels.queries.size + 6;
    const double y = kMargin + heading_height + static_cast<double>(row) * step_y;
    svg += "<text class=\"name\"" + svg_attribute("x", x) + svg_attribute("y", y + 12) + ">head " +
           std::to_string(first + i + 1) + "</text>\n<g transform=\"translate(" + svg_number(x) + " " +
           svg_number(y + kTitleHeight + panels.keys.size + 6) + ")\">";
    draw_panel(svg, panels, first + i);
    svg += "</g>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace headway::inline v0
