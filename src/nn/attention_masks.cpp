#include "nn/attention_masks.h"

#include <limits>
#include <vector>

#include "base/check.h"
#include "headway/ops.h"

namespace headway::inline v0::internal {
namespace {

Mask with_tensor(const Mask& mask, const Tensor& tensor) {
  return mask.true_keeps() ? Mask::keep(tensor) : Mask::drop(tensor);
}

// A mask or bias as four dimensions that broadcast to [batch, heads, query_length, key_length].
Tensor as_four_dimensions(const char* name, const Tensor& given, const MaskShape& shape) {
  const Shape matrix = {shape.query_length, shape.key_length};
  check(given.rank() != 3, shape.function, ": ", name, " is ", given, ", expected ", matrix,
        " or four dimensions [batch, heads, query_length, key_length]: unsqueeze(1) makes them of one matrix for each "
        "batch entry, unsqueeze(0) of one for each head");
  check(given.rank() == 2 || given.rank() == 4, shape.function, ": ", name, " is ", given, ", expected ", matrix,
        " or four dimensions [batch, heads, query_length, key_length]");
  check((given.size(-2) == shape.query_length || given.size(-2) == 1) &&
            (given.size(-1) == shape.key_length || given.size(-1) == 1),
        shape.function, ": ", name, " is ", given, ", expected the last two sizes ", matrix);
  if (given.rank() == 2) return given.unsqueeze(0).unsqueeze(0);
  check((given.size(0) == shape.batch || given.size(0) == 1) && (given.size(1) == shape.heads || given.size(1) == 1),
        shape.function, ": ", name, " is ", given, ", expected a batch of ", shape.batch, " and ", shape.heads,
        " heads");
  return given;
}

void check_boolean(const char* name, const Mask& mask, const MaskShape& shape) {
  check(mask.tensor().dtype() == DType::boolean, shape.function, ": ", name, " is ", mask.tensor(),
        ", expected booleans; numbers to be added go into bias");
}

// The number of keys of each entry, or one number for all, when the padding is all at the end; empty where it is not.
std::vector<std::int64_t> lengths_of(const Mask& padding) {
  const Tensor dense = padding.tensor().to(Device::cpu()).contiguous();  // (batch, key_length)
  const bool* kept = dense.data<bool>();
  const std::int64_t length = dense.size(1);
  if (length == 0) return {0};  // without elements there may be any number of entries
  std::vector<std::int64_t> lengths;
  for (std::int64_t entry = 0; entry < dense.size(0); ++entry, kept += length) {
    std::int64_t count = 0;
    while (count < length && kept[count] == padding.true_keeps()) ++count;
    for (std::int64_t key = count; key < length; ++key) {
      if (kept[key] == padding.true_keeps()) return {};
    }
    lengths.push_back(count);
  }
  return lengths;
}

// The same with columns of `value` for the extra keys, which come first.
Tensor with_extra_keys(const Tensor& mask, const MaskShape& shape, double value) {
  if (shape.extra_keys == 0) return mask;
  Shape full = mask.shape();
  full[-1] = shape.key_length;
  Shape extra = full;
  extra[-1] = shape.extra_keys;
  const Tensor columns = Tensor::full(extra, value, mask.dtype(), mask.device());
  if (is_floating(mask.dtype())) return concat({columns, mask.expand(full)}, -1);
  full[-1] += shape.extra_keys;
  Tensor joined = Tensor::empty(full, mask.dtype(), mask.device());
  joined.slice(-1, 0, shape.extra_keys).copy_from(columns);
  joined.slice(-1, shape.extra_keys, full[-1]).copy_from(mask);
  return joined;
}

Mask with_extra_keys(const Mask& mask, const MaskShape& shape) {
  return with_tensor(mask, with_extra_keys(mask.tensor(), shape, mask.true_keeps() ? 1.0 : 0.0));
}

// Padding that is not all at the end. It becomes the mask; where there is a mask already, the small tensor changes the
// bias, so that nothing of the size of all scores is built on the host.
void set_padding(const Mask& padding, const MaskShape& shape, AttentionOptions& options) {
  const Mask keys = with_extra_keys(with_tensor(padding, padding.tensor().unsqueeze(1).unsqueeze(1)), shape);
  if (!options.mask.defined()) {
    options.mask = keys;
    return;
  }
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  const Tensor bias = options.bias.defined() ? options.bias : Tensor::zeros({1, 1, 1, 1}, shape.dtype, shape.device);
  const Tensor padded = keys.tensor().to(bias.device());
  // Not a sum: NaN in a padded column of the bias is hidden too.
  options.bias = keys.true_keeps() ? where(padded, bias, kMasked) : where(padded, kMasked, bias);
}

// Lengths that count the extra keys too.
PerEntry with_extra_keys(const PerEntry& lengths, const MaskShape& shape) {
  if (shape.extra_keys == 0) return lengths;
  const PerEntry checked = checked_lengths("MultiHeadAttention", "key_lengths", lengths, shape.batch, shape.key_length);
  std::vector<std::int64_t> longer;
  for (const double length : checked.tensor().to_vector()) {
    longer.push_back(static_cast<std::int64_t>(length) + shape.extra_keys);
  }
  return longer;
}

void set_lengths(const LayerMasks& masks, const MaskShape& shape, AttentionOptions& options) {
  check(!masks.key_lengths.defined() || !masks.padding.defined(),
        "MultiHeadAttention: key_lengths and key_padding_mask are both given, expected one of them");
  if (masks.key_lengths.defined()) options.key_lengths = with_extra_keys(masks.key_lengths, shape);
  if (!masks.padding.defined()) return;
  const Tensor& given = masks.padding.tensor();
  check_boolean("key_padding_mask", masks.padding, shape);
  check(given.shape() == Shape({shape.batch, shape.key_length}), "MultiHeadAttention: key_padding_mask is ", given,
        ", expected ", Shape({shape.batch, shape.key_length}));
  const std::vector<std::int64_t> lengths = lengths_of(masks.padding);
  if (lengths.empty()) {
    set_padding(masks.padding, shape, options);
  } else {
    options.key_lengths = with_extra_keys(PerEntry(lengths), shape);
  }
}

}  // namespace

void set_masks(const LayerMasks& masks, const MaskShape& shape, AttentionOptions& options) {
  if (masks.bias.defined()) {
    options.bias = with_extra_keys(as_four_dimensions("bias", masks.bias, shape), shape, 0.0);
  }
  if (masks.mask.defined()) {
    check_boolean("mask", masks.mask, shape);
    options.mask =
        with_extra_keys(with_tensor(masks.mask, as_four_dimensions("mask", masks.mask.tensor(), shape)), shape);
  }
  set_lengths(masks, shape, options);
  options.causal = masks.causal;
  // The extra keys shift every query by their number, so that it sees them and the keys that it saw without them.
  if (masks.causal == Causal::top_left && shape.query_offset + shape.extra_keys > 0) {
    options.query_offset = shape.query_offset + shape.extra_keys;
  }
  // bottom_right counts from each entry's own length unless an offset is given; here all keys are meant.
  if (masks.causal == Causal::bottom_right && options.key_lengths.defined()) {
    options.query_offset = shape.key_length - shape.query_length + shape.extra_keys;
  }
}

void bring_to_host(PerEntry& lengths, Mask& padding) {
  if (lengths.defined()) lengths = PerEntry(lengths.tensor().to(Device::cpu()));
  if (padding.defined()) padding = with_tensor(padding, padding.tensor().to(Device::cpu()));
}

PerEntry checked_lengths(const char* function, const char* argument, const PerEntry& lengths, std::int64_t batch,
                         std::int64_t most) {
  if (!lengths.defined()) return {};
  const Tensor& given = lengths.tensor();
  const bool is_integer = given.dtype() == DType::int32 || given.dtype() == DType::int64;
  const bool is_single = given.element_count() == 1 && given.rank() <= 1;
  check(is_integer && (is_single || given.shape() == Shape({batch})), function, ": ", argument, " is ", given,
        ", expected one integer or int64", Shape({batch}));
  const Tensor wide = given.to(Device::cpu()).to(DType::int64).contiguous();
  for (std::int64_t entry = 0; entry < wide.element_count(); ++entry) {
    const std::int64_t length = wide.data<std::int64_t>()[entry];
    check(length >= 0 && length <= most, function, ": ", argument, " has ", length, " at ", entry, ", expected 0 to ",
          most);
  }
  return PerEntry(wide);
}

}  // namespace headway::inline v0::internal
