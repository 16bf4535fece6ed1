#include "explain/media_rows.h"

#include <algorithm>

#include "explain/medium.h"
#include "explain/record.h"
#include "explain/token_text.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kMostRows = 24;

// One head's weights, or the mean of all heads', as a matrix whose columns are the medium's tokens.
std::vector<float> matrix_of(const AttentionPart& part, std::int64_t layer, std::int64_t head, bool reversed) {
  const Tensor weights = dense_layer(part, layer);  // (heads, queries, keys)
  const std::int64_t heads = weights.size(0), queries = weights.size(1), keys = weights.size(2);
  const std::int64_t first = head < 0 ? 0 : head, end = head < 0 ? heads : head + 1;
  std::vector<float> matrix(static_cast<std::size_t>(queries * keys), 0.0F);
  for (std::int64_t h = first; h < end; ++h) {
    const float* values = weights.data<float>() + h * queries * keys;
    for (std::int64_t q = 0; q < queries; ++q) {
      for (std::int64_t k = 0; k < keys; ++k) {
        matrix[static_cast<std::size_t>(reversed ? k * queries + q : q * keys + k)] +=
            values[q * keys + k] / static_cast<float>(end - first);
      }
    }
  }
  return matrix;
}

// Rows that are drawn as one: their mean, under one name.
struct Span {
  std::string name;
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// The words of a text, without special tokens where there are others.
std::vector<Span> words_of(const std::vector<std::string>& tokens) {
  std::vector<TokenText> texts(tokens.size());
  std::transform(tokens.begin(), tokens.end(), texts.begin(), token_text);
  const auto any = [&](auto property) { return std::any_of(texts.begin(), texts.end(), property); };
  const bool marked = any([](const TokenText& text) { return text.starts_word; });
  const bool plain = any([](const TokenText& text) { return !text.special; });
  std::vector<Span> words;
  bool in_word = false;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].special) {
      in_word = false;
      if (plain) continue;
    }
    if (in_word && marked && !texts[i].starts_word) {
      words.back().name += texts[i].text;
      ++words.back().count;
    } else {
      words.push_back({texts[i].text, static_cast<std::int64_t>(i), 1});
    }
    in_word = !texts[i].special;
  }
  return words;
}

// What of a medium looks: the class token, the last item, or all of it.
Span whole_medium(const AttentionMedium& medium, const std::vector<std::string>& tokens) {
  if (medium.kind == MediumKind::list) {
    return {"after " + token_text(tokens.back()).text, static_cast<std::int64_t>(tokens.size()) - 1, 1};
  }
  if (medium.first > 0) return {token_text(tokens.front()).text, 0, 1};
  return {medium.kind == MediumKind::sound ? "mean of all positions" : "mean of all patches", 0,
          static_cast<std::int64_t>(tokens.size())};
}

MediaRow row_of(const std::vector<float>& matrix, const Span& span, std::size_t width) {
  MediaRow row = {span.name, std::vector<float>(width, 0.0F)};
  for (std::int64_t r = span.begin; r < span.begin + span.count; ++r) {
    for (std::size_t i = 0; i < width; ++i) {
      row.weights[i] += matrix[static_cast<std::size_t>(r) * width + i] / static_cast<float>(span.count);
    }
  }
  return row;
}

}  // namespace

bool has_media(const AttentionPart& part) {
  return !part.queries.empty() && !part.keys.empty() &&
         (part.query_medium.kind != MediumKind::text || part.key_medium.kind != MediumKind::text);
}

float MediaRow::largest() const { return weights.empty() ? 0.0F : *std::max_element(weights.begin(), weights.end()); }

MediaRows media_rows(const AttentionPart& part, std::int64_t layer, std::int64_t head) {
  const bool reversed = part.key_medium.kind == MediumKind::text;
  MediaRows result{.medium = reversed ? part.query_medium : part.key_medium,
                   .tokens = reversed ? part.queries : part.keys,
                   .reversed = reversed,
                   .rows = {}};
  const std::vector<std::string>& others = reversed ? part.keys : part.queries;
  const AttentionMedium& other = reversed ? part.key_medium : part.query_medium;
  const std::vector<float> matrix = matrix_of(part, layer, head, reversed);
  if (other.kind == MediumKind::text) {
    for (const Span& word : words_of(others)) {
      if (static_cast<std::int64_t>(result.rows.size()) < kMostRows) {
        result.rows.push_back(row_of(matrix, word, result.tokens.size()));
      } else {
        ++result.left_out;
      }
    }
    return result;
  }
  const Span whole = whole_medium(other, others);
  result.rows.push_back(row_of(matrix, whole, result.tokens.size()));
  if (head >= 0 || head_count(part) == 1) return result;
  for (std::int64_t h = 0; h < std::min(head_count(part), kMostRows); ++h) {
    MediaRow row = row_of(matrix_of(part, layer, h, reversed), whole, result.tokens.size());
    row.name = "head " + std::to_string(h + 1);
    result.rows.push_back(std::move(row));
  }
  return result;
}

}  // namespace headway::inline v0::internal
