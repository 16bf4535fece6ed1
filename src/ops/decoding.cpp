// Steps of decoding: checks, allocates, calls the backend.
#include "ops/decoding.h"

#include "backend/registry.h"
#include "base/check.h"
#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/product.h"

namespace headway::inline v0::internal {
namespace {

// A floating tensor of two dimensions.
void check_matrix(const char* function, const char* name, const Tensor& x) {
  check(x.defined() && x.rank() == 2 && is_floating(x.dtype()), function, ": ", name, " is ", x,
        ", expected a floating tensor of two dimensions");
}

// A dense tensor of one shape and dtype, on the device of another one.
void check_exact(const char* function, const char* name, const Tensor& x, DType dtype, const Shape& shape,
                 const char* beside_name, const Tensor& beside) {
  check(x.defined() && x.dtype() == dtype && x.shape() == shape, function, ": ", name, " is ", x, ", expected ", dtype,
        shape);
  check(x.is_contiguous(), function, ": ", name, " is ", x, " with gaps, expected it to be contiguous");
  check_same_device(function, beside_name, beside, name, x);
}

// Keys and values [entries, length, 2 * features] for rows of `features`, and heads that divide them.
void check_keys_values(const char* function, const Tensor& x, const char* beside_name, const Tensor& beside,
                       std::int64_t features, std::int64_t heads) {
  check(heads >= 1 && features % heads == 0, function, ": heads is ", heads, ", which does not divide ", features,
        " features");
  check(x.defined() && x.rank() == 3 && x.dtype() == beside.dtype() && x.size(2) == 2 * features, function,
        ": keys_values is ", x, ", expected ", beside.dtype(), "[entries, length, ", 2 * features, "]");
  check(x.is_contiguous(), function, ": keys_values is ", x, " with gaps, expected it to be contiguous");
  check_same_device(function, beside_name, beside, "keys_values", x);
}

// The tensor itself where its last dimension is contiguous, else a copy.
Tensor with_dense_rows(const Tensor& x) { return x.stride(1) == 1 ? x : dense(x); }

}  // namespace

PackedWeight pack_weight(const Tensor& weight, const Tensor& bias) {
  check_matrix("pack_weight", "weight", weight);
  check_exact("pack_weight", "bias", bias, weight.dtype(), {weight.size(0)}, "weight", weight);
  PackedWeight result = {weight.detach().contiguous(), bias.detach(), {}};
  result.packed = backend_of(weight).pack_weight(result.weight);
  return result;
}

Tensor linear_step(const Tensor& x, const PackedWeight& weight, Activation activation, const Tensor& added) {
  constexpr const char* kName = "linear_step";
  check_matrix(kName, "x", x);
  check_exact(kName, "x", x, weight.weight.dtype(), {x.size(0), weight.weight.size(1)}, "weight", weight.weight);
  check(!added.defined() || activation == Activation::none, kName, ": there is an activation and something to add");
  const Shape shape = {x.size(0), weight.weight.size(0)};
  if (added.defined()) check_exact(kName, "added", added, x.dtype(), shape, "x", x);
  const Tensor result = Tensor::empty(shape, x.dtype(), x.device());
  const auto add_to = [&](const Tensor& other, std::int64_t row_stride) {
    backend_of(x).binary({.operation = Binary::add,
                          .dtype = x.dtype(),
                          .rows = shape[0],
                          .columns = shape[1],
                          .a = bytes_of(added),
                          .a_row_stride = shape[1],
                          .b = bytes_of(other),
                          .b_row_stride = row_stride,
                          .result = bytes_of(result)});
  };
  MatmulProblem problem = {.rows = shape[0], .columns = shape[1], .depth = x.size(1), .activation = activation};
  problem.a = matrix_of(x);
  problem.b = matrix_of(weight.weight.transpose(0, 1));
  problem.result = matrix_of(result);
  if (weight.packed.defined()) problem.packed_b = bytes_of(weight.packed);
  // With a packed weight the sums start from `added`, except for 16-bit results, which cannot hold sums.
  problem.accumulate = added.defined() && weight.packed.defined() && item_size(x.dtype()) > 2;
  if (problem.accumulate) {
    add_to(weight.bias, 0);
  } else {
    problem.bias = bytes_of(weight.bias);
  }
  backend_of(x).matmul(problem);
  if (added.defined() && !problem.accumulate) add_to(result, shape[1]);
  return result;
}

Tensor embed_step(const Tensor& weight, const Tensor& tokens, const Tensor& positions, const Tensor& position,
                  double scale) {
  constexpr const char* kName = "embed_step";
  check_matrix(kName, "weight", weight);
  check(tokens.defined() && tokens.rank() == 1, kName, ": tokens is ", tokens, ", expected int64[rows]");
  check_exact(kName, "tokens", tokens, DType::int64, {tokens.size(0)}, "weight", weight);
  check_matrix(kName, "positions", positions);
  check_exact(kName, "positions", positions, weight.dtype(), {positions.size(0), weight.size(1)}, "weight", weight);
  check_exact(kName, "position", position, DType::int64, {1}, "weight", weight);
  const Tensor result = Tensor::empty({tokens.size(0), weight.size(1)}, weight.dtype(), weight.device());
  backend_of(weight).embed_step({.weight = dense(weight),
                                 .tokens = tokens,
                                 .positions = positions,
                                 .position = position,
                                 .scale = scale,
                                 .result = result});
  return result;
}

Tensor self_attention_step(const Tensor& projected, const TokenCache& cache, const Tensor& position,
                           std::int64_t heads) {
  constexpr const char* kName = "self_attention_step";
  check_matrix(kName, "projected", projected);
  check(projected.size(1) % 3 == 0, kName, ": projected is ", projected, ", expected [rows, 3 * features]");
  const std::int64_t rows = projected.size(0), features = projected.size(1) / 3;
  check_keys_values(kName, cache.keys_values, "projected", projected, features, heads);
  check(cache.keys_values.size(0) >= rows, kName, ": keys_values is ", cache.keys_values, ", expected an entry for ",
        "each of the ", rows, " rows");
  check_exact(kName, "origins", cache.origins, DType::int32, {rows, cache.keys_values.size(1)}, "projected", projected);
  check_exact(kName, "position", position, DType::int64, {1}, "projected", projected);
  const Tensor dense = with_dense_rows(projected);
  const Tensor result = Tensor::empty({rows, features}, projected.dtype(), projected.device());
  backend_of(projected).cache_attention({.query = dense.slice(1, 0, features),
                                         .fresh = dense.slice(1, features, 3 * features),
                                         .cache = cache.keys_values,
                                         .origins = cache.origins,
                                         .position = position,
                                         .lengths = {},
                                         .heads = heads,
                                         .result = result});
  return result;
}

Tensor cross_attention_step(const Tensor& query, const SourceMemory& memory, std::int64_t heads) {
  constexpr const char* kName = "cross_attention_step";
  check_matrix(kName, "query", query);
  check_keys_values(kName, memory.keys_values, "query", query, query.size(1), heads);
  check_exact(kName, "lengths", memory.lengths, DType::int64, {memory.keys_values.size(0)}, "query", query);
  check_exact(kName, "source_of", memory.source_of, DType::int32, {query.size(0)}, "query", query);
  const Tensor result = Tensor::empty(query.shape(), query.dtype(), query.device());
  backend_of(query).cache_attention({.query = with_dense_rows(query),
                                     .fresh = {},
                                     .cache = memory.keys_values,
                                     .origins = memory.source_of,
                                     .position = {},
                                     .lengths = memory.lengths,
                                     .heads = heads,
                                     .result = result});
  return result;
}

void top_tokens(const Tensor& logits, std::optional<std::int64_t> excluded, const TopTokens& top) {
  constexpr const char* kName = "top_tokens";
  check_matrix(kName, "logits", logits);
  const std::int64_t rows = logits.size(0), classes = logits.size(1);
  check(!excluded || (*excluded >= 0 && *excluded < classes), kName, ": excluded is ", excluded.value_or(0),
        ", expected one of the ", classes, " classes");
  check(top.tokens.defined() && top.tokens.rank() == 2, kName, ": tokens is ", top.tokens, ", expected int64[", rows,
        ", count]");
  const Shape shape = {rows, top.tokens.size(1)};
  check_exact(kName, "tokens", top.tokens, DType::int64, shape, "logits", logits);
  check_exact(kName, "top logits", top.logits, DType::float32, shape, "logits", logits);
  check_exact(kName, "logsumexp", top.logsumexp, DType::float32, {rows}, "logits", logits);
  backend_of(logits).top_tokens({dense(logits), excluded.value_or(-1), top});
}

void take_best(const TopTokens& top, const Tensor& newest, const GreedyHistory& history, const Tensor& position) {
  constexpr const char* kName = "take_best";
  check(newest.defined() && newest.rank() == 1, kName, ": newest is ", newest, ", expected int64[rows]");
  const std::int64_t rows = newest.size(0);
  check_exact(kName, "newest", newest, DType::int64, {rows}, "newest", newest);
  check(top.tokens.defined() && top.tokens.rank() == 2 && top.tokens.size(1) >= 1, kName, ": tokens is ", top.tokens,
        ", expected int64[", rows, ", 1 or more]");
  const Shape shape = {rows, top.tokens.size(1)};
  check_exact(kName, "tokens", top.tokens, DType::int64, shape, "newest", newest);
  check_exact(kName, "logits", top.logits, DType::float32, shape, "newest", newest);
  check_exact(kName, "logsumexp", top.logsumexp, DType::float32, {rows}, "newest", newest);
  check(history.tokens.defined() && history.tokens.rank() == 2, kName, ": history tokens is ", history.tokens,
        ", expected int64[capacity, ", rows, "]");
  const Shape all = {history.tokens.size(0), rows};
  check_exact(kName, "history tokens", history.tokens, DType::int64, all, "newest", newest);
  check_exact(kName, "history scores", history.scores, DType::float32, all, "newest", newest);
  check_exact(kName, "position", position, DType::int64, {1}, "newest", newest);
  backend_of(newest).take_best({top, newest, history, position});
}

Tensor gather_rows(const Tensor& source, const Tensor& indices) {
  constexpr const char* kName = "gather_rows";
  check(source.defined() && source.rank() >= 1, kName, ": source is ", source, ", expected at least one dimension");
  check(indices.defined() && indices.rank() == 1, kName, ": indices is ", indices, ", expected int64[rows]");
  check_exact(kName, "indices", indices, DType::int64, {indices.size(0)}, "source", source);
  Shape shape = source.shape();
  shape[0] = indices.size(0);
  const Tensor result = Tensor::empty(shape, source.dtype(), source.device());
  backend_of(source).gather_rows({dense(source), indices, result});
  return result;
}

}  // namespace headway::inline v0::internal
