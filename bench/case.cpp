#include "case.h"

#include <random>

namespace bench {
namespace {

using headway::DType;

// The same 64 lengths in every run, from 16 to 512.
std::vector<std::int64_t> uneven_lengths() {
  std::mt19937 generator(64);
  std::vector<std::int64_t> lengths(64);
  for (auto& length : lengths) length = 16 + static_cast<std::int64_t>(generator() % 497);
  return lengths;
}

Case self_attention(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t head_dim,
                    bool causal = false) {
  Case c;
  c.batch = batch;
  c.heads = c.kv_heads = heads;
  c.query_length = c.key_length = length;
  c.head_dim = c.value_dim = head_dim;
  if (causal) c.causal = headway::Causal::top_left;
  return c;
}

std::vector<Case> common_shapes() {
  return {
      self_attention(1, 8, 512, 64),   self_attention(1, 8, 2048, 64), self_attention(1, 8, 2048, 64, true),
      self_attention(1, 8, 2048, 128), self_attention(8, 8, 128, 64),  self_attention(8, 8, 128, 64, true),
      self_attention(1, 8, 8192, 64),  self_attention(1, 1, 4096, 64),
  };
}

std::vector<Case> odd_shapes() {
  Case strided = self_attention(2, 8, 1000, 64);
  strided.layout = headway_test::Layout::length_first;
  Case uneven = self_attention(1, 8, 0, 64);
  uneven.lengths = uneven_lengths();
  for (const std::int64_t length : uneven.lengths) uneven.query_length = uneven.key_length += length;
  uneven.layout = headway_test::Layout::length_first;
  return {self_attention(1, 8, 777, 80), self_attention(1, 8, 1000, 80), strided, uneven};
}

Case decoding_shape() {
  Case c = self_attention(1, 32, 32768, 128);
  c.kv_heads = 8;
  c.query_length = 1;
  return c;
}

std::string pass_name(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

// Query-key pairs that are not hidden, over all batch entries and heads.
double visible_pairs(const Case& c) {
  double pairs = 0;
  if (c.uneven()) {
    for (const double length : c.lengths) pairs += length * length;
  } else {
    const double rows = static_cast<double>(c.query_length), columns = static_cast<double>(c.key_length);
    pairs = c.is_causal() ? rows * (rows + 1) / 2 : rows * columns;
  }
  return pairs * static_cast<double>(c.batch * c.heads);
}

}  // namespace

std::string short_name(DType dtype) { return dtype == DType::bfloat16 ? "bf16" : "f32"; }

std::string Case::shape_name() const {
  if (uneven())
    return std::to_string(lengths.size()) + " uneven x" + std::to_string(heads) + "x" + std::to_string(head_dim);
  if (decoding()) {
    return "1 query " + std::to_string(key_length) + " keys " + std::to_string(heads) + "/" + std::to_string(kv_heads) +
           "x" + std::to_string(head_dim);
  }
  std::string name = std::to_string(batch) + "x" + std::to_string(heads) + "x" + std::to_string(query_length) + "x" +
                     std::to_string(head_dim);
  name += is_causal() ? " causal" : " full";
  if (length_before_heads()) name += " blhd";
  if (with_weights()) name += " weights";
  return name;
}

std::string Case::row_name() const { return short_name(dtype) + " " + pass_name(pass) + " " + shape_name(); }

double Case::useful_flops() const {
  // Two products forward (Q K^T, P V), five backward (Q K^T again, dO V^T, dV, dK, dQ); a product is two operations.
  const double products = pass == Pass::forward ? 2 : 5;
  return 2 * products * visible_pairs(*this) * static_cast<double>(head_dim);
}

double Case::bytes_read() const {
  const double elements = static_cast<double>(batch * head_dim * (heads * query_length + 2 * kv_heads * key_length));
  return elements * static_cast<double>(headway::item_size(dtype));
}

std::vector<Case> table_cases() {
  std::vector<Case> cases;
  const auto add = [&](Case c, const std::string& group, DType dtype, Pass pass) {
    c.group = group;
    c.dtype = dtype;
    c.pass = pass;
    cases.push_back(std::move(c));
  };
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const Case& c : common_shapes()) add(c, short_name(dtype) + " " + pass_name(pass), dtype, pass);
    }
  }
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const Case& c : odd_shapes()) add(c, "odd shapes and layouts", dtype, pass);
    }
  }
  for (Case c : {self_attention(1, 8, 512, 64), self_attention(1, 8, 2048, 64)}) {
    c.weights = headway::Weights::per_head;
    add(c, "weights", DType::float32, Pass::forward);
  }
  for (const DType dtype : {DType::float32, DType::bfloat16}) add(decoding_shape(), "decoding", dtype, Pass::forward);
  return cases;
}

}  // namespace bench
