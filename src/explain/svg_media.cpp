#include "explain/svg_media.h"

#include <algorithm>
#include <cstdio>

#include "base/base64.h"
#include "base/markup.h"
#include "explain/heat.h"
#include "explain/medium.h"
#include "explain/packing.h"
#include "explain/record.h"
#include "explain/svg_parts.h"
#include "explain/token_text.h"

namespace headway::inline v0::internal {
namespace {

constexpr double kTileGap = 22;
constexpr std::int64_t kTileSamples = 84, kFrameSamples = 28;  // of the longer side, at least one for each patch
constexpr std::int64_t kSmallPicture = 40;                     // pixels; a smaller picture is enlarged as squares

// What a nested <svg> shows: the picture, or one frame of a strip.
std::string window_of(const AttentionMedium& medium, const PictureSize& size, std::int64_t frame, double x, double y,
                      double width, double height) {
  const double frame_width = static_cast<double>(size.width) / static_cast<double>(medium.frames);
  std::string svg = "<svg" + svg_box(x, y, width, height);
  if (size.width == 0) return svg + "><rect width=\"100%\" height=\"100%\" fill=\"#eceff2\"/></svg>";
  return svg +
         svg_attribute("viewBox", svg_number(frame_width * static_cast<double>(frame)) + " 0 " +
                                      svg_number(frame_width) + " " + svg_number(static_cast<double>(size.height))) +
         " preserveAspectRatio=\"none\"><use href=\"#medium\"/></svg>";
}

std::string image(const std::string& png, const std::string& box) {
  return "<image" + box + " preserveAspectRatio=\"none\" href=\"data:image/png;base64," + base64(png) + "\"/>";
}

// The smooth light of a row over every frame, 0 to 1 of its brightest place: [frames] of (rows * scale, columns *
// scale).
struct Light {
  std::int64_t scale = 1;
  std::vector<std::vector<float>> frames;
};

Light light_of(const AttentionMedium& medium, const MediaRow& row, std::int64_t samples) {
  Light light;
  light.scale = std::clamp<std::int64_t>(samples / std::max(medium.rows, medium.columns), 1, 16);
  float largest = 0.0F;
  for (std::int64_t frame = 0; frame < medium.frames; ++frame) {
    const float* cells = row.weights.data() + medium.first + frame * medium.rows * medium.columns;
    light.frames.push_back(smooth_grid(cells, medium.rows, medium.columns, light.scale));
    largest = std::max(largest, *std::max_element(light.frames.back().begin(), light.frames.back().end()));
  }
  for (std::vector<float>& frame : light.frames) {
    for (float& value : frame) value = largest > 0.0F ? value / largest : 0.0F;
  }
  return light;
}

bool whole_frames(const AttentionMedium& medium) {
  return medium.kind == MediumKind::video && medium.rows * medium.columns == 1;
}

// A frame that is one token: the strongest stays clear, in an amber rim.
std::string lit_whole(double shade, const std::string& box) {
  return "<rect fill=\"#0b102b\"" + box + svg_attribute("fill-opacity", 0.75 * (1.0 - shade)) +
         "/><rect fill=\"none\"" + box + " stroke=\"#f59e0b\" stroke-width=\"2.5\"" +
         svg_attribute("stroke-opacity", shade) + "/>";
}

std::string lit_frame(const AttentionMedium& medium, const Light& light, std::int64_t frame, const std::string& box) {
  if (whole_frames(medium)) {
    return lit_whole(static_cast<double>(light.frames[static_cast<std::size_t>(frame)].front()), box);
  }
  return image(
      heat_png(light.frames[static_cast<std::size_t>(frame)], medium.rows * light.scale, medium.columns * light.scale),
      box);
}

// Height of a picture, or of a frame, over its width.
double aspect_of(const AttentionMedium& medium) {
  const PictureSize size = png_size(medium.png);
  if (size.width == 0) return static_cast<double>(medium.rows) / static_cast<double>(medium.columns);
  return static_cast<double>(size.height * medium.frames) / static_cast<double>(size.width);
}

// The largest weight of a patch; a class token before them may have more.
double brightest(const AttentionMedium& medium, const MediaRow& row) {
  return static_cast<double>(*std::max_element(row.weights.begin() + medium.first, row.weights.end()));
}

std::string rounded(double x, double y, double width, double height, double radius) {
  return "<rect class=\"rim\"" + svg_box(x, y, width, height) + svg_attribute("rx", radius) + "/>";
}

// The name of a row, cut so that it does not run into its neighbour.
std::string fitting(const std::string& name, double width, double character) {
  return cut_to_width(name, std::max<std::int64_t>(4, static_cast<std::int64_t>(width / character)));
}

std::string drawing_head(const AttentionMedium& medium, const std::string& title, double height) {
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\"" + svg_attribute("width", kMediaWidth) +
      svg_attribute("height", height) + svg_attribute("viewBox", "0 0 900 " + svg_number(height)) +
      " role=\"img\">\n<title>" + escape_markup(title) + "</title>\n<style>" +
      "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;fill:#1d2530}"
      ".title,.word{font-family:'Iowan Old Style','Palatino Linotype',Palatino,Georgia,'Noto Serif',serif}"
      ".title{font-size:26px}.word{font-size:19px}.muted{fill:#6c7681}.small{font-size:12px}"
      ".rim{fill:none;stroke:#0b102b;stroke-opacity:.14}</style>\n<defs>";
  if (const PictureSize size = png_size(medium.png); size.width > 0) {
    const bool small = size.height < kSmallPicture;
    svg += "<image id=\"medium\"" + svg_box(0, 0, static_cast<double>(size.width), static_cast<double>(size.height)) +
           (small ? " style=\"image-rendering:pixelated\"" : "") + " href=\"data:image/png;base64," +
           base64(medium.png) + "\"/>";
  }
  svg += "<linearGradient id=\"heat\">";
  for (int i = 0; i <= 5; ++i) {
    const Heat heat = heat_at(i / 5.0);
    svg += "<stop" + svg_attribute("offset", i / 5.0) + svg_attribute("stop-color", svg_color(heat.color)) +
           svg_attribute("stop-opacity", heat.alpha) + "/>";
  }
  return svg + "</linearGradient></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
}

std::string heading_of(const AttentionPart& part, std::int64_t layer, std::int64_t head) {
  const bool self = part.name == "encoder" || part.name == "decoder";
  const std::string name = part.name == "cross" ? "cross-attention" : part.name + (self ? " self-attention" : "");
  const std::string heads = head >= 0              ? "head " + std::to_string(head + 1)
                            : head_count(part) > 1 ? "mean of " + std::to_string(head_count(part)) + " heads"
                                                   : "one head";
  return printable(name) + " · layer " + std::to_string(layer + 1) + " of " + std::to_string(part.layers.size()) +
         " · " + heads;
}

void draw_legend(MediaCanvas& canvas, const MediaRows& rows, const char* percentages) {
  const std::string more = rows.left_out > 0 ? "and " + std::to_string(rows.left_out) + " more words · " : "";
  canvas.body += svg_text(kMediaMargin, canvas.y + 9, more + percentages, " class=\"muted small\"");
  if (whole_frames(rows.medium)) {  // they have no colours
    canvas.y += 18;
    return;
  }
  const double x = kMediaWidth - kMediaMargin - 128;
  canvas.body += "<rect fill=\"url(#heat)\"" + svg_box(x, canvas.y, 128, 10) + " rx=\"5\"/>";
  canvas.body += svg_text(x - 8, canvas.y + 9, "looks elsewhere", " text-anchor=\"end\" class=\"muted small\"");
  canvas.body += svg_text(x + 128, canvas.y + 26,
                          rows.medium.kind == MediumKind::video ? "strongest of each row" : "strongest of each picture",
                          " text-anchor=\"end\" class=\"muted small\"");
  canvas.y += 34;
}

}  // namespace

std::string percent_text(double weight) {
  char text[32];
  std::snprintf(text, sizeof(text), weight >= 0.0995 ? "%.0f %%" : "%.1f %%", weight * 100.0);
  return text;
}

void draw_tiles(MediaCanvas& canvas, const MediaRows& rows) {
  const AttentionMedium& medium = rows.medium;
  const PictureSize size = png_size(medium.png);
  const auto count = static_cast<std::int64_t>(rows.rows.size()) + 1;  // the picture by itself comes first
  const std::int64_t columns = count <= 4 ? std::max<std::int64_t>(count, 3) : count <= 8 ? (count + 1) / 2 : 6;
  const double width = (kMediaInner - static_cast<double>(columns - 1) * kTileGap) / static_cast<double>(columns);
  const double height = width * aspect_of(medium);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row_of_tiles = i / columns;
    const double x = kMediaMargin + static_cast<double>(i % columns) * (width + kTileGap);
    const double y = canvas.y + static_cast<double>(row_of_tiles) * (height + 52);
    canvas.body += window_of(medium, size, 0, x, y, width, height);
    if (i == 0) {
      canvas.body += rounded(x, y, width, height, 2) + svg_text(x, y + height + 21, "the picture", " class=\"muted\"");
      continue;
    }
    const MediaRow& row = rows.rows[static_cast<std::size_t>(i - 1)];
    canvas.body += lit_frame(medium, light_of(medium, row, kTileSamples), 0, svg_box(x, y, width, height));
    canvas.body += rounded(x, y, width, height, 2);
    canvas.body += svg_text(x, y + height + 22, fitting(row.name, width - 44, 9.5), " class=\"word\"");
    canvas.body += svg_text(x + width, y + height + 21, percent_text(brightest(medium, row)),
                            " text-anchor=\"end\" class=\"muted small\"") +
                   "\n";
  }
  const std::int64_t rows_of_tiles = (count + columns - 1) / columns;
  canvas.y += static_cast<double>(rows_of_tiles) * (height + 52) + 2;
  draw_legend(canvas, rows, "percentages: the weight of the brightest patch");
}

