// Which rows of hidden states belong to which text, whether texts are padded or packed.
#pragma once

#include <vector>

#include "headway/attention.h"

namespace headway::inline v0::internal {

// For each text, the indices of its non-padding tokens among batch * length rows, in order.
using TextRows = std::vector<std::vector<std::int64_t>>;

struct TextLayout {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  PerEntry lengths = {};          // on the CPU
  Mask padding_mask = {};         // [batch, length] or, with a cache, the keys so far, of which the last are these rows
  CumulativeLengths packed = {};  // on the CPU
};

TextRows rows_of_texts(const TextLayout& layout);

// Rows of hidden [batch, length, width], in the shape of `indices` with the width behind it.
Tensor rows_at(const Tensor& hidden, const Tensor& indices);

// The first or the last row of each text: [texts, width]. Throws in the function's name where a text is empty.
Tensor first_rows(const char* function, const Tensor& hidden, const TextRows& texts);
Tensor last_rows(const char* function, const Tensor& hidden, const TextRows& texts);

// The mean of each text's rows: [texts, width]; zero for an empty text.
Tensor mean_rows(const Tensor& hidden, const TextRows& texts);

// The texts beside each other: [texts, longest, width], with rows of no meaning behind the shorter ones.
Tensor padded_rows(const Tensor& hidden, const TextRows& texts);
std::vector<std::int64_t> lengths_of(const TextRows& texts);

}  // namespace headway::inline v0::internal
