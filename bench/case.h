// The cases that are measured, one per row of the table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/cases.h"

namespace bench {

enum class Pass { forward, backward };

// The tests' case, of which a row has few options, with what a table needs.
struct Case : headway_test::Case {
  std::string group = {};
  Pass pass = Pass::forward;
  std::vector<std::int64_t> lengths = {};  // of the sequences of an uneven batch; empty otherwise

  bool uneven() const { return !lengths.empty(); }
  bool decoding() const { return query_length == 1; }
  bool is_causal() const { return causal != headway::Causal::none; }
  bool with_weights() const { return weights != headway::Weights::none; }
  // Memory laid out as [batch, length, heads, dim].
  bool length_before_heads() const { return layout == headway_test::Layout::length_first; }

  // "1x8x2048x64 causal": what was computed, without dtype and pass.
  std::string shape_name() const;
  // "f32 forward 1x8x2048x64 causal": what --filter looks at.
  std::string row_name() const;
  // Floating-point operations that the result needs; pairs that a causal mask hides do not count.
  double useful_flops() const;
  // Bytes that one call has to read at least.
  double bytes_read() const;
};

// "f32" or "bf16".
std::string short_name(headway::DType dtype);

// All rows, in the order of the table.
std::vector<Case> table_cases();

}  // namespace bench
