// One call of attention over ranks: agreed on by all of them, checked, and complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/attention_problem.h"
#include "headway/sequence_parallel.h"

namespace headway::inline v0::internal {

struct SequenceCall {
  Communicator ranks;
  SequenceShares queries;
  SequenceShares keys;
  // Tensors are this rank's; mask and bias have its rows and all keys, the sequences are those of the whole, key_length
  // too.
  AttentionProblem whole;
  bool by_ulysses = false;
  // Whether each query gets all its keys at once, in place of parts that are joined: with returned weights, and where a
  // bias makes scores so large that a log-sum-exp of a part would not tell how many keys it is of.
  bool has_whole_rows = false;
  // Whether the ranks' masks and biases have a row for each query, so that they must travel with the queries.
  bool mask_has_rows = false;
  bool bias_has_rows = false;

  int rank() const { return ranks.rank(); }
  int size() const { return ranks.size(); }
};

// Brings the ranks together in one exchange of a line for each option. Throws the same Error on every rank where an
// argument is wrong on one of them, or where they differ; it names the argument and the rank.
SequenceCall make_sequence_call(std::string_view function, const Tensor& query, const Tensor& key, const Tensor& value,
                                const AttentionOptions& options, const Communicator& ranks,
                                const SequenceParallelOptions& parallel);

// What a rank says about its arguments: "name\tvalue\n" for what must be the same everywhere, then "#name\tnumber\n"
// for what need not.
std::string describe_arguments(std::string_view function, const Tensor& query, const Tensor& key, const Tensor& value,
                               const AttentionOptions& options, const SequenceParallelOptions& parallel);

// Whether every rank can have its own heads: they divide, and those of a rank share whole heads of keys.
bool heads_divide(const AttentionProblem& problem, int ranks);

// The bytes that all ranks together send in the forward, beside the exchange of make_sequence_call(); the backward of
// the ring sends twice as many.
//   ring: for every share of keys the number of ranks after its own up to the last that sees any of it, times the bytes
//   of its keys and values. Without limits that is (ranks - 1) * bytes(all keys and values).
std::int64_t ring_bytes(const SequenceCall& call);
//   ulysses: (ranks - 1) / ranks of the bytes of all queries, outputs and log-sum-exps, of keys and values (times
//   ranks / kv_heads where there are fewer heads of them than ranks), of returned weights, of masks and biases with
//   rows.
std::int64_t ulysses_bytes(const SequenceCall& call);

// Whether a rank's queries see any key of another rank's share; always where they need whole rows.
bool needs_share(const SequenceCall& call, int rank, int owner);
// How far a share travels: the distance from its rank to the last one that needs it.
int share_hops(const SequenceCall& call, int owner);

}  // namespace headway::inline v0::internal
