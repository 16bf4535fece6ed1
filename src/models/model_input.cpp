#include "models/model_input.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "dist/sequence_guard.h"
#include "models/model_front.h"
#include "nn/attention_masks.h"

namespace headway::inline v0::internal {
namespace {

// Ids on the CPU, where the embedding reads them; throws where one is not in the vocabulary.
Tensor checked_ids(const char* function, const char* argument, const Tensor& ids, std::int64_t count) {
  check(ids.defined(), function, ": ", argument, " is not given, expected int64 ids [batch, length]");
  check(ids.rank() == 2 && (ids.dtype() == DType::int64 || ids.dtype() == DType::int32), function, ": ", argument,
        " is ", ids, ", expected int64 ids [batch, length]");
  const Tensor values = ids.to(Device::cpu()).to(DType::int64).contiguous();
  for (std::int64_t i = 0; i < values.element_count(); ++i) {
    const std::int64_t id = values.data<std::int64_t>()[i];
    check(id >= 0 && id < count, function, ": ", argument, " has ", id, " at ",
          Shape({i / ids.size(1), i % ids.size(1)}), ", expected 0 to ", count - 1);
  }
  return values;
}

// Integers that are shaped like the tokens, on the CPU; undefined ones stay undefined.
Tensor checked_like(const char* function, const char* argument, const Tensor& given, const Tensor& tokens,
                    std::int64_t count) {
  if (!given.defined()) return given;
  check(given.shape() == tokens.shape(), function, ": ", argument, " is ", given, ", expected tokens' shape ",
        tokens.shape());
  return checked_ids(function, argument, given, count);
}

Mask checked_padding(const char* function, const char* argument, const Mask& mask, const Shape& expected) {
  if (!mask.defined()) return mask;
  check(mask.tensor().dtype() == DType::boolean && mask.tensor().shape() == expected, function, ": ", argument, " is ",
        mask.tensor(), ", expected bool", expected);
  const Tensor here = mask.tensor().to(Device::cpu());
  return mask.true_keeps() ? Mask::keep(here) : Mask::drop(here);
}

CumulativeLengths checked_packed(const char* function, const CumulativeLengths& packed, const Tensor& tokens) {
  const Tensor& given = packed.tensor();
  check(tokens.size(0) == 1, function, ": tokens is ", tokens, ", expected [1, total] where packed is given");
  check(given.rank() == 1 && given.size(0) >= 1 && (given.dtype() == DType::int32 || given.dtype() == DType::int64),
        function, ": packed is ", given, ", expected int64[texts + 1]");
  const Tensor ends = given.to(Device::cpu()).to(DType::int64).contiguous();
  const std::int64_t* end = ends.data<std::int64_t>();
  for (std::int64_t i = 0; i < ends.element_count(); ++i) {
    const std::int64_t least = i == 0 ? 0 : end[i - 1], most = i == 0 ? 0 : tokens.size(1);
    check(end[i] >= least && end[i] <= most, function, ": packed has ", end[i], " at ", i, ", expected ", least, " to ",
          most);
  }
  check(end[ends.element_count() - 1] == tokens.size(1), function, ": packed ends at ", end[ends.element_count() - 1],
        ", expected the number of tokens, ", tokens.size(1));
  return CumulativeLengths(ends);
}

}  // namespace

StackInput checked_text(const char* function, const TextNames& names, const Tensor& tokens, const PerEntry& lengths,
                        const Mask& padding_mask, const TransformerModelOptions& options, std::int64_t cached) {
  StackInput input;
  input.tokens = checked_ids(function, names.tokens, tokens, options.vocab_size);
  const std::int64_t batch = tokens.size(0), length = tokens.size(1);
  input.batch = batch;
  input.length = length;
  check(!lengths.defined() || !padding_mask.defined(), function, ": ", names.lengths, " and ", names.padding_mask,
        " are both given, expected one of them");
  input.lengths = checked_lengths(function, names.lengths, lengths, batch, cached + length);
  input.padding_mask = checked_padding(function, names.padding_mask, padding_mask, {batch, cached + length});
  return input;
}

namespace {

// The share of a stack that reads features.
StackInput checked_source(const char* function, const ModelInput& input, const FrontOptions& front) {
  const char* kind = front.kind == FrontKind::sound ? "sound" : "pictures";
  check(!input.tokens.defined(), function, ": tokens is given, and the model reads features of ", kind);
  check_features(function, front, input.features);
  check(!input.padding_mask.defined() && !input.packed.defined() && !input.token_types.defined() &&
            !input.positions.defined(),
        function, ": padding_mask, packed, token_types or positions is given, expected features and lengths alone");
  check(front.kind == FrontKind::sound || !input.lengths.defined(), function,
        ": lengths is given, and pictures have all of their patches");
  StackInput source = {.features = input.features, .batch = input.features.size(0), .weights = input.weights};
  std::vector<std::int64_t> one;
  for (int dim = 1; dim < input.features.rank(); ++dim) one.push_back(input.features.size(dim));
  source.length = front_positions(front, Shape(one));
  source.lengths = checked_lengths(function, "lengths", input.lengths, source.batch, source.length);
  return source;
}

}  // namespace

StackInput checked_tokens(const char* function, const ModelInput& input, const TransformerModelOptions& options,
                          const StackOptions& stack, std::int64_t cached) {
  if (stack.front.kind != FrontKind::tokens) return checked_source(function, input, stack.front);
  check(!input.features.defined(), function, ": features is given, and the model reads tokens");
  StackInput text = checked_text(function, {}, input.tokens, input.lengths, input.padding_mask, options, cached);
  if (input.packed.defined()) {
    check(!input.lengths.defined() && !input.padding_mask.defined(), function,
          ": packed is given with lengths or padding_mask, expected packed alone");
    text.packed = checked_packed(function, input.packed, input.tokens);
  }
  constexpr std::int64_t kAnyPosition = std::int64_t{1} << 53;
  text.positions = checked_like(function, "positions", input.positions, input.tokens, kAnyPosition);
  check(!input.token_types.defined() || stack.token_types > 0, function,
        ": token_types is given, and the model has none");
  text.token_types = checked_like(function, "token_types", input.token_types, input.tokens, stack.token_types);
  text.weights = input.weights;
  return text;
}

TextRows rows_of(const StackInput& input) {
  return rows_of_texts({.batch = input.batch,
                        .length = input.length,
                        .lengths = input.lengths,
                        .padding_mask = input.padding_mask,
                        .packed = input.packed});
}

namespace {

// A stack over packed texts whose scores have a bias, which has one row and column per token: each text gets its own
// row of a padded batch, since the bias of all texts together would grow with the square of their sum.
StackResult run_unpacked(const TransformerStack& stack, const char* function, const StackInput& input) {
  const TextRows texts = rows_of(input);
  const std::vector<std::int64_t> lengths = lengths_of(texts);
  std::int64_t longest = 0, entry = 0;
  for (const std::int64_t length : lengths) longest = std::max(longest, length);
  StackInput padded = input;
  padded.packed = {};
  padded.lengths = lengths;
  const auto count = static_cast<std::int64_t>(texts.size());
  padded.batch = count;
  padded.length = longest;
  const auto spread = [&](const Tensor& ids) {
    if (!ids.defined()) return ids;
    const Tensor wide = Tensor::zeros({count, longest}, DType::int64);
    for (std::size_t text = 0; text < texts.size(); ++text) {
      for (std::size_t i = 0; i < texts[text].size(); ++i) {
        wide.data<std::int64_t>()[static_cast<std::int64_t>(text) * longest + static_cast<std::int64_t>(i)] =
            ids.data<std::int64_t>()[texts[text][i]];
      }
    }
    return wide;
  };
  for (Tensor* ids : {&padded.tokens, &padded.token_types, &padded.positions}) *ids = spread(*ids);
  StackResult result = stack.forward(function, padded);
  std::vector<std::int64_t> rows;
  for (; entry < count; ++entry) {
    for (std::int64_t i = 0; i < lengths[static_cast<std::size_t>(entry)]; ++i) rows.push_back(entry * longest + i);
  }
  result.hidden = rows_at(result.hidden, Tensor::from(rows, input.tokens.shape()));
  return result;
}

}  // namespace

StackResult run_stack(const TransformerStack& stack, const StackOptions& options, const char* function,
                      const StackInput& input) {
  const bool has_bias = options.positions == PositionKind::relative_bias;
  if (has_bias && input.packed.defined()) check_not_cut(function, "a packed batch with relative positions");
  return has_bias && input.packed.defined() ? run_unpacked(stack, function, input) : stack.forward(function, input);
}

}  // namespace headway::inline v0::internal
