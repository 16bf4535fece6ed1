#include "models/transformer_stack.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/check.h"
#include "dist/sequence_guard.h"
#include "models/model_front.h"
#include "models/relative_bias.h"
#include "nn/attention_masks.h"
#include "nn/block_attention.h"
#include "nn/block_chain.h"
#include "nn/block_norm.h"
#include "nn/device_copies.h"
#include "nn/quantized_product.h"

namespace headway::inline v0::internal {
namespace {

BlockNormOptions norm_of(const StackOptions& options, DType dtype) {
  return {.kind = options.norm,
          .width = options.width,
          .epsilon = options.norm_epsilon,
          .bias = options.norm_bias,
          .dtype = dtype};
}

bool has_table(const StackOptions& options) {
  return options.positions == PositionKind::learned || options.positions == PositionKind::sinusoidal;
}

void check_stack(const StackOptions& options) {
  constexpr std::int64_t kMostRows = std::int64_t{1} << 24;
  check(options.width > 0, "TransformerModel: width is ", options.width, ", expected more than 0");
  check_front(options.front);
  check(options.front.kind == FrontKind::tokens ||
            (options.token_types == 0 && options.positions != PositionKind::relative_bias),
        "TransformerModel: token_types or relative_bias is set, expected neither where features are read");
  for (const BlockOptions& layer : options.layers) {
    check(layer.width == options.width, "TransformerModel: a layer's width is ", layer.width, ", expected the stack's ",
          options.width);
    check(options.positions != PositionKind::relative_bias || layer.heads == options.layers.front().heads,
          "TransformerModel: layers have ", options.layers.front().heads, " and ", layer.heads,
          " heads, expected one number of them with relative_bias");
  }
  check(options.max_positions >= 0 && options.max_positions <= kMostRows && options.position_offset >= 0 &&
            options.position_offset <= kMostRows,
        "TransformerModel: max_positions is ", options.max_positions, " and position_offset is ",
        options.position_offset, ", expected both from 0 to 2^24");
  check(!has_table(options) || options.max_positions > 0,
        "TransformerModel: max_positions is 0, expected the rows of the table of positions");
  check(options.positions != PositionKind::relative_bias ||
            (options.relative_buckets >= 4 && options.relative_max_distance > options.relative_buckets / 2),
        "TransformerModel: relative_buckets is ", options.relative_buckets, " and relative_max_distance is ",
        options.relative_max_distance, ", expected at least 4 buckets and a distance beyond half of them");
}

// The greatest position plus one.
std::int64_t longest_of(const Tensor& positions) {
  return positions.element_count() == 0 ? 0 : static_cast<std::int64_t>(max(positions).item()) + 1;
}

Tensor shifted(const Tensor& positions, std::int64_t offset) {
  const Tensor moved = positions.clone();
  for (std::int64_t i = 0; i < moved.element_count(); ++i) moved.data<std::int64_t>()[i] += offset;
  return moved;
}

// Positions that count the non-padding tokens: int64 (batch, length), for the last `length` columns of the mask.
Tensor positions_by_mask(const Mask& padding, std::int64_t length) {
  const Tensor mask = padding.tensor().to(Device::cpu()).contiguous();  // (batch, keys)
  const bool* kept = mask.data<bool>();
  const std::int64_t keys = mask.size(1);
  const Tensor positions = Tensor::empty({mask.size(0), length}, DType::int64);
  std::int64_t* position = positions.data<std::int64_t>();
  for (std::int64_t entry = 0; entry < mask.size(0); ++entry, kept += keys) {
    std::int64_t seen = 0;
    for (std::int64_t key = 0; key < keys; ++key) {
      if (kept[key] == padding.true_keeps()) ++seen;
      if (key >= keys - length) *position++ = std::max<std::int64_t>(0, seen - 1);
    }
  }
  return positions;
}

}  // namespace

struct TransformerStack::Parts {
  StackOptions options;
  bool is_decoder = false;
  std::optional<Embedding> embedding = {};       // of tokens
  std::optional<ModelFront> front = {};          // of features
  std::optional<Embedding> positions = {};       // (max_positions + position_offset, width)
  std::shared_ptr<DeviceCopies> sinusoids = {};  // likewise
  std::optional<Embedding> token_types = {};     // (token_types, width)
  std::optional<Embedding> relative_bias = {};
  BlockNorm embedding_norm = {};
  BlockNorm norm = {};
  std::vector<TransformerBlock> layers = {};
  Dropout embedding_dropout;
  Dropout final_dropout;

