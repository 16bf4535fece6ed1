#include "explain/text_media.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "explain/media_rows.h"
#include "explain/medium.h"
#include "explain/record.h"
#include "explain/terminal.h"
#include "explain/token_text.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kPatchGap = 3, kLongestName = 14;

// Shades of a row's strongest, 0 to 1, in `count` stretches of equal length, each the strongest of its places.
std::vector<float> stretches(const float* weights, std::int64_t places, std::int64_t count, float largest) {
  std::vector<float> shades;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = i * places / count, end = std::max(begin + 1, (i + 1) * places / count);
    shades.push_back(shade_of(*std::max_element(weights + begin, weights + end), largest));
  }
  return shades;
}

std::string name_of(const MediaRow& row, std::int64_t width) { return pad_left(cut_to_width(row.name, width), width); }

std::int64_t name_width(const MediaRows& rows) {
  std::int64_t width = 0;
  for (const MediaRow& row : rows.rows) width = std::max(width, display_width(cut_to_width(row.name, kLongestName)));
  return width;
}

// A line for each word, time to the right.
std::string draw_stretches(const MediaRows& rows, const TerminalDrawing& drawing) {
  const AttentionMedium& medium = rows.medium;
  const std::int64_t names = name_width(rows);
  const std::int64_t count = std::max<std::int64_t>(1, std::min(medium.columns, drawing.width - names - 1));
  std::string text;
  for (const MediaRow& row : rows.rows) {
    text += name_of(row, names) + " ";
    for (const float shade : stretches(row.weights.data() + medium.first, medium.columns, count, row.largest())) {
      text += map_cell(shade, 1, drawing.color);
    }
    text += "\n";
  }
  if (medium.seconds <= 0.0) return text;
  char end[32];
  std::snprintf(end, sizeof(end), "%.1f s", static_cast<double>(medium.columns) * medium.seconds);
  const std::string start = pad_right(std::string(static_cast<std::size_t>(names) + 1, ' ') + "0.0 s", 1);
  const std::int64_t room = names + 1 + count - display_width(start);
  return text + grey(start + pad_left(end, std::max(room, display_width(end) + 1)), drawing.color) + "\n";
}

// A line for each word with each frame's share of the weight.
std::string draw_shares(const MediaRows& rows, const TerminalDrawing& drawing) {
  const AttentionMedium& medium = rows.medium;
  const std::int64_t names = name_width(rows), cells = medium.rows * medium.columns;
  const std::int64_t count = std::max<std::int64_t>(1, std::min(medium.frames, drawing.width - names - 1));
  const std::int64_t width = std::clamp<std::int64_t>((drawing.width - names - 1) / count, 1, 4);
  std::string text;
  for (const MediaRow& row : rows.rows) {
    std::vector<float> shares;
    for (std::int64_t frame = 0; frame < medium.frames; ++frame) {
      const float* cell = row.weights.data() + medium.first + frame * cells;
      float share = 0.0F;
      for (std::int64_t i = 0; i < cells; ++i) share += cell[i];
      shares.push_back(share);
    }
    const float largest = *std::max_element(shares.begin(), shares.end());
    text += name_of(row, names) + " ";
    for (const float shade : stretches(shares.data(), medium.frames, count, largest)) {
      text += map_cell(shade, width, drawing.color);
    }
    text += "\n";
  }
  const std::string frames = std::to_string(medium.frames) + (medium.frames == 1 ? " frame" : " frames");
  return text + grey(std::string(static_cast<std::size_t>(names) + 1, ' ') + frames, drawing.color) + "\n";
}

// A small picture for each word, side by side.
std::string draw_patches(const MediaRows& rows, const TerminalDrawing& drawing) {
  const AttentionMedium& medium = rows.medium;
  const std::int64_t cell = medium.columns * 2 <= drawing.width ? 2 : 1;  // two columns make a square
  const std::int64_t width = std::min(medium.columns * cell, drawing.width);
  const std::int64_t beside = std::max<std::int64_t>(1, (drawing.width + kPatchGap) / (width + kPatchGap));
  const auto count = static_cast<std::int64_t>(rows.rows.size());
  const std::string gap(static_cast<std::size_t>(kPatchGap), ' ');
  std::string text;
  for (std::int64_t first = 0; first < count; first += beside) {
    const std::int64_t end = std::min(count, first + beside);
    const auto add_line = [&](const auto& piece) {
      for (std::int64_t i = first; i < end; ++i) {
        text += (i > first ? gap : "") + piece(rows.rows[static_cast<std::size_t>(i)]);
      }
      text += "\n";
    };
    text += first > 0 ? "\n" : "";
    add_line([&](const MediaRow& row) { return bold(pad_right(cut_to_width(row.name, width), width), drawing.color); });
    for (std::int64_t line = 0; line < medium.rows; ++line) {
      add_line([&](const MediaRow& row) {
        const float* weights = row.weights.data() + medium.first;
        const float largest = *std::max_element(weights, weights + medium.rows * medium.columns);
        std::string cells;
        for (const float shade : stretches(weights + line * medium.columns, medium.columns, width / cell, largest)) {
          cells += map_cell(shade, cell, drawing.color);
        }
        return cells;
      });
    }
  }
  return text;
}

}  // namespace

bool has_places(const AttentionPart& part) { return has_grid(part.query_medium) || has_grid(part.key_medium); }

std::string draw_places(const AttentionPart& part, std::int64_t layer, const TerminalDrawing& drawing) {
  const MediaRows rows = media_rows(part, layer, drawing.what.head);
  std::string text = part.name + ", layer " + std::to_string(layer + 1) + ", ";
  text += drawing.what.head >= 0 ? "head " + std::to_string(drawing.what.head + 1)
                                 : "mean of " + std::to_string(head_count(part)) + " heads";
  text += rows.left_out > 0 ? ", the first " + std::to_string(rows.rows.size()) + " words\n\n" : "\n\n";
  switch (rows.medium.kind) {
    case MediumKind::sound:
      return text + draw_stretches(rows, drawing);
    case MediumKind::video:
      return text + draw_shares(rows, drawing);
    default:
      return text + draw_patches(rows, drawing);
  }
}

}  // namespace headway::inline v0::internal
