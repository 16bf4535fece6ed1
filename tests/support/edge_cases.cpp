// Shapes around the edges of tiles and vectors.
#include <algorithm>

#include "support/cases.h"

namespace headway_test {
namespace {

using std::int64_t;

constexpr int64_t kLengths[] = {1,  2,  7,   8,   9,   15,  16,  17,  31,  32,  33,  63,  64,  65,  95,
                                96, 97, 127, 128, 129, 191, 193, 255, 257, 511, 513, 600, 777, 1000};
constexpr int64_t kHeadSizes[] = {1,  2,  3,  5,  8,  15,  16,  17,  31,  32,  33,  40,
                                  48, 64, 72, 80, 96, 100, 128, 160, 192, 256, 320, 512};
constexpr DType kDtypes[] = {DType::float32, DType::bfloat16, DType::float16, DType::float64};

Case plain(DType dtype, int64_t query_length, int64_t key_length, int64_t head_dim) {
  const int64_t heads = query_length * key_length < 20'000 ? 2 : 1;
  Case c = sized(dtype, 1, heads, {query_length, key_length, head_dim, head_dim});
  c.seed = static_cast<std::uint64_t>(query_length * 1'000'003 + key_length * 1009 + head_dim);
  return c;
}

void add(std::vector<Case>& cases, Case c, const std::string& name) {
  c.name = name + "_" + std::string(headway::dtype_name(c.dtype));
  cases.push_back(c);
}

void add_lengths(std::vector<Case>& cases) {
  int index = 0;
  for (int64_t length : kLengths) {
    const std::string name = "length_" + std::to_string(length);
    const int64_t dim = length > 300 ? 16 : 32;
    add(cases, plain(DType::float32, length, length, dim), name);
    add(cases, plain(DType::bfloat16, length, length, dim), name);
    // A causal one, in turn through the dtypes and with other lengths on the other side.
    const int64_t other = kLengths[static_cast<size_t>(index * 7) % std::size(kLengths)];
    Case causal = plain(kDtypes[index % 4], length, std::min<int64_t>(other, 300), dim);
    if (causal.dtype == DType::float64) causal.query_length = std::min<int64_t>(causal.query_length, 300);
    causal.causal = index % 2 == 0 ? Causal::top_left : Causal::bottom_right;
    causal.layout = index % 3 == 0 ? Layout::length_first : Layout::heads_first;
    add(cases, causal, name + "_causal");
    Case decode = plain(kDtypes[(index + 1) % 4], 1, length * 3, 40);
    decode.kv_heads = 1;
    decode.heads = 1 + index % 5;
    add(cases, decode, name + "_decode");
    ++index;
  }
}

void add_head_sizes(std::vector<Case>& cases) {
  int index = 0;
  for (int64_t dim : kHeadSizes) {
    const std::string name = "dim_" + std::to_string(dim);
    add(cases, plain(DType::float32, 37, 45, dim), name);
    add(cases, plain(kDtypes[1 + index % 3], 21, 50, dim), name);
    Case value = plain(kDtypes[index % 3], 19, 33, dim);
    value.value_dim = kHeadSizes[std::size(kHeadSizes) - 1 - static_cast<size_t>(index)];
    value.causal = Causal::top_left;
    add(cases, value, name + "_value_" + std::to_string(value.value_dim));
    ++index;
  }
}

void add_special(std::vector<Case>& cases) {
  Case window = plain(DType::float32, 400, 420, 24);
  window.window = {37, 50};
  add(cases, window, "window_long");
  window.causal = Causal::bottom_right;
  window.window = {64, {}};
  window.dtype = DType::bfloat16;
  add(cases, window, "window_causal_long");

  Case packed = plain(DType::float32, 90, 100, 32);
  packed.packed = true;
  packed.batch = 9;
  packed.causal = Causal::bottom_right;
  add(cases, packed, "packed_many");
  packed.packed = false;
  packed.batch = 5;
  packed.key_lengths = PerEntryKind::each;
  add(cases, packed, "key_lengths_many");

  // Many query heads share a key head: the rows of a group may be worked on together.
  Case group = plain(DType::float32, 1, 1200, 64);
  group.heads = 32;
  group.kv_heads = 4;
  add(cases, group, "decode_group");
  group.dtype = DType::bfloat16;
  group.query_length = 3;
  group.causal = Causal::bottom_right;
  add(cases, group, "decode_three");

  Case dropout = plain(DType::float32, 200, 230, 32);
  dropout.dropout = 0.3;
  dropout.weights = Weights::per_head;
  add(cases, dropout, "dropout_long");
  dropout.dtype = DType::float16;
  dropout.dropout = 0.5;
  dropout.causal = Causal::top_left;
  add(cases, dropout, "dropout_causal_long");

  Case mean = plain(DType::float32, 150, 170, 16);
  mean.heads = 5;
  mean.kv_heads = 5;
  mean.weights = Weights::mean;
  mean.d_weights = true;
  add(cases, mean, "weights_mean_long");
}

}  // namespace

std::vector<Case> edge_cases() {
  std::vector<Case> cases;
  add_lengths(cases);
  add_head_sizes(cases);
  add_special(cases);
  return cases;
}

}  // namespace headway_test
