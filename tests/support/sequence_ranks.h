// A case of the list computed by ranks that each hold a share of the tokens, and put together again.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "headway/autograd.h"
#include "headway/communicator.h"
#include "headway/ops.h"
#include "headway/sequence_parallel.h"
#include "support/cases.h"
#include "support/reference.h"

namespace headway_test {

using headway::AttentionGradients;
using headway::AttentionOptions;
using headway::Communicator;
using headway::SequenceLayout;
using headway::SequenceMethod;
using headway::SequenceParallelOptions;
using headway::SequenceShares;
using headway::Shape;
using headway::TokenRange;

// How a case is cut.
struct Cut {
  int ranks = 2;
  SequenceParallelOptions parallel = {};
  SequenceShares queries = {};
  SequenceShares keys = {};
};

// Shares as the layout gives them, without being told.
inline Cut cut_evenly(const AttentionBackward& p, int ranks, SequenceLayout layout, SequenceMethod method) {
  Cut cut = {.ranks = ranks, .parallel = {.layout = layout, .method = method}};
  cut.queries = SequenceShares(p.query.size(2), ranks, layout);
  cut.keys = SequenceShares(p.key.size(2), ranks, layout);
  return cut;
}

// A mask or bias whose second dimension from the end is that of the queries, or of size 1.
inline Tensor rows_of_rank(const Tensor& plane, bool has_rows, const SequenceShares& queries, int rank) {
  if (!plane.defined() || !has_rows) return plane;
  return queries.take(plane, rank, plane.rank() - 2);
}

// Everything that a rank passes: leaves that require gradients, and its rows of masks and gradients.
inline AttentionBackward share_of_rank(const Case& c, const AttentionBackward& p, const Cut& cut, int rank) {
  AttentionBackward share = p;
  const auto leaf = [](const Tensor& tensor) { return tensor.clone().set_requires_grad(); };
  const auto laid_out = [&](const Tensor& tensor) { return with_layout(tensor, c.layout).set_requires_grad(); };
  share.query = laid_out(cut.queries.take(p.query, rank, 2));
  share.key = laid_out(cut.keys.take(p.key, rank, 2));
  share.value = laid_out(cut.keys.take(p.value, rank, 2));
  const Tensor mask = rows_of_rank(p.options.mask.tensor(), c.mask_extent != Extent::batch_key, cut.queries, rank);
  if (mask.defined()) share.options.mask = p.options.mask.true_keeps() ? Mask::keep(mask) : Mask::drop(mask);
  share.options.bias = rows_of_rank(p.options.bias, c.bias_extent != Extent::batch_key, cut.queries, rank);
  if (share.options.bias.defined() && c.bias_gradient) share.options.bias = leaf(share.options.bias);
  if (share.options.sinks.defined()) share.options.sinks = leaf(share.options.sinks);
  if (p.d_output.defined()) share.d_output = cut.queries.take(p.d_output, rank, 2);
  if (p.d_logsumexp.defined()) share.d_logsumexp = cut.queries.take(p.d_logsumexp, rank, 2);
  if (p.d_weights.defined()) share.d_weights = cut.queries.take(p.d_weights, rank, p.d_weights.rank() - 2);
  return share;
}

// Backward through all outputs that have a gradient, in one pass.
inline void backward_of(const AttentionBackward& share, const AttentionResult& result) {
  Tensor loss;
  const auto add_term = [&](const Tensor& output, const Tensor& d_output) {
    if (!d_output.defined()) return;
    const Tensor term = headway::sum(headway::mul(output.to(DType::float64), d_output.to(DType::float64)));
    loss = loss.defined() ? headway::add(loss, term) : term;
  };
  add_term(result.output, share.d_output);
  add_term(result.logsumexp, share.d_logsumexp);
  add_term(result.weights, share.d_weights);
  if (loss.defined()) loss.backward();
}

// What all ranks found, as one rank would have it.
struct WholeResult {
  AttentionResult forward;
  AttentionGradients gradients;
};

// Rows of a rank's share into the whole.
inline void place_rows(Tensor& whole, const Tensor& share, const Shape& shape, int dim, const SequenceShares& shares,
                       int rank) {
  if (!share.defined()) return;
  if (!whole.defined()) whole = Tensor::zeros(shape, share.dtype());
  std::int64_t row = 0;
  for (const TokenRange& range : shares.of(rank)) {
    whole.slice(dim, range.begin, range.end).copy_from(share.slice(dim, row, row + range.size()).to(DType::float64));
    row += range.size();
  }
}

inline void add_part(Tensor& sum, const Tensor& part) {
  if (!part.defined()) return;
  sum = sum.defined() ? headway::add(sum, part.to(DType::float64)) : part.to(DType::float64);
}

// The shares of all ranks joined, entry r being rank r's.
inline WholeResult join_ranks(const Case& c, const AttentionBackward& p, const Cut& cut,
                              const std::vector<AttentionBackward>& shares) {
  const headway::NoGradGuard guard;
  WholeResult whole;
  const Shape output = {p.query.size(0), p.query.size(1), p.query.size(2), p.value.size(3)};
  for (int rank = 0; rank < cut.ranks; ++rank) {
    const AttentionBackward& share = shares[static_cast<std::size_t>(rank)];
    const AttentionResult& r = share.forward;
    place_rows(whole.forward.output, r.output, output, 2, cut.queries, rank);
    place_rows(whole.forward.logsumexp, r.logsumexp, {output[0], output[1], output[2]}, 2, cut.queries, rank);
    const bool mean = p.options.weights == Weights::mean;
    const Shape weights =
        mean ? Shape{output[0], output[2], p.key.size(2)} : Shape{output[0], output[1], output[2], p.key.size(2)};
    place_rows(whole.forward.weights, r.weights, weights, mean ? 1 : 2, cut.queries, rank);
    AttentionGradients& g = whole.gradients;
    place_rows(g.query, share.query.grad(), p.query.shape(), 2, cut.queries, rank);
    place_rows(g.key, share.key.grad(), p.key.shape(), 2, cut.keys, rank);
    place_rows(g.value, share.value.grad(), p.value.shape(), 2, cut.keys, rank);
    if (share.options.sinks.defined()) add_part(g.sinks, share.options.sinks.grad());
    if (!share.options.bias.defined() || !c.bias_gradient) continue;
    if (c.bias_extent == Extent::batch_key) {
      add_part(g.bias, share.options.bias.grad());
    } else {
      place_rows(g.bias, share.options.bias.grad(), p.options.bias.shape(), p.options.bias.rank() - 2, cut.queries,
                 rank);
    }
  }
  return whole;
}

// Moves everything of a rank to a device: inputs, leaves that require gradients, and gradients of the results.
inline void move_share(AttentionBackward& share, headway::Device device) {
  const auto move = [&](Tensor& tensor) {
    if (!tensor.defined() || tensor.device() == device) return;
    Tensor there = tensor.detach().to(device);
    if (tensor.requires_grad() && tensor.is_leaf()) there.set_requires_grad();
    if (tensor.requires_grad() && tensor.is_leaf() && tensor.grad().defined()) there.set_grad(tensor.grad().to(device));
    tensor = there;
  };
  AttentionResult& forward = share.forward;
  for (Tensor* tensor :
       {&share.query, &share.key, &share.value, &share.options.bias, &share.options.sinks, &share.d_output,
        &share.d_weights, &share.d_logsumexp, &forward.output, &forward.logsumexp, &forward.weights}) {
    move(*tensor);
  }
}

// What one of the ranks has of the case, forward and backward.
inline AttentionBackward share_over_ranks(const Case& c, const AttentionBackward& p, const Cut& cut,
                                          const Communicator& ranks, headway::Device device = headway::Device::cpu()) {
  AttentionBackward share = share_of_rank(c, p, cut, ranks.rank());
  move_share(share, device);
  share.forward = headway::sequence_attention(share.query, share.key, share.value, share.options, ranks, cut.parallel);
  backward_of(share, share.forward);
  move_share(share, headway::Device::cpu());
  return share;
}

// The case over ranks, forward and backward.
inline WholeResult over_ranks(const Case& c, const AttentionBackward& p, const Cut& cut,
                              headway::Device device = headway::Device::cpu()) {
  std::vector<AttentionBackward> shares(static_cast<std::size_t>(cut.ranks));
  headway::run_ranks(cut.ranks, [&](const Communicator& ranks) {
    shares[static_cast<std::size_t>(ranks.rank())] = share_over_ranks(c, p, cut, ranks, device);
  });
  return join_ranks(c, p, cut, shares);
}

// Calls expect(name, comparison) for everything that a case has.
inline void compare_all(const Case& c, const AttentionBackward& p, const WholeResult& whole,
                        const std::function<void(const std::string&, const Comparison&)>& expect) {
  const DType arithmetic = c.dtype == DType::float64 ? DType::float64 : DType::float32;
  ForwardSpread spread;
  const ForwardValues exact = reference_forward(p, &spread), naive = naive_forward(p);
  const double score = spread.score, logsumexp = spread.logsumexp;
  const AttentionResult& r = whole.forward;
  expect("output", compare(r.output, exact.output, naive.output, {c.dtype, spread.output, score}));
  expect("logsumexp", compare(r.logsumexp, exact.logsumexp, naive.logsumexp, {arithmetic, 1, score}));
  EXPECT_EQ(r.weights.defined(), c.weights != Weights::none);
  if (r.weights.defined()) {
    expect("weights", compare(r.weights, exact.weights, naive.weights, {c.dtype, 0, score, logsumexp}));
  }
  if (!c.d_output && !c.d_weights && !c.d_logsumexp) return;
  GradientSpread gradient;
  const GradientValues right = reference_backward(p, &gradient), rough = naive_backward(p);
  const AttentionGradients& g = whole.gradients;
  expect("query", compare(g.query, right.query, rough.query, {c.dtype, gradient.query, score, logsumexp}));
  expect("key", compare(g.key, right.key, rough.key, {c.dtype, gradient.key, score, logsumexp}));
  expect("value", compare(g.value, right.value, rough.value, {c.dtype, gradient.value, score, logsumexp}));
  EXPECT_EQ(g.bias.defined(), c.bias && c.bias_gradient);
  if (g.bias.defined()) {
    const DType coarser = c.dtype == DType::float64 ? p.options.bias.dtype() : c.dtype;
    expect("bias", compare(g.bias, right.bias, rough.bias, {coarser, gradient.bias, score, logsumexp}));
  }
  EXPECT_EQ(g.sinks.defined(), c.sinks);
  if (g.sinks.defined()) {
    expect("sinks", compare(g.sinks, right.sinks, rough.sinks, {c.dtype, gradient.sinks, score, logsumexp}));
  }
}

inline bool divides(const Case& c, int ranks) {
  return c.heads % ranks == 0 && (c.kv_heads % ranks == 0 || ranks % c.kv_heads == 0);
}

// Cases take turns with the number of ranks and the layout: calls check(how, result) for the ring, and for Ulysses
// where the heads divide.
inline void run_case(const Case& c, const AttentionBackward& p, headway::Device device,
                     const std::function<void(const std::string&, const WholeResult&)>& check) {
  const int ranks = 1 + static_cast<int>((c.seed / 2) % 8);
  const SequenceLayout layout = c.seed % 2 == 0 ? SequenceLayout::zigzag : SequenceLayout::contiguous;
  check("ring ", over_ranks(c, p, cut_evenly(p, ranks, layout, SequenceMethod::ring), device));
  for (const int count : {6, 4, 3, 2}) {
    if (!divides(c, count)) continue;
    check("ulysses ", over_ranks(c, p, cut_evenly(p, count, layout, SequenceMethod::ulysses), device));
    break;
  }
}

// Every n-th case of the list on a device, which may have rounded the pieces.
inline void expect_cases_on_device(std::size_t step) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const std::vector<Case> cases = all_cases();
  for (std::size_t i = 0; i < cases.size(); i += step) {
    const Case& c = cases[i];
    SCOPED_TRACE(describe(c));
    const AttentionBackward p = build(c);
    run_case(c, p, headway::Device::cuda(), [&](const std::string& how, const WholeResult& whole) {
      compare_all(c, p, whole, [&](const std::string& what, const Comparison& found) {
        EXPECT_LE(found.error, 2 * found.bound) << how << what << ": " << found.worst;
      });
    });
  }
}

}  // namespace headway_test
