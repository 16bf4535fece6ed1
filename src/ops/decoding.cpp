// Steps of decoding: checks, allocates, calls the backend.
#include "ops/decoding.h"

#include "backend/registry.h"
#include "base/check.h"
#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/elementwise.h"

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

// Heads that divide the key/value heads' number, and keys and values [entries, length, 2 * kv_heads * head_dim].
void check_heads(const char* function, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  check(kv_heads >= 1 && heads >= 1 && heads % kv_heads == 0, function, ": heads is ", heads,
        ", expected a multiple of kv_heads, which is ", kv_heads);
  check(head_dim >= 1, function, ": head_dim is ", head_dim, ", expected 1 or more");
}
void check_keys_values(const char* function, const Tensor& x, const char* beside_name, const Tensor& beside,
                       std::int64_t features) {
  check(x.defined() && x.rank() == 3 && x.dtype() == beside.dtype() && x.size(2) == 2 * features, function,
        ": keys_values is ", x, ", expected ", beside.dtype(), "[entries, length, ", 2 * features, "]");
  check(x.is_contiguous(), function, ": keys_values is ", x, " with gaps, expected it to be contiguous");
  check_same_device(function, beside_name, beside, "keys_values", x);
}

void check_scores(const char* function, const StepScores& scores, const Tensor& beside) {
  check_heads(function, scores.heads, scores.kv_heads, scores.head_dim);
  const auto check_table = [&](const char* name, const Tensor& table, const Shape& shape) {
    if (table.defined()) check_exact(function, name, table, DType::float32, shape, "keys_values", beside);
  };
  check_table("alibi_slopes", scores.alibi_slopes, {scores.heads});
  check_table("sinks", scores.sinks, {scores.heads});
  if (scores.distance_bias.defined()) {
    check_matrix(function, "distance_bias", scores.distance_bias);
    check(scores.distance_bias.size(1) >= 1, function, ": distance_bias is ", scores.distance_bias,
          ", expected one distance or more");
    check_table("distance_bias", scores.distance_bias, {scores.heads, scores.distance_bias.size(1)});
  }
}

void check_append(const char* function, const CacheAppend& task) {
  check_matrix(function, "projected", task.projected);
  check_heads(function, task.heads, task.kv_heads, task.head_dim);
  const std::int64_t rows = task.projected.size(0), features = task.kv_heads * task.head_dim;
  check(task.projected.size(1) == task.heads * task.head_dim + 2 * features, function, ": projected is ",
        task.projected, ", expected [rows, ", task.heads * task.head_dim + 2 * features, "]");
  check(rows == 0 || task.projected.stride(1) == 1, function, ": projected is ", task.projected,
        " with gaps in its rows");
  check_keys_values(function, task.cache, "projected", task.projected, features);
  check_exact(function, "positions", task.positions, DType::int64, {rows}, "projected", task.projected);
  if (task.entries.defined()) {
    check_exact(function, "entries", task.entries, DType::int32, {rows}, "projected", task.projected);
  } else {
    check(task.cache.size(0) >= rows, function, ": keys_values is ", task.cache, ", expected an entry for each of the ",
          rows, " rows");
  }
  if (task.origins.defined()) {
    check_exact(function, "origins", task.origins, DType::int32, {rows, task.cache.size(1)}, "projected",
                task.projected);
  }
  check(task.query_norm.defined() == task.key_norm.defined(), function, ": one of query_norm and key_norm is missing");
  if (task.query_norm.defined()) {
    const Shape shape = {task.head_dim};
    check_exact(function, "query_norm", task.query_norm, task.projected.dtype(), shape, "projected", task.projected);
    check_exact(function, "key_norm", task.key_norm, task.projected.dtype(), shape, "projected", task.projected);
  }
  if (task.rotation.defined()) {
    check_matrix(function, "rotation", task.rotation);
    check_exact(function, "rotation", task.rotation, DType::float32, task.rotation.shape(), "projected",
                task.projected);
    check(task.rotation.size(1) <= task.head_dim && task.rotation.size(1) % 2 == 0, function, ": rotation is ",
          task.rotation, ", expected an even number of at most ", task.head_dim, " features");
  }
}

