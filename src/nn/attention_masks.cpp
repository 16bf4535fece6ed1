#include "nn/attention_masks.h"

#include <vector>

#include "base/check.h"
#include "headway/ops.h"

namespace headway::inline v0::internal {
namespace {

// A mask or bias as four dimensions that broadcast to [batch, heads, query_length, key_length].
Tensor as_four_dimensions(const char* name, const Tensor& given, const MaskShape& shape) {
  const Shape matrix = {shape.query_length, shape.key_length};
  check(given.rank() >= 2 && given.rank() <= 4, "MultiHeadAttention: ", name, " is ", given, ", expected ", matrix,
        ", or with heads, or with batch and heads in front");
  check((given.size(-2) == shape.query_length || given.size(-2) == 1) &&
            (given.size(-1) == shape.key_length || given.size(-1) == 1),
        "MultiHeadAttention: ", name, " is ", given, ", expected the last two sizes ", matrix);
  if (given.rank() == 2) return given.unsqueeze(0).unsqueeze(0);
  if (given.rank() == 3) {
    const std::int64_t first = given.size(0);
    if (first == shape.heads || first == 1) return given.unsqueeze(0);
    check(first == shape.batch * shape.heads, "MultiHeadAttention: ", name, " is ", given,
          ", expected a first size of ", shape.heads, " heads, or of ", shape.batch, " * ", shape.heads);
    return given.reshape({shape.batch, shape.heads, given.size(1), given.size(2)});
  }
  check((given.size(0) == shape.batch || given.size(0) == 1) && (given.size(1) == shape.heads || given.size(1) == 1),
        "MultiHeadAttention: ", name, " is ", given, ", expected a batch of ", shape.batch, " and ", shape.heads,
        " heads");
  return given;
}

void check_boolean(const char* name, const Mask& mask) {
  check(mask.tensor().dtype() == DType::boolean, "MultiHeadAttention: ", name, " is ", mask.tensor(),
        ", expected booleans; numbers to be added go into bias");
}

// The number of keys of each entry when the padding is all at the end; empty where it is not.
std::vector<std::int64_t> lengths_of(const Mask& padding) {
  const Tensor dense = padding.tensor().to(Device::cpu()).contiguous();  // (batch, key_length)
  const bool* kept = dense.data<bool>();
  const std::int64_t length = dense.size(1);
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

// One boolean mask out of several, in which true keeps; on the CPU.
class Keep {
 public:
  explicit Keep(const Shape& shape) : keep_(Tensor::full(shape, 1.0, DType::boolean)), shape_(shape) {}

  // Drops what the mask, which broadcasts to the shape, does not keep.
  void restrict_to(const Tensor& mask, bool true_keeps) {
    const Tensor every = mask.to(Device::cpu()).expand(shape_).contiguous();
    const bool* value = every.data<bool>();
    bool* keep = keep_.data<bool>();
    for (std::int64_t i = 0; i < keep_.element_count(); ++i) keep[i] = keep[i] && value[i] == true_keeps;
  }

  const Tensor& tensor() const { return keep_; }

 private:
  Tensor keep_;
  Shape shape_;
};

// (query_length, key_length): which keys causality leaves.
Tensor causal_keep(const MaskShape& shape, Causal causal) {
  Tensor keep = Tensor::empty({shape.query_length, shape.key_length}, DType::boolean);
  const std::int64_t offset =
      causal == Causal::bottom_right ? shape.key_length - shape.query_length : shape.query_offset;
  bool* value = keep.data<bool>();
  for (std::int64_t q = 0; q < shape.query_length; ++q) {
    for (std::int64_t k = 0; k < shape.key_length; ++k) *value++ = k <= q + offset;
  }
  return keep;
}

// The same with columns of `value` for the extra keys.
Tensor with_extra_keys(const Tensor& mask, const MaskShape& shape, double value) {
  Shape full = mask.shape();
  full[-1] = shape.key_length;
  Shape extra = full;
  extra[-1] = shape.extra_keys;
  const Tensor columns = Tensor::full(extra, value, mask.dtype(), mask.device());
  if (is_floating(mask.dtype())) return concat({mask.expand(full), columns}, -1);
  full[-1] += shape.extra_keys;
  Tensor joined = Tensor::empty(full, mask.dtype(), mask.device());
  joined.slice(-1, 0, shape.key_length).copy_from(mask);
  joined.slice(-1, shape.key_length, full[-1]).copy_from(columns);
  return joined;
}

}  // namespace

void set_masks(const LayerMasks& masks, const MaskShape& shape, AttentionOptions& options) {
  if (masks.bias.defined()) {
    const Tensor bias = as_four_dimensions("bias", masks.bias, shape);
    options.bias = shape.extra_keys > 0 ? with_extra_keys(bias, shape, 0.0) : bias;
  }
  Mask mask;
  if (masks.mask.defined()) {
    check_boolean("mask", masks.mask);
    const Tensor tensor = as_four_dimensions("mask", masks.mask.tensor(), shape);
    mask = masks.mask.true_keeps() ? Mask::keep(tensor) : Mask::drop(tensor);
  }
  Tensor padding;  // (batch, 1, 1, key_length)
  if (masks.padding.defined()) {
    const Tensor& given = masks.padding.tensor();
    check_boolean("key_padding_mask", masks.padding);
    check(given.shape() == Shape({shape.batch, shape.key_length}), "MultiHeadAttention: key_padding_mask is ", given,
          ", expected ", Shape({shape.batch, shape.key_length}));
    const std::vector<std::int64_t> lengths = lengths_of(masks.padding);
    if (!lengths.empty() && shape.extra_keys == 0) {
      options.key_lengths = lengths;
    } else {
      padding = given.unsqueeze(1).unsqueeze(1);
    }
  }
  options.causal = masks.causal;
  if (shape.query_offset > 0 || options.key_lengths.defined()) {
    // bottom_right counts from each entry's own length unless told otherwise; here all keys are meant.
    options.query_offset =
        masks.causal == Causal::bottom_right ? shape.key_length - shape.query_length : shape.query_offset;
  }
  const bool causal_by_mask = shape.extra_keys > 0 && masks.causal != Causal::none;
  if (!padding.defined() && !causal_by_mask && shape.extra_keys == 0) {
    options.mask = mask;
    return;
  }
  if (!padding.defined() && !causal_by_mask && !mask.defined()) return;
  const bool by_head = mask.defined() && mask.tensor().size(1) != 1;
  Keep keep({shape.batch, by_head ? shape.heads : 1, shape.query_length, shape.key_length});
  if (mask.defined()) keep.restrict_to(mask.tensor(), mask.true_keeps());
  if (padding.defined()) keep.restrict_to(padding, masks.padding.true_keeps());
  if (causal_by_mask) {
    keep.restrict_to(causal_keep(shape, masks.causal), true);
    options.causal = Causal::none;
  }
  options.mask = Mask::keep(shape.extra_keys > 0 ? with_extra_keys(keep.tensor(), shape, 1.0) : keep.tensor());
}

}  // namespace headway::inline v0::internal
