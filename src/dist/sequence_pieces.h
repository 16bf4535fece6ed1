// A sequence that is cut over ranks, as pieces: some queries of one rank against some keys of another.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/attention_problem.h"
#include "headway/sequence_parallel.h"

namespace headway::inline v0::internal {

// Neighbouring queries against neighbouring keys.
struct SequencePiece {
  TokenRange queries;            // positions in the whole sequence
  TokenRange keys;               // likewise
  std::int64_t first_query = 0;  // row in the tensors of the queries' rank
  std::int64_t first_key = 0;    // row in the tensors of the keys' rank
  std::size_t query_range = 0;   // number among the ranges of the queries' rank
  std::size_t key_range = 0;     // number among the ranges of the keys' rank
};

// All pieces of some queries and some keys; those of one range of queries follow each other.
std::vector<SequencePiece> cut_pieces(const std::vector<TokenRange>& queries, const std::vector<TokenRange>& keys);

// Of a problem whose sequences are those of the whole: whether a query of the piece sees one of its keys, by causality,
// window, lengths and the borders of packed sequences. What a mask or a bias hides is not looked at.
bool has_visible_scores(const AttentionProblem& whole, const SequencePiece& piece);

// How many scores of one head those let the piece's queries see: its work, up to a factor.
std::int64_t count_visible_scores(const AttentionProblem& whole, const SequencePiece& piece);

// The scores that a rank computes: those of its queries and all keys, times the heads.
std::int64_t count_rank_scores(const AttentionProblem& whole, const SequenceShares& queries, int rank);

// The piece as a problem of its own. whole: the tensors of the queries' rank, mask and bias with all keys, sequences of
// the whole; key and value: those of the keys' rank. It has no sinks and asks for no weights.
AttentionProblem piece_problem(const AttentionProblem& whole, const Tensor& key, const Tensor& value,
                               const SequencePiece& piece);

// Some rows of the queries without any key: their output is zero, their log-sum-exp that of the sinks.
AttentionProblem keyless_problem(const AttentionProblem& whole, std::int64_t first_query, std::int64_t queries);

}  // namespace headway::inline v0::internal
