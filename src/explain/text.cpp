// attention_text: maps of heads for a terminal.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/divide.h"
#include "explain/record.h"
#include "explain/terminal.h"
#include "explain/text_media.h"
#include "explain/text_word.h"
#include "explain/token_text.h"
#include "headway/attention_view.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr std::int64_t kLongestRowLabel = 14, kLongestColumnLabel = 10;  // characters
constexpr std::int64_t kPanelGap = 3;

// The layout of a layer's heads in the terminal.
struct Maps {
  const AttentionPart& part;
  Tensor weights;  // (heads, queries, keys)
  float largest = 0;
  bool color = true;
  std::int64_t label_width = 0;
  std::int64_t cell_width = 1;
  std::int64_t keys_per_cell = 1;  // more than one where the keys do not fit

  std::int64_t columns() const { return divide_up(key_count(part), keys_per_cell); }
  std::int64_t panel_width() const { return columns() * cell_width; }

  // The strongest of the keys that share a cell.
  float weight(std::int64_t head, std::int64_t query, std::int64_t column) const {
    const float* row = weights.data<float>() + (head * query_count(part) + query) * key_count(part);
    const std::int64_t begin = column * keys_per_cell, end = std::min(begin + keys_per_cell, key_count(part));
    return *std::max_element(row + begin, row + end);
  }
};

std::string label_of(const std::string& token, std::int64_t width) {
  return cut_to_width(token_text(token).text, width);
}

// The keys' tokens written downwards, one line for each character, the last ones just above the map.
std::vector<std::string> column_labels(const Maps& maps) {
  std::vector<std::vector<std::string>> labels;
  std::size_t height = 0;
  for (std::int64_t column = 0; column < maps.columns(); ++column) {
    const std::string& token = maps.part.keys[static_cast<std::size_t>(column * maps.keys_per_cell)];
    labels.push_back(characters(label_of(token, kLongestColumnLabel)));
    height = std::max(height, labels.back().size());
  }
  std::vector<std::string> lines(height);
  for (std::size_t line = 0; line < height; ++line) {
    for (const std::vector<std::string>& label : labels) {
      const std::size_t skipped = height - label.size();
      const std::string character = line < skipped ? "" : label[line - skipped];
      // A wide character does not fit into a cell of one column.
      lines[line] += pad_right(display_width(character) > maps.cell_width ? "·" : character, maps.cell_width);
    }
  }
  return lines;
}

// Panels of the heads [first, first + count) side by side.
void draw_band(std::string& text, const Maps& maps, std::int64_t first, std::int64_t count) {
  const std::string margin(static_cast<std::size_t>(maps.label_width + 1), ' ');
  const std::string gap(static_cast<std::size_t>(kPanelGap), ' ');
  const auto add_line = [&](const std::string& start, const auto& panel_line) {
    std::string line = start;
    for (std::int64_t i = 0; i < count; ++i) line += (i > 0 ? gap : "") + panel_line(first + i);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line(margin, [&](std::int64_t head) {
    const std::string name = cut_to_width("head " + std::to_string(head + 1), maps.panel_width());
    return bold(pad_right(name, maps.panel_width()), maps.color);
  });
  for (const std::string& labels : column_labels(maps)) {
    add_line(margin, [&](std::int64_t) { return grey(labels, maps.color); });
  }
  for (std::int64_t query = 0; query < query_count(maps.part); ++query) {
    const std::string label = label_of(maps.part.queries[static_cast<std::size_t>(query)], maps.label_width);
    const bool special = token_text(maps.part.queries[static_cast<std::size_t>(query)]).special;
    const std::string padded = pad_left(label, maps.label_width);
    add_line(grey(padded, maps.color && special) + " ", [&](std::int64_t head) {
      std::string cells;
      for (std::int64_t column = 0; column < maps.columns(); ++column) {
        const float shade = shade_of(maps.weight(head, query, column), maps.largest);
        cells += map_cell(shade, maps.cell_width, maps.color);
      }
      return cells;
    });
  }
}

std::string draw_maps(const AttentionPart& part, std::int64_t layer, const TerminalDrawing& drawing) {
  Maps maps{.part = part, .weights = dense_layer(part, layer)};
  maps.largest = strongest(maps.weights);
  maps.color = drawing.color;
  for (const std::string& token : part.queries) {
    maps.label_width = std::max(maps.label_width, display_width(label_of(token, kLongestRowLabel)));
  }
  const std::int64_t room = std::max<std::int64_t>(1, drawing.width - maps.label_width - 1);
  const bool alone = drawing.what.head >= 0;
  // Two columns make a square; side by side, narrow cells bring more heads into a line.
  maps.cell_width = alone && key_count(part) * 2 <= room ? 2 : 1;
  maps.keys_per_cell = std::max<std::int64_t>(1, divide_up(key_count(part) * maps.cell_width, room));

  std::string text = part.name + ", layer " + std::to_string(layer + 1);
  text += drawing.color ? "" : "  (█ is ";
  char number[16];
  std::snprintf(number, sizeof(number), "%.2f", static_cast<double>(maps.largest));
  text += drawing.color ? "  " + map_cell(1.0F, 2, true) + " is " + number : std::string(number) + ")";
  if (maps.keys_per_cell > 1) {
    text += ", each column the strongest of " + std::to_string(maps.keys_per_cell) + " tokens";
  }
  text += "\n";
  const std::int64_t step = maps.panel_width() + kPanelGap;
  const std::int64_t side_by_side = alone ? 1 : std::max<std::int64_t>(1, (room + kPanelGap) / step);
  const std::int64_t first = alone ? drawing.what.head : 0, end = alone ? first + 1 : head_count(part);
  for (std::int64_t head = first; head < end; head += side_by_side) {
    text += "\n";
    draw_band(text, maps, head, std::min(side_by_side, end - head));
  }
  return text;
}

}  // namespace
}  // namespace internal

std::string attention_text(const AttentionRecord& record, const TerminalDrawing& drawing) {
  using namespace internal;
  constexpr const char* kName = "attention_text";
  constexpr std::int64_t kNarrowest = 20;
  check(drawing.width >= kNarrowest, kName, ": width is ", drawing.width, ", expected at least ", kNarrowest);
  const auto [part, layer] = drawn_layer(kName, record, drawing.what);
  if (part.queries.empty() || part.keys.empty()) return part.name + ": no tokens\n";
  if (drawing.word.empty() && has_places(part)) return draw_places(part, layer, drawing);
  return drawing.word.empty() ? draw_maps(part, layer, drawing) : draw_word(record, part, layer, drawing);
}

}  // namespace headway::inline v0