void check_norm(const char* function, const Tensor& x, const StepNormWeights& norm) {
  const Shape shape = {x.size(1)};
  if (norm.weight.defined()) check_exact(function, "norm weight", norm.weight, x.dtype(), shape, "x", x);
  if (norm.bias.defined()) check_exact(function, "norm bias", norm.bias, x.dtype(), shape, "x", x);
}

// The tensor itself where its last dimension is contiguous, else a copy.
Tensor with_dense_rows(const Tensor& x) { return x.stride(1) == 1 ? x : dense(x); }

}  // namespace

PackedWeight pack_weight(const Tensor& weight, const Tensor& bias) {
  check_matrix("pack_weight", "weight", weight);
  if (bias.defined()) {
    check_exact("pack_weight", "bias", bias, weight.dtype(), {weight.size(0)}, "weight", weight);
  }
  PackedWeight result = {.outputs = weight.size(0), .inputs = weight.size(1)};
  if (bias.defined()) result.bias = bias.detach();
  const Tensor whole = weight.detach().contiguous();
  if (item_size(weight.dtype()) > 2) result.packed = backend_of(weight).pack_weight(whole);
  if (!result.packed.defined()) result.weight = whole;
  return result;
}

Tensor linear_step(const Tensor& x, const PackedWeight& weight, const LinearStepOptions& options) {
  constexpr const char* kName = "linear_step";
  check_matrix(kName, "x", x);
  const std::int64_t rows = x.size(0), outputs = weight.outputs;
  check(x.size(1) == weight.inputs, kName, ": x is ", x, ", expected ", Shape{rows, weight.inputs});
  if (weight.weight.defined()) {
    check(x.dtype() == weight.weight.dtype(), kName, ": x is ", x, ", expected ", weight.weight.dtype());
    check_same_device(kName, "weight", weight.weight, "x", x);
  }
  check(!weight.scales.defined() || x.dtype() == DType::float32, kName, ": x is ", x, ", expected ", DType::float32,
        " beside a weight in 8 bits");
  if (options.norm.kind != StepNorm::none) check_norm(kName, x, options.norm);
  check(!options.gated || (outputs % 2 == 0 && !options.added.defined()), kName, ": there are ", outputs,
        " outputs to gate, expected an even number and nothing to add");
  check(!options.added.defined() || options.activation == Activation::none, kName,
        ": there is an activation and something to add");
  if (options.added.defined()) check_exact(kName, "added", options.added, x.dtype(), {rows, outputs}, "x", x);
  const Tensor result = Tensor::empty({rows, options.gated ? outputs / 2 : outputs}, x.dtype(), x.device());
  backend_of(x).linear_step({.x = with_dense_rows(x),
                             .norm = options.norm,
                             .weight = weight.weight,
                             .packed = weight.packed,
                             .scales = weight.scales,
                             .bias = weight.bias,
                             .activation = options.activation,
                             .gated = options.gated,
                             .added = options.added,
                             .result = result});
  return result;
}

Tensor norm_step(const Tensor& x, const StepNormWeights& norm) {
  if (norm.kind == StepNorm::none) return x;
  return norm.kind == StepNorm::layer ? layer_norm(x, norm.weight, norm.bias, norm.epsilon)
                                      : rms_norm(x, norm.weight, norm.epsilon);
}

