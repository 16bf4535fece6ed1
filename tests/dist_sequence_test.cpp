// Attention over ranks beside the list of cases: shares, dropout's bits, edges, errors, bytes, balance.
#include <gtest/gtest.h>

#include <mutex>

#include "dist/sequence_call.h"
#include "dist/sequence_pieces.h"
#include "headway/headway.h"
#include "ops/attention_checks.h"
#include "support/bits.h"
#include "support/message_of.h"
#include "support/sequence_ranks.h"

namespace headway_test {
namespace {

using headway::run_ranks;
using headway::internal::SequenceCall;

// ---- shares ----

TEST(SequenceShares, ZigzagPairsTheFirstPartWithTheLast) {
  const SequenceShares shares(16, 2, SequenceLayout::zigzag);
  EXPECT_EQ(shares.of(0), (std::vector<TokenRange>{{0, 4}, {12, 16}}));
  EXPECT_EQ(shares.of(1), (std::vector<TokenRange>{{4, 12}}));
  EXPECT_EQ(shares.size(0), 8);
  EXPECT_EQ(shares.positions(0).to_vector(), (std::vector<double>{0, 1, 2, 3, 12, 13, 14, 15}));
}

TEST(SequenceShares, AreEvenInMultiples) {
  const SequenceShares shares(50, 3, SequenceLayout::contiguous, 16);
  EXPECT_EQ(shares.of(0), (std::vector<TokenRange>{{0, 32}}));
  EXPECT_EQ(shares.of(1), (std::vector<TokenRange>{{32, 48}}));
  EXPECT_EQ(shares.of(2), (std::vector<TokenRange>{{48, 50}}));
  const SequenceShares few(2, 4, SequenceLayout::contiguous);
  EXPECT_EQ(few.size(3), 0);
  EXPECT_EQ(few.length(), 2);
}

TEST(SequenceShares, RefuseGapsAndOverlaps) {
  EXPECT_EQ(message_of([] { SequenceShares({{{0, 3}}, {{4, 6}}}); }), "SequenceShares: no rank holds token 3");
  EXPECT_EQ(message_of([] {
              SequenceShares({{{0, 3}}, {{2, 6}}});
            }),
            "SequenceShares: token 2 is held twice, once by rank 1");
  EXPECT_EQ(message_of([] {
              SequenceShares({{{3, 0}}});
            }),
            "SequenceShares: rank 0 has the range 3 to 0, expected 0 <= begin <= end");
  EXPECT_EQ(message_of([] { SequenceShares(-1, 2); }), "SequenceShares: length is -1, expected 0 or more");
  EXPECT_EQ(message_of([] { SequenceShares(4, 0); }), "SequenceShares: ranks is 0, expected 1 or more");
  EXPECT_EQ(message_of([] {
              SequenceShares(4, 2).take(Tensor::zeros({2, 3}), 0, 1);
            }),
            "SequenceShares::take: the tensor is float32[2, 3], expected 4 tokens in dimension 1");
}

TEST(SequenceShares, GatherUndoesTake) {
  const Tensor whole = Tensor::randn({2, 11, 3}, 5, DType::bfloat16);
  run_ranks(3, [&](const Communicator& ranks) {
    const SequenceShares shares(11, 3);
    EXPECT_TRUE(same_bits(shares.gather(shares.take(whole, ranks.rank(), 1), 1, ranks), whole));
  });
}

// ---- cuts of every kind ----

// One rank's results as the whole.
WholeResult one_rank(const Case& c, const AttentionBackward& p) {
  Cut cut = cut_evenly(p, 1, SequenceLayout::contiguous, SequenceMethod::automatic);
  return over_ranks(c, p, cut);
}

void expect_near(const WholeResult& actual, const WholeResult& expected, double tolerance) {
  EXPECT_TRUE(near(actual.forward.output, expected.forward.output, tolerance));
  EXPECT_TRUE(near(actual.forward.logsumexp, expected.forward.logsumexp, tolerance));
  EXPECT_TRUE(near(actual.forward.weights, expected.forward.weights, tolerance));
  EXPECT_TRUE(near(actual.gradients.query, expected.gradients.query, tolerance));
  EXPECT_TRUE(near(actual.gradients.key, expected.gradients.key, tolerance));
  EXPECT_TRUE(near(actual.gradients.value, expected.gradients.value, tolerance));
  EXPECT_TRUE(near(actual.gradients.bias, expected.gradients.bias, tolerance));
  EXPECT_TRUE(near(actual.gradients.sinks, expected.gradients.sinks, tolerance));
}

Case rich_case() {
  Case c = sized(DType::float64, 2, 8, {.queries = 41, .keys = 53, .head_dim = 6, .value_dim = 5});
  c.kv_heads = 4;
  c.causal = Causal::bottom_right;
  c.bias = true;
  c.sinks = true;
  c.dropout = 0.3;
  c.d_logsumexp = true;
  return c;
}

class EveryCount : public testing::TestWithParam<int> {};

TEST_P(EveryCount, RingAndUlyssesInBothLayouts) {
  const Case c = rich_case();
  const AttentionBackward p = build(c);
  const WholeResult expected = one_rank(c, p);
  for (const SequenceLayout layout : {SequenceLayout::contiguous, SequenceLayout::zigzag}) {
    expect_near(over_ranks(c, p, cut_evenly(p, GetParam(), layout, SequenceMethod::ring)), expected, 1e-12);
    expect_near(over_ranks(c, p, cut_evenly(p, GetParam(), layout, SequenceMethod::automatic)), expected, 1e-12);
    if (8 % GetParam() != 0) continue;
    expect_near(over_ranks(c, p, cut_evenly(p, GetParam(), layout, SequenceMethod::ulysses)), expected, 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryCount, testing::Range(1, 9));

TEST(SequenceAttention, TakesUnevenAndEmptySharesInAnyOrder) {
  Case c = rich_case();
  c.weights = Weights::mean;
  c.d_weights = true;
  for (const Weights weights : {Weights::none, Weights::mean}) {
    c.weights = weights;
    c.d_weights = weights != Weights::none;
    const AttentionBackward p = build(c);
    Cut cut = {.ranks = 4};
    cut.queries = SequenceShares({{{30, 41}, {0, 2}}, {}, {{2, 29}}, {{29, 30}}});
    cut.keys = SequenceShares({{}, {{17, 53}}, {{1, 17}}, {{0, 1}}});
    for (const SequenceMethod method : {SequenceMethod::ring, SequenceMethod::ulysses}) {
      cut.parallel = {.query_shares = cut.queries, .key_shares = cut.keys, .method = method};
      expect_near(over_ranks(c, p, cut), one_rank(c, p), 1e-12);
    }
  }
}

TEST(SequenceAttention, TakesMoreRanksThanTokensAndNoTokens) {
  for (const std::int64_t queries : {0, 1, 3}) {
    for (const std::int64_t keys : {0, 2}) {
      Case c = sized(DType::float64, 1, 8, {.queries = queries, .keys = keys, .head_dim = 4, .value_dim = 4});
      c.sinks = true;
      const AttentionBackward p = build(c);
      const WholeResult expected = one_rank(c, p);
      for (const SequenceMethod method : {SequenceMethod::ring, SequenceMethod::ulysses}) {
        expect_near(over_ranks(c, p, cut_evenly(p, 8, SequenceLayout::zigzag, method)), expected, 1e-12);
      }
    }
  }
}

// A bias of -1e9 leaves a log-sum-exp that no longer tells the number of keys.
TEST(SequenceAttention, KeepsRowsOfHugeBiasExact) {
  Case c = sized(DType::float32, 1, 2, {.queries = 20, .keys = 20, .head_dim = 8, .value_dim = 8});
  c.bias = true;
  c.bias_extent = Extent::plain;
  AttentionBackward p = build(c);
  p.options.bias.slice(0, 4, 9).fill(-1e9);
  p.options.bias.slice(0, 15, 16).fill(3e4);
  const WholeResult expected = one_rank(c, p);
  expect_near(over_ranks(c, p, cut_evenly(p, 3, SequenceLayout::zigzag, SequenceMethod::ring)), expected, 1e-5);
  expect_near(over_ranks(c, p, cut_evenly(p, 2, SequenceLayout::zigzag, SequenceMethod::ulysses)), expected, 1e-5);
}

// ---- dropout ----

// Scores of zero and values that are the identity show in the output which weights were dropped.
TEST(SequenceAttention, DropsTheSameBitsAsOneRank) {
  constexpr std::int64_t kLength = 75;
  Case c = sized(DType::float32, 2, 6, {.queries = kLength, .keys = kLength, .head_dim = 4, .value_dim = kLength});
  c.dropout = 0.4;
  AttentionBackward p = build(c);
  p.query.fill(0);
  p.value.fill(0);
  for (std::int64_t i = 0; i < kLength; ++i) p.value.select(2, i).select(2, i).fill(1);
  const auto kept = [](const WholeResult& result) { return headway::gt(result.forward.output, 0.0); };
  const Tensor expected = kept(one_rank(c, p));
  // A share of zigzag begins at no multiple of 16.
  for (const int ranks : {2, 3, 6}) {
    for (const SequenceLayout layout : {SequenceLayout::contiguous, SequenceLayout::zigzag}) {
      EXPECT_TRUE(same_bits(kept(over_ranks(c, p, cut_evenly(p, ranks, layout, SequenceMethod::ring))), expected));
      EXPECT_TRUE(same_bits(kept(over_ranks(c, p, cut_evenly(p, ranks, layout, SequenceMethod::ulysses))), expected));
    }
  }
}

// ---- bits ----

TEST(SequenceAttention, HasTheSameBitsInEveryRun) {
  Case c = rich_case();
  c.dtype = DType::bfloat16;
  const AttentionBackward p = build(c);
  const Cut cut = cut_evenly(p, 4, SequenceLayout::zigzag, SequenceMethod::ring);
  const WholeResult first = over_ranks(c, p, cut), second = over_ranks(c, p, cut);
  EXPECT_TRUE(same_bits(first.forward.output, second.forward.output));
  EXPECT_TRUE(same_bits(first.gradients.query, second.gradients.query));
  EXPECT_TRUE(same_bits(first.gradients.key, second.gradients.key));
  EXPECT_TRUE(same_bits(first.gradients.value, second.gradients.value));
  EXPECT_TRUE(same_bits(first.gradients.bias, second.gradients.bias));
}

TEST(SequenceAttention, UlyssesHasTheBitsOfOneRank) {
  const Case c = rich_case();
  const AttentionBackward p = build(c);
  const AttentionResult expected = headway::attention(p.query, p.key, p.value, p.options);
  const WholeResult result = over_ranks(c, p, cut_evenly(p, 4, SequenceLayout::zigzag, SequenceMethod::ulysses));
  EXPECT_TRUE(same_bits(result.forward.output, expected.output));
  EXPECT_TRUE(same_bits(result.forward.logsumexp, expected.logsumexp));
}

// ---- errors: the same on every rank ----

// What every rank's call throws when rank 1 passes something else.
std::vector<std::string> messages_of_ranks(int count, const std::function<void(AttentionBackward&, int)>& change) {
  std::vector<std::string> messages(static_cast<std::size_t>(count));
  run_ranks(count, [&](const Communicator& ranks) {
    AttentionBackward p;
    p.query = p.key = p.value = Tensor::randn({1, 2, 4, 8}, 1);
    change(p, ranks.rank());
    messages[static_cast<std::size_t>(ranks.rank())] =
        message_of([&] { sequence_attention(p.query, p.key, p.value, p.options, ranks); });
    ranks.barrier();  // the ranks can go on together
  });
  return messages;
}

void expect_on_all_ranks(const std::string& message, const std::function<void(AttentionBackward&)>& change) {
  const auto messages = messages_of_ranks(3, [&](AttentionBackward& p, int rank) {
    if (rank == 1) change(p);
  });
  for (const std::string& found : messages) EXPECT_EQ(found, message);
}

TEST(SequenceAttention, NamesTheRankAndTheDifferenceOnEveryRank) {
  expect_on_all_ranks("sequence_attention: dropout differs: rank 1 has 0.25, rank 0 0",
                      [](AttentionBackward& p) { p.options.dropout = 0.25; });
  expect_on_all_ranks("sequence_attention: query's dtype differs: rank 1 has float64, rank 0 float32",
                      [](AttentionBackward& p) { p.query = p.query.to(DType::float64); });
  expect_on_all_ranks("sequence_attention: key's number of heads differs: rank 1 has 1, rank 0 2",
                      [](AttentionBackward& p) { p.key = p.key.slice(1, 0, 1); });
  expect_on_all_ranks("sequence_attention: causal differs: rank 1 has 1, rank 0 0",
                      [](AttentionBackward& p) { p.options.causal = Causal::top_left; });
  expect_on_all_ranks(
      "sequence_attention: which of query, key, value, bias and sinks require gradients differs: rank 1 has 10000, "
      "rank 0 00000",
      [](AttentionBackward& p) { p.query = p.query.clone().set_requires_grad(); });
  expect_on_all_ranks("sequence_attention: sinks differs: rank 1 has float32[2] 1 2 , rank 0 none",
                      [](AttentionBackward& p) {
                        p.options.sinks = Tensor::from({1.F, 2.F}, {2});
                      });
}

TEST(SequenceAttention, NamesAWrongArgumentOfOneRankOnEveryRank) {
  expect_on_all_ranks("rank 1: sequence_attention: value has length 3, expected the key's 4",
                      [](AttentionBackward& p) { p.value = p.value.slice(2, 0, 3); });
  expect_on_all_ranks(
      "rank 1: sequence_attention: key is not given, expected a tensor [batch, kv_heads, key_length, head_dim]",
      [](AttentionBackward& p) { p.key = Tensor(); });
  const auto messages = messages_of_ranks(2, [](AttentionBackward& p, int rank) {
    p.options.mask = Mask::keep(Tensor::full({rank == 1 ? 3 : 4, 8}, 1, DType::boolean));
  });
  for (const std::string& message : messages) {
    EXPECT_EQ(message,
              "rank 1: sequence_attention: mask has shape [3, 8], which does not broadcast to [batch, heads, "
              "query_length, key_length] = [1, 2, 4, 8]");
  }
}

TEST(SequenceAttention, ChecksWhatAllRanksAgreeOn) {
  const auto message_with = [](const std::function<void(AttentionBackward&)>& change) {
    const auto messages = messages_of_ranks(2, [&](AttentionBackward& p, int) { change(p); });
    EXPECT_EQ(messages[0], messages[1]);
    return messages[0];
  };
  EXPECT_EQ(message_with([](AttentionBackward& p) { p.options.key_lengths = 9; }),
            "sequence_attention: key_lengths[0] is 9, expected 0 to 8");
  EXPECT_EQ(message_with([](AttentionBackward& p) { p.options.dropout = 1; }),
            "sequence_attention: dropout is 1, expected at least 0 and below 1");
  EXPECT_EQ(message_with([](AttentionBackward& p) {
              p.options.cu_query_lengths = {0, 4};
              p.options.cu_key_lengths = {0, 4};
            }),
            "sequence_attention: cu_query_lengths ends at 4, expected 8, the rows of the tensor");
}

TEST(SequenceAttention, RefusesSharesThatDoNotFit) {
  run_ranks(2, [](const Communicator& ranks) {
    const Tensor x = Tensor::randn({1, 3, 4, 8}, 1);
    const auto message_with = [&](const SequenceParallelOptions& parallel) {
      return message_of([&] { sequence_attention(x, x, x, {}, ranks, parallel); });
    };
    EXPECT_EQ(message_with({.query_shares = SequenceShares(10, 2)}),
              "sequence_attention: query has 4 tokens on rank 0, expected 5, its share of 10");
    EXPECT_EQ(message_with({.key_shares = SequenceShares(12, 3)}),
              "sequence_attention: key_shares are of 3 ranks, expected 2");
    EXPECT_EQ(
        message_with({.method = SequenceMethod::ulysses}),
        "sequence_attention: method is ulysses, but 3 query heads and 3 key heads cannot be dealt out evenly to 2 "
        "ranks");
    EXPECT_EQ(message_of([&] { ring_attention(x, x, x, {}, ranks, {.method = SequenceMethod::ulysses}); }),
              "ring_attention: method is ulysses, expected ring");
  });
}

TEST(SequenceAttention, RefusesTensorsChangedBeforeTheBackward) {
  EXPECT_PRED2(contains, message_of([] {
                 run_ranks(2, [](const Communicator& ranks) {
                   Tensor x = Tensor::randn({1, 2, 4, 8}, 1).set_requires_grad();
                   const Tensor y = headway::scale(x, 2.0);
                   const AttentionResult result = ring_attention(y, y, y, {}, ranks);
                   {
                     const headway::NoGradGuard guard;
                     Tensor(y).fill(0);
                   }
                   headway::sum(result.output).backward();
                 });
               }),
               "ring_attention");
}

// ---- bytes and balance ----

struct Sent {
  std::int64_t forward = 0, backward = 0;  // of all ranks
  std::int64_t ring = 0, ulysses = 0;      // as the formulas have it
};

Sent count_sent(const Case& c, int count, SequenceLayout layout, SequenceMethod method) {
  Sent all;
  std::mutex mutex;
  const AttentionBackward p = build(c);
  const Cut cut = cut_evenly(p, count, layout, method);
  run_ranks(count, [&](const Communicator& ranks) {
    const AttentionBackward share = share_of_rank(c, p, cut, ranks.rank());
    const auto sent = [&] { return ranks.counts().bytes_sent; };
    const SequenceCall call = headway::internal::make_sequence_call("sequence_attention", share.query, share.key,
                                                                    share.value, share.options, ranks, cut.parallel);
    const std::int64_t agreement = sent();
    const AttentionResult result =
        sequence_attention(share.query, share.key, share.value, share.options, ranks, cut.parallel);
    const std::int64_t forward = sent() - 2 * agreement;
    backward_of(share, result);
    const std::lock_guard lock(mutex);
    all.forward += forward;
    all.backward += sent() - 2 * agreement - forward;
    all.ring = ring_bytes(call);
    all.ulysses = ulysses_bytes(call);
  });
  return all;
}

TEST(SequenceAttention, SendsWhatTheFormulasSay) {
  Case c = sized(DType::bfloat16, 2, 8, {.queries = 48, .keys = 48, .head_dim = 16, .value_dim = 8});
  c.kv_heads = 4;
  constexpr std::int64_t kShares = 2 * 4 * 48 * (16 + 8) * 2;  // the keys and values of all ranks
  for (const int count : {2, 4, 8}) {
    const Sent ring = count_sent(c, count, SequenceLayout::zigzag, SequenceMethod::ring);
    EXPECT_EQ(ring.forward, (count - 1) * kShares);
    EXPECT_EQ(ring.forward, ring.ring);
    EXPECT_EQ(ring.backward, 2 * ring.forward);
    const Sent ulysses = count_sent(c, count, SequenceLayout::zigzag, SequenceMethod::ulysses);
    EXPECT_EQ(ulysses.forward, ulysses.ulysses);
    const Sent chosen = count_sent(c, count, SequenceLayout::zigzag, SequenceMethod::automatic);
    EXPECT_EQ(chosen.forward, std::min(ring.ring, ulysses.ulysses));
  }
  // With masks and biases that have rows, and returned weights.
  c.mask = MaskKind::keep;
  c.bias = true;
  c.bias_extent = Extent::query_key;
  c.weights = Weights::mean;
  const Sent ulysses = count_sent(c, 4, SequenceLayout::contiguous, SequenceMethod::ulysses);
  EXPECT_EQ(ulysses.forward, ulysses.ulysses);
  const Sent ring = count_sent(c, 4, SequenceLayout::contiguous, SequenceMethod::ring);
  EXPECT_EQ(ring.forward, ring.ring);
}

TEST(SequenceAttention, SendsNoShareFurtherThanItIsSeen) {
  Case c = sized(DType::float32, 1, 3, {.queries = 64, .keys = 64, .head_dim = 8, .value_dim = 8});
  constexpr std::int64_t kShare = 3 * 8 * (8 + 8) * 4;  // of one rank
  c.causal = Causal::top_left;
  // Contiguous and causal: the share of rank r goes to the 7 - r ranks after it.
  EXPECT_EQ(count_sent(c, 8, SequenceLayout::contiguous, SequenceMethod::ring).forward, 28 * kShare);
  c.window.left = 8;  // one share back
  const Sent sent = count_sent(c, 8, SequenceLayout::contiguous, SequenceMethod::ring);
  EXPECT_EQ(sent.forward, 7 * kShare);
  EXPECT_EQ(sent.backward, 2 * 7 * kShare);
}

TEST(SequenceAttention, ZigzagBalancesACausalMask) {
  const auto most_over_mean = [](const Case& c, int count, SequenceLayout layout) {
    const AttentionBackward p = build(c);
    const auto whole = headway::internal::make_attention_problem("test", p.query, p.key, p.value, p.options);
    const SequenceShares shares(c.query_length, count, layout);
    double most = 0, sum = 0;
    for (int rank = 0; rank < count; ++rank) {
      const auto work = static_cast<double>(headway::internal::count_rank_scores(whole, shares, rank));
      most = std::max(most, work);
      sum += work;
    }
    EXPECT_EQ(sum, static_cast<double>(c.heads * c.query_length * (c.query_length + 1) / 2));
    return most * count / sum;
  };
  Case c = sized(DType::float32, 1, 2, {.queries = 4096, .keys = 4096, .head_dim = 1, .value_dim = 1});
  c.causal = Causal::top_left;
  for (const int count : {2, 3, 4, 8, 16, 64}) {
    EXPECT_LE(most_over_mean(c, count, SequenceLayout::zigzag), 1.05) << count;
  }
  EXPECT_GT(most_over_mean(c, 8, SequenceLayout::contiguous), 1.8);
}

// ---- a device ----

TEST(SequenceAttention, RunsOnADevice) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  Case c = rich_case();
  c.dtype = DType::float32;
  c.bias_extent = Extent::batch_key;
  const AttentionBackward p = build(c);
  const WholeResult expected = one_rank(c, p);
  for (const SequenceMethod method : {SequenceMethod::ring, SequenceMethod::ulysses}) {
    const Cut cut = cut_evenly(p, 4, SequenceLayout::zigzag, method);
    expect_near(over_ranks(c, p, cut, headway::Device::cuda()), expected, 2e-5);
  }
}

}  // namespace
}  // namespace headway_test
