// How one call of attention is laid out for the kernels: the heads' rows, their score rules, and the packed keys.
#pragma once

#include <vector>

#include "backend/attention_problem.h"
#include "cpu/kernels/attention.h"

namespace headway::inline v0::internal::cpu {

// (length, dim) of one head of a [batch, heads, length, dim] tensor, from a row on.
Rows rows_of(const Tensor& tensor, std::int64_t batch, std::int64_t head, std::int64_t first_row);

// The score rules of all (sequence, head), in that order.
std::vector<ScoreRule> make_rules(const AttentionProblem& problem);

// The kernels' name for what the weights are.
WeightsKind weights_kind(WeightsOf of);

// Whether any row needs RowReferences; logsumexp: [batch, heads, query_length], float32 or float64.
bool has_large_logsumexp(const Tensor& logsumexp);

// Scores that a rule lets queries [begin, end) see: the work of a task, up to a factor.
std::int64_t visible_scores(const ScoreRule& rule, std::int64_t begin, std::int64_t end);

}  // namespace headway::inline v0::internal::cpu
