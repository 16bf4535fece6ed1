// The attention of one word, head by head, for a terminal.
#include "explain/text_word.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "explain/record.h"
#include "explain/terminal.h"
#include "explain/token_text.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kLongestKey = 12, kLongestPlace = 24, kBarWidth = 8, kNumberWidth = 4, kWordGap = 3;
constexpr std::int64_t kMostKeys = 5;

// The mean of the rows of a span in one head: (keys).
std::vector<float> mean_row(const Tensor& weights, std::int64_t head, TokenSpan span) {
  const std::int64_t keys = weights.size(2);
  std::vector<float> row(static_cast<std::size_t>(keys), 0.0F);
  for (std::int64_t q = span.begin; q < span.begin + span.count; ++q) {
    const float* weight = weights.data<float>() + (head * weights.size(1) + q) * keys;
    for (std::int64_t k = 0; k < keys; ++k) row[static_cast<std::size_t>(k)] += weight[k];
  }
  for (float& value : row) value /= static_cast<float>(span.count);
  return row;
}

// The strongest keys of a row, the strongest first, then by place.
std::vector<std::size_t> strongest_keys(const std::vector<float>& row, std::int64_t count) {
  std::vector<std::size_t> order(row.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(count)));
  return order;
}

struct WordLines {
  const AttentionPart& part;
  const TerminalDrawing& drawing;
  std::int64_t name_width = 0;
  std::int64_t key_width = 0;

  std::int64_t entry_width() const { return key_width + 1 + kBarWidth + 1 + kNumberWidth + kWordGap; }

  std::string line(const std::string& name, const std::vector<float>& row) const {
    const std::int64_t room = drawing.width - name_width - kWordGap;
    const std::int64_t count = std::clamp<std::int64_t>((room + kWordGap) / entry_width(), 1, kMostKeys);
    std::string text = bold(pad_right(name, name_width), drawing.color);
    for (const std::size_t key : strongest_keys(row, count)) {
      const TokenText token = token_text(part.keys[key]);
      const std::string shown = pad_left(cut_to_width(token.text, key_width), key_width);
      char number[16];
      std::snprintf(number, sizeof(number), "%.2f", static_cast<double>(row[key]));
      text += std::string(kWordGap, ' ') + grey(shown, drawing.color && token.special) + " " +
              bar(row[key], kBarWidth, drawing.color) + " " + number;
    }
    return text + "\n";
  }
};

// The parts in which the word is a query, for the error's message.
std::string parts_with(const AttentionRecord& record, const std::string& word) {
  std::string names;
  for (const AttentionPart& part : record.parts) {
    if (!find_word(part.queries, word).empty()) names += (names.empty() ? "" : ", ") + part.name;
  }
  return names;
}

std::string joined_words(const std::vector<std::string>& tokens) {
  constexpr std::size_t kEnough = 400;  // bytes of a message
  std::string text;
  for (const std::string& token : tokens) {
    const TokenText shown = token_text(token);
    if (text.size() > kEnough) return text + " …";
    text += (shown.starts_word || shown.special) && !text.empty() ? " " + shown.text : shown.text;
  }
  return text;
}

}  // namespace

std::string draw_word(const AttentionRecord& record, const AttentionPart& part, std::int64_t layer,
                      const TerminalDrawing& drawing) {
  const std::vector<TokenSpan> spans = find_word(part.queries, drawing.word);
  if (spans.empty()) {
    const std::string others = parts_with(record, drawing.word);
    check(others.empty(), "attention_text: word is \"", printable(drawing.word), "\", which does not look in part ",
          part.name, "; it does in ", others);
    fail("attention_text: word is \"", printable(drawing.word), "\", expected one of: ", joined_words(part.queries));
  }
  const Tensor weights = dense_layer(part, layer);
  WordLines lines{.part = part, .drawing = drawing};
  lines.name_width = display_width("head " + std::to_string(head_count(part)));
  const std::int64_t longest = part.key_medium.kind == MediumKind::text ? kLongestKey : kLongestPlace;
  for (const std::string& key : part.keys) {
    lines.key_width = std::max(lines.key_width, std::min(longest, display_width(token_text(key).text)));
  }
  const std::int64_t first = std::max<std::int64_t>(0, drawing.what.head);
  const std::int64_t end = drawing.what.head < 0 ? head_count(part) : first + 1;
  std::string text;
  for (const TokenSpan& span : spans) {
    if (!text.empty()) text += "\n";
    text += "what " + bold(printable(drawing.word), drawing.color) + " looks at";
    if (spans.size() > 1) text += " (token " + std::to_string(span.begin + 1) + ")";
    text += ": " + part.name + ", layer " + std::to_string(layer + 1) + "\n";
    std::vector<float> mean(part.keys.size(), 0.0F);
    for (std::int64_t head = 0; head < head_count(part); ++head) {
      const std::vector<float> row = mean_row(weights, head, span);
      for (std::size_t k = 0; k < row.size(); ++k) mean[k] += row[k] / static_cast<float>(head_count(part));
      if (head >= first && head < end) text += lines.line("head " + std::to_string(head + 1), row);
    }
    if (drawing.what.head < 0) text += lines.line("mean", mean);
  }
  return text;
}

}  // namespace headway::inline v0::internal