  // int64 (batch, length) or (length) on the CPU; undefined where they follow those in the cache.
  Tensor positions_of(const char* function, const StackInput& input) const;
  void check_positions(const char* function, const StackInput& input, const Tensor& positions) const;
  // The weight that says where the stack is and what it computes in.
  Tensor main_weight() const;
  DType dtype() const { return computing_dtype(main_weight().dtype()); }
  Tensor rows_of_input(const StackInput& input) const;
  // What positions and token types add: [length, width] or [batch, length, width]; undefined: nothing.
  Tensor added_rows(const StackInput& input, const Tensor& positions) const;
  Tensor embed(const StackInput& input, const Tensor& positions) const;
  StackInput share_of(const char* function, const SequenceParallelGuard& guard, const StackInput& input,
                      Tensor& positions) const;
};

TransformerStack::TransformerStack(const StackOptions& options, const TransformerModelOptions& model,
                                   const std::optional<Embedding>& shared, bool is_decoder, DType dtype) {
  check_stack(options);
  const auto table = [&](std::int64_t count, std::int64_t width) {
    return Embedding({.count = count, .width = width, .dtype = computing_dtype(dtype)});
  };
  const EmbeddingOptions own = {
      .count = model.vocab_size, .width = options.width, .padding_index = model.padding_row, .dtype = dtype};
  auto parts = std::make_shared<Parts>(Parts{.options = options,
                                             .is_decoder = is_decoder,
                                             .embedding_dropout = Dropout(options.embedding_dropout),
                                             .final_dropout = Dropout(options.final_dropout)});
  if (options.front.kind != FrontKind::tokens) {
    parts->front.emplace(options.front, options.width, computing_dtype(dtype));
    add_module("front", *parts->front);
  } else if (shared) {
    parts->embedding = *shared;
  } else {
    parts->embedding.emplace(own);
    add_module("embedding", *parts->embedding);
  }
  const std::int64_t rows = options.max_positions + options.position_offset;
  if (options.positions == PositionKind::learned) {
    parts->positions = table(rows, options.width);
    add_module("positions", *parts->positions);
  } else if (options.positions == PositionKind::sinusoidal) {
    parts->sinusoids =
        std::make_shared<DeviceCopies>(sinusoidal_positions(rows, options.width, options.sinusoid, DType::float32));
  } else if (options.positions == PositionKind::relative_bias && !options.layers.empty()) {
    parts->relative_bias = table(options.relative_buckets, options.layers.front().heads);
    add_module("relative_bias", *parts->relative_bias);
  }
  if (options.token_types > 0) {
    parts->token_types = table(options.token_types, options.width);
    add_module("token_types", *parts->token_types);
  }
  if (options.embedding_norm) {
    parts->embedding_norm = BlockNorm::make(norm_of(options, dtype));
    add_module("embedding_norm", parts->embedding_norm.module());
  }
  for (BlockOptions layer : options.layers) {
    layer.dtype = dtype;
    parts->layers.emplace_back(layer);
    add_module("layers." + std::to_string(parts->layers.size() - 1), parts->layers.back());
  }
  if (options.final_norm) {
    parts->norm = BlockNorm::make(norm_of(options, dtype));
    add_module("norm", parts->norm.module());
  }
  add_module("embedding_dropout", parts->embedding_dropout);
  add_module("final_dropout", parts->final_dropout);
  parts_ = parts;
}

const std::optional<Embedding>& TransformerStack::embedding() const { return parts_->embedding; }
const std::vector<TransformerBlock>& TransformerStack::layers() const { return parts_->layers; }

Tensor TransformerStack::Parts::positions_of(const char* function, const StackInput& input) const {
  Tensor positions;
  if (input.positions.defined()) {
    positions = input.positions.to(Device::cpu());
  } else if (input.packed.defined()) {
    positions = packed_positions(input.packed).unsqueeze(0);
  } else if (input.padding_mask.defined()) {
    positions = positions_by_mask(input.padding_mask, input.length);
  }
  check_positions(function, input, positions);
  return positions;
}

void TransformerStack::Parts::check_positions(const char* function, const StackInput& input,
                                              const Tensor& positions) const {
  if (options.max_positions == 0) return;
  std::int64_t longest = input.length + (input.cache ? input.cache->length() : 0);
  if (positions.defined()) {
    longest = longest_of(positions);
  }
  if (front) {
    check(longest <= options.max_positions, function, ": features is ", input.features, ", which makes ", longest,
          " positions, and the model has ", options.max_positions);
    return;
  }
  check(longest <= options.max_positions, function, ": ", is_decoder && input.memory.defined() ? "target" : "tokens",
        " has a text of ", longest, " tokens, and the model has ", options.max_positions, " positions");
}

Tensor TransformerStack::Parts::main_weight() const {
  return embedding ? embedding->weight().get() : front->main_weight();
}

// Tokens' rows of the table, or what the front makes of the features: [batch, length, width].
Tensor TransformerStack::Parts::rows_of_input(const StackInput& input) const {
  if (!front) return embedding->forward(input.tokens);
  return front->forward(input.features.to(main_weight().device()).to(dtype()));
}

Tensor TransformerStack::Parts::added_rows(const StackInput& input, const Tensor& positions) const {
  Tensor types;  // [batch, length, width], or one row for all tokens
  if (token_types) {
    types = input.token_types.defined() ? token_types->forward(input.token_types)
                                        : token_types->weight().get().slice(0, 0, 1);
  }
  if (!has_table(options)) return types;
  const auto table_rows = [&](std::int64_t begin, std::int64_t end) {
    if (this->positions) return this->positions->weight().get().slice(0, begin, end);
    return sinusoids->on(main_weight().device()).slice(0, begin, end).to(dtype());
  };
  if (!positions.defined()) {
    const std::int64_t first = options.position_offset + (input.cache ? input.cache->length() : 0);
    const Tensor rows = table_rows(first, first + input.length);
    return types.defined() ? add(rows, types) : rows;
  }
  // One row for all tokens is added to the rows of the table that occur, which are few.
  const bool one_type = types.defined() && types.rank() == 2;
  const Tensor occurring = table_rows(0, options.position_offset + longest_of(positions));
  const Tensor rows =
      headway::embedding(one_type ? add(occurring, types) : occurring,
                         options.position_offset == 0 ? positions : shifted(positions, options.position_offset));
  return types.defined() && !one_type ? add(rows, types) : rows;
}

Tensor TransformerStack::Parts::embed(const StackInput& input, const Tensor& positions) const {
  Tensor x = rows_of_input(input);
  if (options.embedding_scale != 1.0) x = scale(x, options.embedding_scale);
  const Tensor rows = added_rows(input, positions);
  if (!rows.defined()) return embedding_dropout.forward(embedding_norm.forward(x));
  const bool one_pass = options.embedding_norm && rows.shape() == x.shape();
  const Dropout none(0.0);
  x = one_pass ? embedding_norm.add_to(none, x, rows).normed : embedding_norm.forward(add(x, rows));
  return embedding_dropout.forward(x);
}

// Where sequences are cut over ranks: this rank's tokens and their positions. Lengths and masks stay those of all.
StackInput TransformerStack::Parts::share_of(const char* function, const SequenceParallelGuard& guard,
                                             const StackInput& input, Tensor& positions) const {
  if (front) check_not_cut(function, "a model that reads features");
  if (input.cache) check_not_cut(function, "a cache");
  const SequenceShares shares = guard.shares(input.length);
  const int rank = guard.ranks().rank();
  StackInput own = input;
  own.length = shares.size(rank);
  own.tokens = shares.take(input.tokens, rank, 1);
  if (input.token_types.defined()) own.token_types = shares.take(input.token_types, rank, 1);
  positions = positions.defined() ? shares.take(positions, rank, positions.rank() - 1) : shares.positions(rank);
  return own;
}

StackResult TransformerStack::forward(const char* function, const StackInput& whole) const {
  const Parts& parts = *parts_;
  Tensor positions = parts.positions_of(function, whole);
  const SequenceParallelGuard* guard = SequenceParallelGuard::current();
  const StackInput input = guard ? parts.share_of(function, *guard, whole, positions) : whole;
  const std::int64_t cached = input.cache ? input.cache->length() : 0;
  BlockInput call = {.x = parts.embed(input, positions),
                     .lengths = input.lengths,
                     .padding_mask = input.padding_mask,
                     .packed = input.packed,
                     .memory = input.memory,
                     .memory_lengths = input.memory_lengths,
                     .memory_padding_mask = input.memory_padding_mask,
                     .weights = input.weights};
  bring_to_host(call.lengths, call.padding_mask);
  bring_to_host(call.memory_lengths, call.memory_padding_mask);
  const bool has_rotary = std::any_of(parts.options.layers.begin(), parts.options.layers.end(),
                                      [](const BlockOptions& layer) { return layer.rotary.has_value(); });
  if (has_rotary && positions.defined()) call.positions = positions.to(call.x.device());
  if (parts.relative_bias) {
    std::vector<std::int64_t> queries(static_cast<std::size_t>(input.length));  // their positions among the keys
    std::iota(queries.begin(), queries.end(), cached);
    if (guard) {
      const Tensor own = guard->shares(whole.length).positions(guard->ranks().rank());
      std::copy_n(own.data<std::int64_t>(), own.element_count(), queries.begin());
    }
    call.bias = relative_bias(*parts.relative_bias,
                              {.count = parts.options.relative_buckets,
                               .max_distance = parts.options.relative_max_distance,
                               .bidirectional = !parts.is_decoder},
                              queries, cached + whole.length);
  }
  StackResult result;
  BlockLink link;
  const BlockNorm* final_norm = parts.options.final_norm ? &parts.norm : nullptr;
  for (std::size_t i = 0; i < parts.layers.size(); ++i) {
    if (input.cache) call.cache = &input.cache->self_attention[i];
    if (input.cache && input.memory.defined()) call.memory_cache = &input.cache->memory_attention[i];
    const bool is_last = i + 1 == parts.layers.size();
    link.next = is_last ? final_norm : ChainedBlock::first_norm(parts.layers[i + 1]);
    BlockResult block = ChainedBlock::forward(parts.layers[i], call, link);
    call.x = block.output;
    if (input.weights == Weights::none) continue;
    result.weights.push_back(block.weights);
    if (input.memory.defined()) result.cross_weights.push_back(block.cross_weights);
  }
  result.hidden = parts.final_dropout.forward(link.normed.defined() ? link.normed : parts.norm.forward(call.x));
  return result;
}

}  // namespace headway::inline v0::internal