void draw_frames(MediaCanvas& canvas, const MediaRows& rows) {
  const AttentionMedium& medium = rows.medium;
  const PictureSize size = png_size(medium.png);
  constexpr double kGap = 5, kBars = 30;
  const std::int64_t most = rows.rows.size() > 2 ? 16 : 8;
  const std::int64_t columns = std::min(medium.frames, most);
  const double width =
      std::min(150.0, (kMediaInner - static_cast<double>(columns - 1) * kGap) / static_cast<double>(columns));
  const double height = width * aspect_of(medium);
  const std::int64_t cells = medium.rows * medium.columns;
  for (const MediaRow& row : rows.rows) {
    canvas.body += svg_text(kMediaMargin, canvas.y + 14, fitting(row.name, kMediaInner, 9.5), " class=\"word\"");
    canvas.y += 24;
    const Light light = light_of(medium, row, kFrameSamples);
    std::vector<double> shares;
    for (std::int64_t frame = 0; frame < medium.frames; ++frame) {
      const auto begin = row.weights.begin() + medium.first + frame * cells;
      double share = 0.0;
      for (auto weight = begin; weight != begin + cells; ++weight) share += *weight;
      shares.push_back(share);
    }
    const double most_share = std::max(1e-9, *std::max_element(shares.begin(), shares.end()));
    for (std::int64_t frame = 0; frame < medium.frames; ++frame) {
      const std::int64_t row_of_frames = frame / columns;
      const double x = kMediaMargin + static_cast<double>(frame % columns) * (width + kGap);
      const double y = canvas.y + static_cast<double>(row_of_frames) * (height + kBars + 4);
      const double share = shares[static_cast<std::size_t>(frame)];
      canvas.body += window_of(medium, size, frame, x, y, width, height);
      canvas.body += lit_frame(medium, light, frame, svg_box(x, y, width, height));
      canvas.body +=
          "<rect fill=\"#2f74b5\"" + svg_box(x, y + height + 4, width * share / most_share, 5) + " rx=\"1\"/>";
      canvas.body += svg_text(x, y + height + 22, percent_text(share), " class=\"muted small\"") + "\n";
    }
    const std::int64_t rows_of_frames = (medium.frames + columns - 1) / columns;
    canvas.y += static_cast<double>(rows_of_frames) * (height + kBars + 4) + 10;
  }
  draw_legend(canvas, rows,
              whole_frames(medium) ? "percentages: the weight of each frame; the strongest are clear"
                                   : "percentages: the weight of each frame");
}

std::string draw_media(const AttentionRecord& record, const AttentionPart& part, std::int64_t layer,
                       std::int64_t head) {
  const MediaRows rows = media_rows(part, layer, head);
  const std::string text = printable(record.target.empty() ? record.source : record.target);
  MediaCanvas canvas;
  canvas.body += svg_text(kMediaMargin, 54, cut_to_width(text, 64), " class=\"title\"");
  canvas.body += svg_text(kMediaMargin, 78, heading_of(part, layer, head), " class=\"muted\"") + "\n";
  canvas.y = 104;
  switch (rows.medium.kind) {
    case MediumKind::sound:
      draw_sound(canvas, rows);
      break;
    case MediumKind::video:
      draw_frames(canvas, rows);
      break;
    case MediumKind::list:
      draw_list(canvas, rows);
      break;
    default:
      draw_tiles(canvas, rows);
      break;
  }
  return drawing_head(rows.medium, text, canvas.y + 8) + canvas.body + "</svg>\n";
}

}  // namespace headway::inline v0::internal
