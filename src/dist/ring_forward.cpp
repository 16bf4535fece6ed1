// The forward of ring attention: results over the keys that have come by so far, joined by their log-sum-exp.
#include <algorithm>
#include <cmath>

#include "backend/registry.h"
#include "dist/key_ring.h"
#include "dist/ring_attention.h"
#include "dist/sequence_pieces.h"
#include "ops/attention.h"
#include "ops/attention_checks.h"

namespace headway::inline v0::internal {
namespace {

// The results of one range of queries so far, in the dtype of sums; undefined before the first.
struct RangeResult {
  Tensor output;     // [batch, heads, queries, value_dim]
  Tensor logsumexp;  // [batch, heads, queries]
};

AttentionResult compute_piece(const AttentionProblem& problem) {
  const Shape rows = {problem.batch, problem.heads, problem.query_length};
  const Device device = problem.query.device();
  AttentionResult result;
  result.output = Tensor::empty({rows[0], rows[1], rows[2], problem.value_dim}, piece_dtype(problem), device);
  result.logsumexp = Tensor::empty(rows, sums_dtype(problem), device);
  if (result.logsumexp.element_count() > 0) backend_of(device).attention(problem, result);
  return result;
}

void join_piece(RangeResult& sum, const AttentionResult& piece) {
  if (!sum.output.defined()) {
    sum = {piece.output.to(piece.logsumexp.dtype()), piece.logsumexp};
    return;
  }
  if (sum.logsumexp.element_count() == 0) return;
  backend_of(sum.output)
      .merge_attention({.rows = sum.logsumexp.element_count(),
                        .columns = sum.output.size(3),
                        .part_dtype = piece.output.dtype(),
                        .part = static_cast<const std::byte*>(piece.output.raw_data()),
                        .part_logsumexp = static_cast<const std::byte*>(piece.logsumexp.raw_data()),
                        .sums_dtype = sum.logsumexp.dtype(),
                        .output = static_cast<std::byte*>(sum.output.raw_data()),
                        .logsumexp = static_cast<std::byte*>(sum.logsumexp.raw_data())});
}

AttentionResult empty_result(const AttentionProblem& whole) {
  AttentionResult result;
  result.output = empty_in_order_of(whole.query, {whole.batch, whole.heads, whole.query_length, whole.value_dim},
                                    whole.query.dtype());
  result.logsumexp =
      Tensor::empty({whole.batch, whole.heads, whole.query_length}, sums_dtype(whole), whole.query.device());
  if (whole.weights != Weights::none) {
    result.weights = Tensor::empty(weights_shape(whole), whole.query.dtype(), whole.query.device());
  }
  return result;
}

void write_rows(const AttentionResult& result, std::int64_t first, const Tensor& output, const Tensor& logsumexp) {
  const std::int64_t end = first + logsumexp.size(2);
  result.output.slice(2, first, end).copy_from(output);
  result.logsumexp.slice(2, first, end).copy_from(logsumexp);
}

// Every query gets all its keys at once.
AttentionResult forward_of_whole_rows(const SequenceCall& call) {
  const WholeKeys keys = gather_keys(call, call.whole.key, call.whole.value);
  AttentionResult result = empty_result(call.whole);
  for (const SequencePiece& piece : cut_pieces(call.queries.of(call.rank()), {{0, call.keys.length()}})) {
    const AttentionResult part = attention_forward(whole_rows_problem(call, keys.key, keys.value, piece));
    write_rows(result, piece.first_query, part.output, part.logsumexp);
    const std::int64_t end = piece.first_query + piece.queries.size();
    if (part.weights.defined()) result.weights.slice(-2, piece.first_query, end).copy_from(part.weights);
  }
  return result;
}

AttentionResult forward_of_parts(const SequenceCall& call) {
  const std::vector<TokenRange>& queries = call.queries.of(call.rank());
  std::vector<RangeResult> sums(queries.size());
  std::int64_t row = 0;
  // A sink is one more score without a value: it enters as a result over no keys.
  for (std::size_t i = 0; i < queries.size() && !call.whole.sinks.empty(); ++i) {
    join_piece(sums[i], compute_piece(keyless_problem(call.whole, row, queries[i].size())));
    row += queries[i].size();
  }
  for (KeyRing ring(call, call.whole.key, call.whole.value); ring.is_open(); ring.advance()) {
    ring.start_next();
    if (!ring.is_needed()) continue;
    for (const SequencePiece& piece : cut_pieces(queries, call.keys.of(ring.owner()))) {
      if (!has_visible_scores(call.whole, piece)) continue;
      join_piece(sums[piece.query_range], compute_piece(piece_problem(call.whole, ring.key(), ring.value(), piece)));
      ring.poll();
    }
  }
  AttentionResult result = empty_result(call.whole);
  row = 0;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    if (!sums[i].output.defined()) {
      join_piece(sums[i], compute_piece(keyless_problem(call.whole, row, queries[i].size())));
    }
    write_rows(result, row, sums[i].output, sums[i].logsumexp);
    row += queries[i].size();
  }
  return result;
}

// Whether next to some log-sum-exp the logarithm of a row's sum is lost.
bool has_large_rows(const Tensor& logsumexp) {
  constexpr double kLarge = 1024;
  const std::vector<double> values = logsumexp.to_vector();
  return std::any_of(values.begin(), values.end(),
                     [](double value) { return std::abs(value) >= kLarge && std::isfinite(value); });
}

}  // namespace

DType sums_dtype(const AttentionProblem& problem) {
  return problem.query.dtype() == DType::float64 ? DType::float64 : DType::float32;
}

DType piece_dtype(const AttentionProblem& problem) {
  return backend_of(problem.query).writes_attention_sums() ? sums_dtype(problem) : problem.query.dtype();
}

AttentionProblem whole_rows_problem(const SequenceCall& call, const Tensor& key, const Tensor& value,
                                    const SequencePiece& piece) {
  AttentionProblem problem = piece_problem(call.whole, key, value, piece);
  problem.sinks = call.whole.sinks;
  problem.weights = call.whole.weights;
  problem.part_of_keys = false;
  return problem;
}

WholeKeys gather_keys(const SequenceCall& call, const Tensor& key, const Tensor& value) {
  const auto whole_of = [&](const Tensor& share) {
    return Tensor::empty({share.size(0), share.size(1), call.keys.length(), share.size(3)}, share.dtype(),
                         share.device());
  };
  WholeKeys whole = {whole_of(key), whole_of(value)};
  for (KeyRing ring(call, key, value); ring.is_open(); ring.advance()) {
    ring.start_next();
    if (!ring.key().defined()) continue;
    std::int64_t row = 0;
    for (const TokenRange& range : call.keys.of(ring.owner())) {
      whole.key.slice(2, range.begin, range.end).copy_from(ring.key().slice(2, row, row + range.size()));
      whole.value.slice(2, range.begin, range.end).copy_from(ring.value().slice(2, row, row + range.size()));
      row += range.size();
    }
  }
  return whole;
}

AttentionResult ring_forward(SequenceCall& call) {
  if (call.has_whole_rows) return forward_of_whole_rows(call);
  const AttentionResult result = forward_of_parts(call);
  if (!call.whole.bias.defined()) return result;
  call.has_whole_rows = call.ranks.all_reduce(has_large_rows(result.logsumexp) ? 1.0 : 0.0, Reduce::max) > 0;
  return call.has_whole_rows ? forward_of_whole_rows(call) : result;
}

}  // namespace headway::inline v0::internal
