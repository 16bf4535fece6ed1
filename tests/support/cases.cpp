#include "support/cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "support/random.h"

namespace headway_test {
namespace {

using headway::PerEntry;
using headway::Shape;
using std::int64_t;

Shape extent_shape(Extent extent, int64_t batch, int64_t heads, int64_t queries, int64_t keys) {
  switch (extent) {
    case Extent::full:
      return {batch, heads, queries, keys};
    case Extent::query_key:
      return {1, 1, queries, keys};
    case Extent::batch_key:
      return {batch, 1, 1, keys};
    case Extent::head_query:
      return {1, heads, queries, 1};
    case Extent::plain:
      return {queries, keys};
  }
  return {};
}

// Lengths of the sequences in a packed batch: the first has the greatest, one in six has none.
std::vector<int64_t> draw_lengths(int64_t count, int64_t longest, Random& random) {
  std::vector<int64_t> lengths;
  for (int64_t s = 0; s < count; ++s) {
    const int64_t drawn = random.chance(1.0 / 6) ? 0 : random.between((longest + 1) / 2, longest);
    lengths.push_back(s == 0 ? longest : drawn);
  }
  return lengths;
}

std::vector<int64_t> cumulative(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> sums = {0};
  for (int64_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

// One number, or one for each sequence, between low and high times the sequence's limit (the smallest limit for one
// number); every fourth sequence has 0.
PerEntry draw_per_entry(PerEntryKind kind, const std::vector<int64_t>& limits, double low, double high,
                        Random& random) {
  auto draw = [&](int64_t limit) {
    return random.between(static_cast<int64_t>(low * static_cast<double>(limit)),
                          static_cast<int64_t>(high * static_cast<double>(limit)));
  };
  if (kind == PerEntryKind::none) return {};
  if (kind == PerEntryKind::one) return PerEntry(draw(*std::min_element(limits.begin(), limits.end())));
  std::vector<int64_t> values;
  for (size_t s = 0; s < limits.size(); ++s) values.push_back(s % 4 == 3 ? 0 : draw(limits[s]));
  return PerEntry(values);
}

headway::Mask draw_mask(const Case& c, const Shape& shape, Random& random) {
  const int64_t rows = shape[-2], keys = shape[-1];
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<bool> keep(static_cast<size_t>(count));
  for (int64_t e = 0; e < count; ++e) {
    // One row in seven sees nothing, unless the mask is the same for all rows.
    const bool empty_row = rows > 1 && keys > 1 && (e / keys) % 7 == 3;
    keep[static_cast<size_t>(e)] = !empty_row && random.chance(0.8);
  }
  if (c.mask == MaskKind::drop) keep.flip();
  Tensor tensor = Tensor::from(keep, shape);
  return c.mask == MaskKind::keep ? headway::Mask::keep(tensor) : headway::Mask::drop(tensor);
}

Tensor draw_bias(const Case& c, const Shape& shape, Random& random) {
  Tensor bias = Tensor::randn(shape, random.next(), DType::float64);
  if (c.bias_infinities) {
    double* values = bias.data<double>();
    for (int64_t e = 0; e < bias.element_count(); ++e) {
      if (random.chance(0.1)) values[e] = -std::numeric_limits<double>::infinity();
    }
  }
  return bias.to(c.bias_float32 ? DType::float32 : c.dtype);
}

}  // namespace

Tensor with_layout(const Tensor& tensor, Layout layout) {
  const int64_t batch = tensor.size(0), heads = tensor.size(1), length = tensor.size(2), dim = tensor.size(3);
  Tensor result;
  if (layout == Layout::heads_first) {
    result = Tensor::empty(tensor.shape(), tensor.dtype());
  } else if (layout == Layout::length_first) {
    result = Tensor::empty({batch, length, heads, dim}, tensor.dtype()).transpose(1, 2);
  } else {
    Tensor padded = Tensor::full({batch, heads, length + 1, dim + 3}, std::nan(""), tensor.dtype());
    result = padded.slice(2, 0, length).slice(3, 1, 1 + dim);
  }
  result.copy_from(tensor);
  return result;
}

Case sized(DType dtype, int64_t batch, int64_t heads, const Sizes& sizes) {
  Case c;
  c.dtype = dtype;
  c.batch = batch;
  c.heads = c.kv_heads = heads;
  c.query_length = sizes.queries;
  c.key_length = sizes.keys;
  c.head_dim = sizes.head_dim;
  c.value_dim = sizes.value_dim;
  return c;
}

AttentionBackward build(const Case& c) {
  Random random(c.seed * 0x9E3779B97F4A7C15u + 12345);
  std::vector<int64_t> query_lengths(static_cast<size_t>(c.batch), c.query_length);
  std::vector<int64_t> key_lengths(static_cast<size_t>(c.batch), c.key_length);
  int64_t batch = c.batch, queries = c.query_length, keys = c.key_length;
  AttentionBackward p;
  headway::AttentionOptions& options = p.options;
  if (c.packed) {
    query_lengths = draw_lengths(c.batch, c.query_length, random);
    key_lengths = draw_lengths(c.batch, c.key_length, random);
    options.cu_query_lengths = cumulative(query_lengths);
    options.cu_key_lengths = cumulative(key_lengths);
    batch = 1;
    queries = cumulative(query_lengths).back();
    keys = cumulative(key_lengths).back();
  }
  auto draw = [&](int64_t heads, int64_t length, int64_t dim) {
    return with_layout(Tensor::randn({batch, heads, length, dim}, random.next(), c.dtype), c.layout);
  };
  p.query = draw(c.heads, queries, c.head_dim);
  p.key = draw(c.kv_heads, keys, c.head_dim);
  p.value = draw(c.kv_heads, keys, c.value_dim);
  if (c.d_output) p.d_output = draw(c.heads, queries, c.value_dim);

  // Parameters of a head, and the log-sum-exp, have the arithmetic's type.
  const DType arithmetic = c.dtype == DType::float64 ? DType::float64 : DType::float32;
  options.causal = c.causal;
  options.window = c.window;
  options.query_offset = draw_per_entry(c.offset, key_lengths, 0.1, 0.6, random);
  options.key_lengths = draw_per_entry(c.key_lengths, key_lengths, 0.5, 1.0, random);
  if (c.mask != MaskKind::none) {
    options.mask = draw_mask(c, extent_shape(c.mask_extent, batch, c.heads, queries, keys), random);
  }
  if (c.bias) options.bias = draw_bias(c, extent_shape(c.bias_extent, batch, c.heads, queries, keys), random);
  p.bias_gradient = c.bias_gradient;
  options.scale = c.scale;
  options.softcap = c.softcap;
  if (c.alibi == AlibiKind::per_head) {
    options.alibi_slopes = Tensor::uniform({c.heads}, 0.01, 0.5, random.next(), arithmetic);
  } else if (c.alibi == AlibiKind::per_entry) {
    options.alibi_slopes = Tensor::uniform({c.batch, c.heads}, 0.01, 0.5, random.next(), arithmetic);
  }
  if (c.sinks) options.sinks = Tensor::randn({c.heads}, random.next(), arithmetic);
  options.dropout = c.dropout;
  options.seed = random.next();
  options.weights = c.weights;
  options.weights_of = c.weights_of;
  if (c.d_weights) {
    const bool mean = c.weights == Weights::mean;
    const Shape shape = mean ? Shape{batch, queries, keys} : Shape{batch, c.heads, queries, keys};
    p.d_weights = Tensor::randn(shape, random.next(), c.dtype);
  }
  if (c.d_logsumexp) p.d_logsumexp = Tensor::randn({batch, c.heads, queries}, random.next(), arithmetic);
  return p;
}

std::string describe(const Case& c) {
  static constexpr const char* kCausal[] = {"none", "top_left", "bottom_right"};
  static constexpr const char* kPerEntry[] = {"none", "one", "each"};
  static constexpr const char* kExtent[] = {"full", "query_key", "batch_key", "head_query", "plain"};
  static constexpr const char* kWeights[] = {"none", "per_head", "mean"};
  static constexpr const char* kWeightsOf[] = {"softmax", "scores", "softcapped", "masked"};
  static constexpr const char* kLayout[] = {"heads_first", "length_first", "padded"};
  std::ostringstream text;
  text << c.name << ": " << headway::dtype_name(c.dtype) << " batch " << c.batch << " heads " << c.heads << "/"
       << c.kv_heads << " length " << c.query_length << "x" << c.key_length << " dim " << c.head_dim << "/"
       << c.value_dim;
  if (c.causal != Causal::none) text << " causal " << kCausal[static_cast<int>(c.causal)];
  if (c.offset != PerEntryKind::none) text << " offset " << kPerEntry[static_cast<int>(c.offset)];
  if (c.window.left) text << " left " << *c.window.left;
  if (c.window.right) text << " right " << *c.window.right;
  if (c.mask != MaskKind::none) {
    text << (c.mask == MaskKind::keep ? " keep " : " drop ") << kExtent[static_cast<int>(c.mask_extent)];
  }
  if (c.bias) {
    text << " bias " << kExtent[static_cast<int>(c.bias_extent)] << (c.bias_infinities ? " with -inf" : "")
         << (c.bias_float32 ? " float32" : "") << (c.bias_gradient ? "" : " without gradient");
  }
  if (c.key_lengths != PerEntryKind::none) text << " key_lengths " << kPerEntry[static_cast<int>(c.key_lengths)];
  if (c.packed) text << " packed";
  if (c.scale) text << " scale " << *c.scale;
  if (c.softcap) text << " softcap " << *c.softcap;
  if (c.alibi != AlibiKind::none) text << (c.alibi == AlibiKind::per_head ? " alibi" : " alibi per entry");
  if (c.sinks) text << " sinks";
  if (c.dropout != 0) text << " dropout " << c.dropout;
  if (c.weights != Weights::none) {
    text << " weights " << kWeights[static_cast<int>(c.weights)] << " of "
         << kWeightsOf[static_cast<int>(c.weights_of)];
  }
  if (c.layout != Layout::heads_first) text << " layout " << kLayout[static_cast<int>(c.layout)];
  if (!c.d_output) text << " no d_output";
  if (c.d_weights) text << " d_weights";
  if (c.d_logsumexp) text << " d_logsumexp";
  text << " seed " << c.seed;
  return text.str();
}

}  // namespace headway_test
