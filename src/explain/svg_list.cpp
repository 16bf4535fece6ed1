// Attention over a list: bars for one row, a table of circles for many.
#include <algorithm>
#include <vector>

#include "explain/colors.h"
#include "explain/svg_media.h"
#include "explain/svg_parts.h"
#include "explain/token_text.h"

namespace headway::inline v0::internal {
namespace {

constexpr double kItemNames = 250, kItemLine = 30;

// Rows down, items to the right: a circle's area is the weight.
void draw_circles(MediaCanvas& canvas, const MediaRows& rows) {
  constexpr double kNames = 170, kSlant = -40, kHeader = 96;
  const auto items = static_cast<double>(rows.tokens.size());
  const double left = kMediaMargin + kNames, step = std::min(72.0, (kMediaInner - kNames - 40) / items);
  canvas.y += kHeader;
  float largest = 0.0F;
  for (const MediaRow& row : rows.rows) largest = std::max(largest, row.largest());
  for (std::size_t item = 0; item < rows.tokens.size(); ++item) {
    const double x = left + (static_cast<double>(item) + 0.5) * step;
    canvas.body += svg_text(0, 0, cut_to_width(token_text(rows.tokens[item]).text, 16),
                            " transform=\"translate(" + svg_number(x) + " " + svg_number(canvas.y - 8) + ") rotate(" +
                                svg_number(kSlant) + ")\"");
  }
  for (const MediaRow& row : rows.rows) {
    const double middle = canvas.y + kItemLine / 2;
    canvas.body += "<path stroke=\"#e6e9ed\" d=\"M" + svg_number(left) + " " + svg_number(middle) + "h" +
                   svg_number(items * step) + "\"/>";
    canvas.body += svg_text(left - 14, middle + 5, cut_to_width(row.name, 22), " text-anchor=\"end\"");
    for (std::size_t item = 0; item < row.weights.size(); ++item) {
      const float shade = shade_of(row.weights[item], largest);
      if (shade < 0.04F) continue;
      canvas.body += "<circle" + svg_attribute("cx", left + (static_cast<double>(item) + 0.5) * step) +
                     svg_attribute("cy", middle) +
                     svg_attribute("r", std::min(kItemLine, step) * 0.46 * static_cast<double>(shade)) +
                     svg_attribute("fill", svg_color(color_at(kPaperScale, 0.3F + 0.6F * shade))) + "/>";
    }
    canvas.body += "\n";
    canvas.y += kItemLine;
  }
  canvas.y += 24;
  canvas.body += svg_text(kMediaWidth - kMediaMargin, canvas.y,
                          "area: the weight · largest " + percent_text(static_cast<double>(largest)),
                          " text-anchor=\"end\" class=\"muted small\"");
  canvas.y += 14;
}

}  // namespace

void draw_list(MediaCanvas& canvas, const MediaRows& rows) {
  constexpr double kLine = 26, kShare = 64;
  constexpr std::size_t kMostItems = 20, kMostPanels = 6;
  const bool heads = rows.rows.size() > 1 && rows.rows[1].name == "head 1";
  if (!heads && rows.rows.size() > 2 && rows.tokens.size() <= 2 * kMostItems) return draw_circles(canvas, rows);
  const std::size_t panels = heads ? 1 : std::min(rows.rows.size(), kMostPanels);
  for (std::size_t panel = 0; panel < panels; ++panel) {
    const MediaRow& row = rows.rows[panel];
    canvas.body += svg_text(kMediaMargin, canvas.y + 18, cut_to_width(row.name, 60), " class=\"word\"");
    canvas.y += 34;
    // The strongest items, in their own order.
    std::vector<std::size_t> items(row.weights.size());
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = i;
    std::stable_sort(items.begin(), items.end(),
                     [&](std::size_t a, std::size_t b) { return row.weights[a] > row.weights[b]; });
    items.resize(std::min(items.size(), kMostItems));
    std::sort(items.begin(), items.end());
    float largest = row.largest();
    for (std::size_t h = 1; heads && h < rows.rows.size(); ++h) largest = std::max(largest, rows.rows[h].largest());
    const double room = kMediaInner - kItemNames - kShare;
    const auto length = [&](float weight) {
      return largest > 0.0F ? room * static_cast<double>(weight / largest) : 0.0;
    };
    for (const std::size_t item : items) {
      const double x = kMediaMargin + kItemNames, middle = canvas.y + kLine / 2;
      const float shade = shade_of(row.weights[item], row.largest());
      canvas.body +=
          svg_text(x - 12, middle + 5, cut_to_width(token_text(rows.tokens[item]).text, 32), " text-anchor=\"end\"");
      canvas.body += "<rect" + svg_box(x, canvas.y + 5, std::max(1.5, length(row.weights[item])), kLine - 10) +
                     " rx=\"2\"" + svg_attribute("fill", svg_color(color_at(kPaperScale, 0.25F + 0.6F * shade))) + "/>";
      for (std::size_t h = 1; heads && h < rows.rows.size(); ++h) {
        canvas.body += "<circle fill=\"#fff\" stroke=\"#c2410c\" stroke-width=\"1.5\" r=\"3.2\"" +
                       svg_attribute("cx", x + length(rows.rows[h].weights[item])) + svg_attribute("cy", middle) + "/>";
      }
      canvas.body += svg_text(kMediaWidth - kMediaMargin, middle + 5, percent_text(row.weights[item]),
                              " text-anchor=\"end\" class=\"muted small\"") +
                     "\n";
      canvas.y += kLine;
    }
    canvas.y += 14;
  }
  if (heads) {
    canvas.body += svg_text(kMediaWidth - kMediaMargin, canvas.y + 4, "bar: mean of the heads · circles: each head",
                            " text-anchor=\"end\" class=\"muted small\"");
    canvas.y += 14;
  }
}

}  // namespace headway::inline v0::internal
