#include "models/text_rows.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "headway/ops.h"

namespace headway::inline v0::internal {
namespace {

std::vector<std::int64_t> consecutive(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

TextRows rows_by_mask(const TextLayout& layout) {
  const Tensor mask = layout.padding_mask.tensor().to(Device::cpu()).contiguous();  // (batch, keys)
  const bool* kept = mask.data<bool>();
  const std::int64_t earlier = mask.size(1) - layout.length;
  TextRows texts(static_cast<std::size_t>(layout.batch));
  for (std::int64_t entry = 0; entry < layout.batch; ++entry) {
    for (std::int64_t i = 0; i < layout.length; ++i) {
      if (kept[entry * mask.size(1) + earlier + i] == layout.padding_mask.true_keeps()) {
        texts[static_cast<std::size_t>(entry)].push_back(entry * layout.length + i);
      }
    }
  }
  return texts;
}

// A row of each text, which has one.
Tensor one_row_each(const char* function, const Tensor& hidden, const TextRows& texts, bool first) {
  std::vector<std::int64_t> rows;
  for (std::size_t text = 0; text < texts.size(); ++text) {
    check(!texts[text].empty(), function, ": text ", text, " has no tokens, expected at least one");
    rows.push_back(first ? texts[text].front() : texts[text].back());
  }
  return rows_at(hidden, Tensor::from(rows, {static_cast<std::int64_t>(rows.size())}));
}

}  // namespace

TextRows rows_of_texts(const TextLayout& layout) {
  TextRows texts;
  if (layout.padding_mask.defined()) return rows_by_mask(layout);
  if (layout.packed.defined()) {
    const Tensor ends = layout.packed.tensor().to(DType::int64).contiguous();
    for (std::int64_t s = 0; s + 1 < ends.element_count(); ++s) {
      const std::int64_t begin = ends.data<std::int64_t>()[s];
      texts.push_back(consecutive(begin, ends.data<std::int64_t>()[s + 1] - begin));
    }
    return texts;
  }
  const std::vector<double> lengths = layout.lengths.defined()
                                          ? layout.lengths.tensor().to_vector()
                                          : std::vector<double>{static_cast<double>(layout.length)};
  for (std::int64_t entry = 0; entry < layout.batch; ++entry) {
    const double length = lengths.size() == 1 ? lengths[0] : lengths[static_cast<std::size_t>(entry)];
    texts.push_back(consecutive(entry * layout.length, static_cast<std::int64_t>(length)));
  }
  return texts;
}

Tensor rows_at(const Tensor& hidden, const Tensor& indices) {
  return embedding(hidden.reshape({hidden.size(0) * hidden.size(1), hidden.size(2)}), indices);
}

Tensor first_rows(const char* function, const Tensor& hidden, const TextRows& texts) {
  return one_row_each(function, hidden, texts, /*first=*/true);
}

Tensor last_rows(const char* function, const Tensor& hidden, const TextRows& texts) {
  return one_row_each(function, hidden, texts, /*first=*/false);
}

std::vector<std::int64_t> lengths_of(const TextRows& texts) {
  std::vector<std::int64_t> lengths;
  for (const auto& rows : texts) lengths.push_back(static_cast<std::int64_t>(rows.size()));
  return lengths;
}

Tensor padded_rows(const Tensor& hidden, const TextRows& texts) {
  std::size_t longest = 0;
  for (const auto& rows : texts) longest = std::max(longest, rows.size());
  std::vector<std::int64_t> indices;  // (texts, longest)
  for (const auto& rows : texts) {
    indices.insert(indices.end(), rows.begin(), rows.end());
    indices.resize(indices.size() + longest - rows.size(), 0);
  }
  return rows_at(hidden,
                 Tensor::from(indices, {static_cast<std::int64_t>(texts.size()), static_cast<std::int64_t>(longest)}));
}

Tensor mean_rows(const Tensor& hidden, const TextRows& texts) {
  const Tensor rows = padded_rows(hidden, texts);  // [texts, longest, width]
  const std::int64_t longest = rows.size(1);
  std::vector<float> shares(texts.size() * static_cast<std::size_t>(longest), 0.0f);
  for (std::size_t text = 0; text < texts.size(); ++text) {
    const auto begin = shares.begin() + static_cast<std::ptrdiff_t>(text) * longest;
    std::fill_n(begin, texts[text].size(), 1.0f);
  }
  std::vector<float> counts;
  for (const auto& own : texts) counts.push_back(static_cast<float>(std::max<std::size_t>(1, own.size())));
  const auto here = [&](const std::vector<float>& values, const Shape& shape) {
    return Tensor::from(values, shape).to(hidden.dtype()).to(hidden.device());
  };
  const Tensor kept = mul(rows, here(shares, {rows.size(0), longest, 1}));
  return div(sum(kept, {1}), here(counts, {rows.size(0), 1}));
}

}  // namespace headway::inline v0::internal
