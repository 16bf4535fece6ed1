// Attention over ranks, over the whole list of cases: ring and Ulysses, forward and gradients, as near to the reference
// as one rank.
#include <gtest/gtest.h>

#include "support/reference_suite.h"
#include "support/sequence_ranks.h"

namespace headway_test {
namespace {

// Calls expect(name, comparison) for everything that a case has.
void compare_all(const Case& c, const AttentionBackward& p, const WholeResult& whole,
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

bool divides(const Case& c, int ranks) {
  return c.heads % ranks == 0 && (c.kv_heads % ranks == 0 || ranks % c.kv_heads == 0);
}

// Cases take turns with the number of ranks and the layout: calls check(how, result) for the ring, and for Ulysses
// where the heads divide.
void run_case(const Case& c, const AttentionBackward& p, headway::Device device,
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

class SequenceRanks : public ReferenceSuite {};

TEST_P(SequenceRanks, MatchTheReference) {
  const AttentionBackward p = build(GetParam());
  run_case(GetParam(), p, headway::Device::cpu(), [&](const std::string& how, const WholeResult& whole) {
    compare_all(GetParam(), p, whole,
                [&](const std::string& what, const Comparison& found) { expect(how + what, found); });
  });
}

// Every third case, whose pieces a device may have rounded.
TEST(SequenceRanksDevice, MatchTheReference) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const std::vector<Case> cases = all_cases();
  for (std::size_t i = 0; i < cases.size(); i += 3) {
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

INSTANTIATE_TEST_SUITE_P(List, SequenceRanks, testing::ValuesIn(all_cases()), name_of_case);

}  // namespace
}  // namespace headway_test
