// One call of attention, checked and complete: the input of every backend.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/random.h"
#include "headway/attention.h"

namespace headway::inline v0::internal {

// One batch entry, or one sequence of a packed batch.
struct Sequence {
  std::int64_t batch = 0;        // where it lies in the tensors
  std::int64_t query_begin = 0;  // first row of the queries
  std::int64_t query_length = 0;
  std::int64_t key_begin = 0;     // first row of the keys and values
  std::int64_t key_length = 0;    // rows that belong to it, padding included
  std::int64_t key_count = 0;     // non-padding rows
  std::int64_t query_offset = 0;  // position of the first query among the keys
  // Where it is a part of a longer sequence: the places of its first query and first key there, for dropout.
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
};

struct AttentionProblem {
  Tensor query;  // [batch, heads, query_length, head_dim], last dimension contiguous
  Tensor key;    // [batch, kv_heads, key_length, head_dim], likewise
  Tensor value;  // [batch, kv_heads, key_length, value_dim], likewise
  std::int64_t batch = 0, heads = 0, kv_heads = 0;
  std::int64_t query_length = 0, key_length = 0;
  std::int64_t head_dim = 0, value_dim = 0;

  double scale = 1;
  double softcap = 0;                       // 0: none
  std::optional<std::int64_t> left, right;  // causal is right = 0
  Tensor mask;                              // bool [batch, heads, query_length, key_length], broadcast by strides of 0
  bool mask_true_keeps = true;
  Tensor bias;                       // likewise, floating
  std::vector<double> alibi_slopes;  // (sequences, heads), or empty
  std::vector<double> sinks;         // (heads), or empty
  DropoutRule dropout;
  bool deterministic = true;
  Weights weights = Weights::none;
  WeightsOf weights_of = WeightsOf::softmax;

  bool packed = false;
  std::vector<Sequence> sequences;  // none where a batch that is not packed has no queries

  // Where it is a part of a larger problem.
  std::int64_t first_head = 0;  // the place of the first query head there, for dropout
  bool part_of_keys = false;    // output and log-sum-exp of the backward are over more keys than these, and its sinks

  // Query heads that share a key/value head.
  std::int64_t group() const { return kv_heads == 0 ? 1 : heads / kv_heads; }
  // Whether dropout begins elsewhere than at the first row, column and head.
  bool shifts_dropout() const {
    const auto is_shifted = [](const Sequence& s) { return s.first_row != 0 || s.first_column != 0; };
    return dropout.threshold != 0 && (first_head != 0 || std::ranges::any_of(sequences, is_shifted));
  }
};

// The backward's inputs beside the problem; absent gradients are undefined tensors.
struct AttentionBackwardInputs {
  Tensor output;
  Tensor logsumexp;
  Tensor d_output;
  Tensor d_weights;
  Tensor d_logsumexp;
};

}  // namespace headway::inline v0::internal
