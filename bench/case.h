// What is measured: one Case per row of the table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headway/dtype.h"

namespace bench {

enum class Pass { forward, backward };

struct Case {
  std::string group;
  headway::DType dtype = headway::DType::float32;
  Pass pass = Pass::forward;
  std::int64_t batch = 1;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 8;
  std::int64_t query_length = 0;
  std::int64_t key_length = 0;
  std::int64_t head_dim = 64;
  bool causal = false;
  bool length_before_heads = false;        // memory laid out as [batch, length, heads, dim]
  bool weights = false;                    // the attention weights of every head are asked for too
  std::vector<std::int64_t> lengths = {};  // of the sequences of an uneven batch; empty otherwise

  bool uneven() const { return !lengths.empty(); }
  bool decoding() const { return query_length == 1; }

  // "1x8x2048x64 causal": what was computed, without dtype and pass.
  std::string shape_name() const;
  // "f32 forward 1x8x2048x64 causal": what --filter looks at.
  std::string name() const;
  // Floating-point operations that the result needs; pairs that a causal mask hides do not count.
  double useful_flops() const;
  // Bytes that one call has to read at least.
  double bytes_read() const;
};

// "f32" or "bf16".
std::string short_name(headway::DType dtype);

// All rows, in the order of the table.
std::vector<Case> all_cases();

}  // namespace bench
