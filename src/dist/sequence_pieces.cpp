#include "dist/sequence_pieces.h"

#include <algorithm>

namespace headway::inline v0::internal {
namespace {

// The part of a sequence that lies in a piece, with its places counted from the piece's first query and key.
Sequence cut_sequence(const Sequence& whole, const SequencePiece& piece) {
  const auto clamp_to = [](const TokenRange& range, std::int64_t position) {
    return std::clamp(position, range.begin, range.end);
  };
  const std::int64_t query = clamp_to(piece.queries, whole.query_begin), key = clamp_to(piece.keys, whole.key_begin);
  Sequence part = whole;
  part.query_begin = query - piece.queries.begin;
  part.query_length = clamp_to(piece.queries, whole.query_begin + whole.query_length) - query;
  part.key_begin = key - piece.keys.begin;
  part.key_length = clamp_to(piece.keys, whole.key_begin + whole.key_length) - key;
  part.key_count = clamp_to(piece.keys, whole.key_begin + whole.key_count) - key;
  part.first_row = whole.first_row + query - whole.query_begin;
  part.first_column = whole.first_column + key - whole.key_begin;
  part.query_offset = whole.query_offset + (query - whole.query_begin) - (key - whole.key_begin);
  return part;
}

// The keys that a query sees.
TokenRange seen_keys(const AttentionProblem& whole, const Sequence& s, std::int64_t query) {
  const std::int64_t position = query + s.query_offset;
  const std::int64_t begin = whole.left ? std::clamp<std::int64_t>(position - *whole.left, 0, s.key_count) : 0;
  const std::int64_t end =
      whole.right ? std::clamp<std::int64_t>(position + *whole.right + 1, begin, s.key_count) : s.key_count;
  return {begin, end};
}

// The ranges of keys that neighbouring queries see move by one key: together they are one range.
bool sees_any_key(const AttentionProblem& whole, const Sequence& s) {
  if (s.query_length == 0 || s.key_count == 0) return false;
  const bool before_end = !whole.left || s.query_offset - *whole.left < s.key_count;
  const bool past_begin = !whole.right || s.query_length - 1 + s.query_offset + *whole.right >= 0;
  return before_end && past_begin;
}

// The first sequence of a packed batch that ends past the piece's first query.
std::vector<Sequence>::const_iterator first_sequence(const AttentionProblem& whole, const SequencePiece& piece) {
  if (!whole.packed) return whole.sequences.begin();
  return std::partition_point(whole.sequences.begin(), whole.sequences.end(),
                              [&](const Sequence& s) { return s.query_begin + s.query_length <= piece.queries.begin; });
}

// Calls visit(the part of it in the piece) for every sequence with queries there, until it returns true.
template <typename Visit>
bool any_sequence(const AttentionProblem& whole, const SequencePiece& piece, const Visit& visit) {
  for (auto s = first_sequence(whole, piece); s != whole.sequences.end(); ++s) {
    if (s->query_begin >= piece.queries.end) break;
    if (visit(cut_sequence(*s, piece))) return true;
  }
  return false;
}

Tensor rows_and_columns(const Tensor& plane, std::int64_t first_row, std::int64_t rows, const TokenRange& columns) {
  if (!plane.defined()) return {};
  return plane.slice(2, first_row, first_row + rows).slice(3, columns.begin, columns.end);
}

}  // namespace

std::vector<SequencePiece> cut_pieces(const std::vector<TokenRange>& queries, const std::vector<TokenRange>& keys) {
  std::vector<SequencePiece> pieces;
  std::int64_t query = 0;
  for (std::size_t q = 0; q < queries.size(); ++q) {
    std::int64_t key = 0;
    for (std::size_t k = 0; k < keys.size(); ++k) {
      pieces.push_back({queries[q], keys[k], query, key, q, k});
      key += keys[k].size();
    }
    query += queries[q].size();
  }
  return pieces;
}

bool has_visible_scores(const AttentionProblem& whole, const SequencePiece& piece) {
  return any_sequence(whole, piece, [&](const Sequence& s) { return sees_any_key(whole, s); });
}

std::int64_t count_visible_scores(const AttentionProblem& whole, const SequencePiece& piece) {
  std::int64_t count = 0;
  any_sequence(whole, piece, [&](const Sequence& s) {
    for (std::int64_t q = 0; q < s.query_length; ++q) count += seen_keys(whole, s, q).size();
    return false;
  });
  return count;
}

std::int64_t count_rank_scores(const AttentionProblem& whole, const SequenceShares& queries, int rank) {
  std::int64_t count = 0;
  for (const SequencePiece& piece : cut_pieces(queries.of(rank), {{0, whole.key_length}})) {
    count += count_visible_scores(whole, piece);
  }
  return count * whole.heads;
}

AttentionProblem piece_problem(const AttentionProblem& whole, const Tensor& key, const Tensor& value,
                               const SequencePiece& piece) {
  AttentionProblem problem = whole;
  problem.query_length = piece.queries.size();
  problem.key_length = piece.keys.size();
  problem.query = whole.query.slice(2, piece.first_query, piece.first_query + problem.query_length);
  problem.key = key.slice(2, piece.first_key, piece.first_key + problem.key_length);
  problem.value = value.slice(2, piece.first_key, piece.first_key + problem.key_length);
  problem.mask = rows_and_columns(whole.mask, piece.first_query, problem.query_length, piece.keys);
  problem.bias = rows_and_columns(whole.bias, piece.first_query, problem.query_length, piece.keys);
  problem.sinks.clear();
  problem.weights = Weights::none;
  problem.part_of_keys = true;
  for (Sequence& sequence : problem.sequences) sequence = cut_sequence(sequence, piece);
  return problem;
}

AttentionProblem keyless_problem(const AttentionProblem& whole, std::int64_t first_query, std::int64_t queries) {
  AttentionProblem problem = whole;
  problem.query_length = queries;
  problem.key_length = 0;
  problem.query = whole.query.slice(2, first_query, first_query + queries);
  problem.key = whole.key.slice(2, 0, 0);
  problem.value = whole.value.slice(2, 0, 0);
  problem.mask = problem.bias = Tensor();
  problem.alibi_slopes.clear();
  problem.dropout = {};
  problem.weights = Weights::none;
  problem.part_of_keys = true;
  problem.packed = false;
  problem.sequences.clear();
  for (std::int64_t b = 0; b < problem.batch; ++b) problem.sequences.push_back({.batch = b, .query_length = queries});
  return problem;
}

}  // namespace headway::inline v0::internal