Tensor embed_step(const Tensor& weight, const Tensor& tokens, const Tensor& positions, const Tensor& position,
                  double scale) {
  constexpr const char* kName = "embed_step";
  check_matrix(kName, "weight", weight);
  check(tokens.defined() && tokens.rank() == 1, kName, ": tokens is ", tokens, ", expected int64[rows]");
  check_exact(kName, "tokens", tokens, DType::int64, {tokens.size(0)}, "weight", weight);
  if (positions.defined()) {
    check_matrix(kName, "positions", positions);
    check_exact(kName, "positions", positions, weight.dtype(), {positions.size(0), weight.size(1)}, "weight", weight);
    check_exact(kName, "position", position, DType::int64, {tokens.size(0)}, "weight", weight);
  }
  const Tensor result = Tensor::empty({tokens.size(0), weight.size(1)}, weight.dtype(), weight.device());
  backend_of(weight).embed_step({.weight = dense(weight),
                                 .tokens = tokens,
                                 .positions = positions,
                                 .position = positions.defined() ? position : Tensor(),
                                 .scale = scale,
                                 .result = result});
  return result;
}

void cache_append(const CacheAppend& task) {
  check_append("cache_append", task);
  backend_of(task.projected).cache_append(task);
}

Tensor self_attention_step(const CacheAppend& task, const StepScores& scores) {
  constexpr const char* kName = "self_attention_step";
  check_append(kName, task);
  check(task.origins.defined(), kName, ": there are no origins");
  check_scores(kName, scores, task.cache);
  const Tensor result =
      Tensor::empty({task.projected.size(0), task.heads * task.head_dim}, task.projected.dtype(), task.cache.device());
  backend_of(task.projected)
      .cache_attention(
          {.append = task, .cache = task.cache, .origins = task.origins, .scores = scores, .result = result});
  return result;
}

Tensor cross_attention_step(const Tensor& query, const SourceMemory& memory, const StepScores& scores) {
  constexpr const char* kName = "cross_attention_step";
  check_matrix(kName, "query", query);
  check_scores(kName, scores, query);
  check(query.size(1) == scores.heads * scores.head_dim, kName, ": query is ", query, ", expected [rows, ",
        scores.heads * scores.head_dim, "]");
  check_keys_values(kName, memory.keys_values, "query", query, scores.kv_heads * scores.head_dim);
  check_exact(kName, "lengths", memory.lengths, DType::int64, {memory.keys_values.size(0)}, "query", query);
  check_exact(kName, "source_of", memory.source_of, DType::int32, {query.size(0)}, "query", query);
  const Tensor result = Tensor::empty(query.shape(), query.dtype(), query.device());
  backend_of(query).cache_attention({.query = with_dense_rows(query),
                                     .cache = memory.keys_values,
                                     .origins = memory.source_of,
                                     .lengths = memory.lengths,
                                     .scores = scores,
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

void sample_tokens(const SampleTask& task) {
  constexpr const char* kName = "sample_tokens";
  check_matrix(kName, "logits", task.logits);
  const std::int64_t rows = task.logits.size(0);
  check(task.rule.temperature > 0, kName, ": temperature is ", task.rule.temperature, ", expected a positive number");
  check_exact(kName, "sequences", task.sequences, DType::int64, {rows}, "logits", task.logits);
  check_exact(kName, "step", task.step, DType::int64, {1}, "logits", task.logits);
  check_exact(kName, "tokens", task.top.tokens, DType::int64, {rows, 1}, "logits", task.logits);
  check_exact(kName, "top logits", task.top.logits, DType::float32, {rows, 1}, "logits", task.logits);
  check_exact(kName, "logsumexp", task.top.logsumexp, DType::float32, {rows}, "logits", task.logits);
  SampleTask checked = task;
  checked.logits = dense(task.logits);
  backend_of(task.logits).sample_tokens(checked);
}

void take_best(const TakeBest& task) {
  constexpr const char* kName = "take_best";
  const auto& [top, newest, history, positions, step] = task;
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
  check_exact(kName, "positions", positions, DType::int64, {rows}, "newest", newest);
  check_exact(kName, "step", step, DType::int64, {1}, "newest", newest);
  backend_of(newest).take_best(task);
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
