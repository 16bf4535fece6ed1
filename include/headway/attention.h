// Attention for many heads at once: softmax(scale * Q K^T + mask) V, forward and backward.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "headway/export.h"
#include "headway/tensor.h"

namespace headway {
inline namespace v0 {

// How a causal mask is aligned when there are fewer or more queries than keys.
enum class Causal {
  none,
  top_left,      // query i sees keys 0 .. i                                   (PyTorch's is_causal)
  bottom_right,  // query i sees keys 0 .. i + key_length - query_length       (FlashAttention)
};

// A boolean tensor with its polarity in the name: [query_length, key_length], or four dimensions that broadcast to
// [batch, heads, query_length, key_length].
class Mask {
 public:
  Mask() = default;
  static Mask keep(Tensor allowed) { return Mask(std::move(allowed), true); }       // true: may be looked at
  static Mask drop(Tensor forbidden) { return Mask(std::move(forbidden), false); }  // true: must not be

  bool defined() const { return tensor_.defined(); }
  const Tensor& tensor() const { return tensor_; }
  bool true_keeps() const { return true_keeps_; }

 private:
  Mask(Tensor tensor, bool true_keeps) : tensor_(std::move(tensor)), true_keeps_(true_keeps) {}
  Tensor tensor_;
  bool true_keeps_ = true;
};

// How many keys a query sees to the left and right of its own position; absent means no limit.
struct Window {
  std::optional<std::int64_t> left = {};
  std::optional<std::int64_t> right = {};
};

// One integer for all batch entries, or one for each: 12, {5, 3}, a std::vector, or an int32/int64 tensor [batch].
class HEADWAY_API PerEntry {
 public:
  PerEntry() = default;
  PerEntry(std::int64_t value);
  PerEntry(std::initializer_list<std::int64_t> values);
  PerEntry(const std::vector<std::int64_t>& values);
  PerEntry(Tensor values) : values_(std::move(values)) {}

  bool defined() const { return values_.defined(); }
  const Tensor& tensor() const { return values_; }

 private:
  Tensor values_;
};

// Where each sequence of a packed batch begins, and the end of the last one: {0, 3, 7} are sequences of 3 and 4 tokens.
// A list, a std::vector, or an int32/int64 tensor [sequences + 1].
class HEADWAY_API CumulativeLengths {
 public:
  CumulativeLengths() = default;
  CumulativeLengths(std::initializer_list<std::int64_t> values);
  CumulativeLengths(const std::vector<std::int64_t>& values);
  CumulativeLengths(Tensor values) : values_(std::move(values)) {}

  bool defined() const { return values_.defined(); }
  const Tensor& tensor() const { return values_; }

 private:
  Tensor values_;
};

// Which attention weights the forward returns.
enum class Weights { none, per_head, mean };

// What the returned weights are.
enum class WeightsOf {
  softmax,     // the probabilities, before dropout
  scores,      // scale * Q K^T
  softcapped,  // the same after softcap
  masked,      // the same after ALiBi, bias and all masks; masked scores are -infinity
};

struct AttentionOptions {
  Causal causal = Causal::none;

  // The first query's position among the keys, for causal, window and ALiBi. Where it is not given,
  // Causal::bottom_right puts it at that entry's key length - query length, and everything else at 0. A cache of 12
  // keys is 12.
  PerEntry query_offset = {};
  Window window = {};

  Mask mask = {};             // Mask::keep(bool) or Mask::drop(bool)
  Tensor bias = {};           // added to the scores; -inf, or anything from -1e30 down, is masked; shaped like the mask
  PerEntry key_lengths = {};  // number of non-padding keys; the keys after them are padding
  std::optional<double> scale = {};    // default 1 / sqrt(head_dim)
  std::optional<double> softcap = {};  // scores become softcap * tanh(scores / softcap), before bias and mask
  Tensor alibi_slopes = {};            // [heads] or [batch, heads]: adds -slope * |query position - key position|
  Tensor sinks = {};                   // [heads]: one more score in each softmax, without a value

  // Packed batches: tensors have a batch of 1, and sequence s holds the queries cu_query_lengths[s] ..
  // cu_query_lengths[s + 1] and the keys cu_key_lengths[s] .. cu_key_lengths[s + 1]. Every "per batch entry" above then
  // means per sequence, and positions count inside the sequence.
  CumulativeLengths cu_query_lengths = {};
  CumulativeLengths cu_key_lengths = {};

  double dropout = 0.0;  // in [0, 1), rounded to 1/65536; on the probabilities
  std::uint64_t seed = 0;

  // False lets a GPU sum the query's gradient in any order, which is faster; the last bits then vary between runs.
  bool deterministic = true;

  Weights weights = Weights::none;
  WeightsOf weights_of = WeightsOf::softmax;
};

struct AttentionResult {
  Tensor output;     // [batch, heads, query_length, value_dim]
  Tensor logsumexp;  // [batch, heads, query_length], float32 (float64 for float64 inputs); -inf for an empty row
  Tensor weights;    // [batch, heads, query_length, key_length], or [batch, query_length, key_length] for the mean
};

// softmax(scale * Q K^T + mask) V. Query heads are a multiple of key/value heads.
// query [batch, heads, query_length, head_dim], key [batch, kv_heads, key_length, head_dim],
// value [batch, kv_heads, key_length, value_dim]: one floating dtype, any strides whose last dimension is contiguous.
// All are on one device; the mask and the tensors per entry or per head may be on the CPU.
// The output of a query whose keys are all masked is zero; NaN in a masked key or value never reaches the output.
HEADWAY_API AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const AttentionOptions& options = {});

struct AttentionBackward {
  Tensor query = {};
  Tensor key = {};
  Tensor value = {};
  AttentionResult forward = {};  // what attention() returned for these inputs and options
  Tensor d_output = {};          // absent means zero
  Tensor d_weights = {};         // absent means zero; has the shape of forward.weights
  Tensor d_logsumexp = {};       // absent means zero
  AttentionOptions options = {};
  bool bias_gradient = true;  // false: the gradient of the bias is not computed
};

struct AttentionGradients {
  Tensor query;
  Tensor key;
  Tensor value;
  Tensor bias;   // shaped like options.bias, summed over what was broadcast; undefined where no bias was given
  Tensor sinks;  // shaped like options.sinks; undefined where none were given
};

// The gradients of attention() with respect to its inputs, recomputed tile by tile from the log-sum-exp.
HEADWAY_API AttentionGradients attention_backward(const AttentionBackward& arguments);

}  // namespace v0
}  // namespace headway
