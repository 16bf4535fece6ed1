// Layers over a sequence that is cut over ranks, against the same layers over the whole sequence: threads as ranks,
// which share the layer, so that its gradients are summed over them.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "headway/headway.h"
#include "support/message_of.h"

namespace headway {
namespace {

using headway_test::message_of;

constexpr std::int64_t kLength = 23, kMemory = 17, kWidth = 24;

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.element_count() == 0) return 0;
  const Tensor difference = a.detach() - b.detach();
  return max(maximum(difference, neg(difference))).item();
}

struct Cut {
  int ranks = 1;
  SequenceLayout layout = SequenceLayout::zigzag;
  SequenceMethod method = SequenceMethod::ring;
};

void PrintTo(const Cut& cut, std::ostream* stream) {
  *stream << cut.ranks << (cut.layout == SequenceLayout::zigzag ? "_zigzag" : "_contiguous")
          << (cut.method == SequenceMethod::ring ? "_ring" : "_ulysses");
}

class CutSequences : public testing::TestWithParam<Cut> {
 protected:
  // What a layer makes of x, and of x's gradient, whole and in shares; parameters' gradients too.
  void expect_same(const Module& layer, const Tensor& x, const std::function<Tensor(const Tensor&)>& forward) {
    const Tensor weights = Tensor::randn(x.shape(), 99, x.dtype());
    layer.zero_grad();
    const Tensor whole = x.clone().set_requires_grad();
    const Tensor expected = forward(whole);
    expected.backward(weights);
    std::vector<Tensor> gradients;
    for (const NamedTensor& parameter : layer.named_parameters()) {
      gradients.push_back(parameter.tensor.grad().defined() ? parameter.tensor.grad().clone() : Tensor());
    }
    layer.zero_grad();
    run_ranks(GetParam().ranks, [&](const Communicator& ranks) {
      const SequenceParallelGuard guard(ranks, GetParam().layout, GetParam().method);
      const SequenceShares shares = guard.shares(x.size(1));
      const Tensor own = shares.take(x, ranks.rank(), 1).set_requires_grad();
      const Tensor output = forward(own);
      EXPECT_LT(largest_difference(output, shares.take(expected.detach(), ranks.rank(), 1)), 1e-10);
      output.backward(shares.take(weights, ranks.rank(), 1));
      EXPECT_LT(largest_difference(own.grad(), shares.take(whole.grad(), ranks.rank(), 1)), 1e-10);
    });
    std::size_t next = 0;
    for (const NamedTensor& parameter : layer.named_parameters()) {
      const Tensor& gradient = gradients[next++];
      if (gradient.defined()) {
        EXPECT_LT(largest_difference(parameter.tensor.grad(), gradient), 1e-9) << parameter.name;
      }
    }
  }
};

TEST_P(CutSequences, MultiHeadAttention) {
  const MultiHeadAttention layer({.embed_dim = kWidth, .num_heads = 4, .num_kv_heads = 4, .dtype = DType::float64});
  const Tensor x = Tensor::randn({2, kLength, kWidth}, 1, DType::float64);
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
    expect_same(layer, x, [&](const Tensor& own) {
      return layer.forward({.query = own, .causal = causal, .key_lengths = {kLength, 9}}).output;
    });
  }
}

TEST_P(CutSequences, RotaryPositions) {
  const MultiHeadAttention layer(
      {.embed_dim = kWidth, .num_heads = 4, .rotary = RotaryOptions{.base = 50}, .dtype = DType::float64});
  const Tensor x = Tensor::randn({2, kLength, kWidth}, 2, DType::float64);
  expect_same(layer, x,
              [&](const Tensor& own) { return layer.forward({.query = own, .causal = Causal::top_left}).output; });
}

// The dropout of attention is that of one rank: the seeds of the threads follow each other in the same order.
TEST_P(CutSequences, AttentionDropout) {
  const MultiHeadAttention layer({.embed_dim = kWidth, .num_heads = 4, .dropout = 0.4, .dtype = DType::float64});
  const Tensor x = Tensor::randn({2, kLength, kWidth}, 3, DType::float64);
  const RandomState state = random_state();
  expect_same(layer, x, [&](const Tensor& own) {
    set_random_state(state);
    return layer.forward({.query = own}).output;
  });
}

TEST_P(CutSequences, LayersWithPositions) {
  const TransformerLayerOptions options = {
      .d_model = kWidth, .nhead = 4, .dim_feedforward = 32, .dropout = 0, .norm_first = true, .dtype = DType::float64};
  const SinusoidalPositions sinusoidal({.max_length = 40, .width = kWidth, .dtype = DType::float64});
  const LearnedPositions learned({.max_length = 40, .width = kWidth, .dtype = DType::float64});
  const TransformerEncoder encoder({.layer = options, .num_layers = 2});
  const Tensor x = Tensor::randn({2, kLength, kWidth}, 4, DType::float64);
  expect_same(encoder, x, [&](const Tensor& own) {
    return encoder
        .forward({.source = learned.forward(sinusoidal.forward(own)),
                  .source_lengths = {kLength, 12},
                  .causal = Causal::top_left})
        .output;
  });
}

TEST_P(CutSequences, AttentionToAMemory) {
  const TransformerLayerOptions options = {
      .d_model = kWidth, .nhead = 4, .dim_feedforward = 32, .dropout = 0, .dtype = DType::float64};
  const TransformerDecoderLayer layer(options);
  const Tensor x = Tensor::randn({2, kLength, kWidth}, 5, DType::float64);
  const Tensor memory = Tensor::randn({2, kMemory, kWidth}, 6, DType::float64);
  expect_same(layer, x, [&](const Tensor& own) {
    const SequenceParallelGuard* guard = SequenceParallelGuard::current();
    const Tensor own_memory = guard ? guard->shares(kMemory).take(memory, guard->ranks().rank(), 1) : memory;
    return layer
        .forward(
            {.target = own, .memory = own_memory, .memory_lengths = {kMemory, 4}, .target_causal = Causal::top_left})
        .output;
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, CutSequences,
                         testing::Values(Cut{1}, Cut{2}, Cut{3}, Cut{2, SequenceLayout::contiguous},
                                         Cut{4, SequenceLayout::zigzag, SequenceMethod::ulysses}, Cut{13}),
                         testing::PrintToStringParamName());

TEST(SequenceParallel, WhatCannotBeCutIsRefused) {
  const MultiHeadAttention plain({.embed_dim = 8, .num_heads = 2});
  const MultiHeadAttention extended({.embed_dim = 8, .num_heads = 2, .add_zero_attn = true});
  const Tensor x = Tensor::zeros({1, 2, 8});
  run_ranks(2, [&](const Communicator& ranks) {
    const SequenceParallelGuard guard(ranks);
    KeyValueCache cache;
    EXPECT_EQ(message_of([&] { plain.forward({.query = x, .cache = &cache}); }),
              "MultiHeadAttention: a cache cannot be cut over the ranks of a SequenceParallelGuard");
    EXPECT_EQ(message_of([&] { extended.forward({.query = x}); }),
              "MultiHeadAttention: a layer with add_bias_kv or add_zero_attn cannot be cut over the ranks of a "
              "SequenceParallelGuard");
  });
}

TEST(SequenceParallel, SharesOfTheWrongSizeAreToldOnAllRanks) {
  const MultiHeadAttention layer({.embed_dim = 8, .num_heads = 2});
  std::atomic<int> told = 0;
  run_ranks(2, [&](const Communicator& ranks) {
    const SequenceParallelGuard guard(ranks, SequenceLayout::contiguous);
    const Tensor x = Tensor::zeros({1, ranks.rank() == 0 ? 2 : 4, 8});
    told +=
        message_of([&] { layer.forward({.query = x}); }) ==
        "MultiHeadAttention: rank 0 has 2 of a sequence's 6 tokens, expected 3 as the SequenceParallelGuard cuts it";
  });
  EXPECT_EQ(told, 2);
}

TEST(SequenceParallel, GuardsEndWithTheirScope) {
  EXPECT_EQ(SequenceParallelGuard::current(), nullptr);
  {
    const SequenceParallelGuard alone{Communicator()};
    EXPECT_EQ(SequenceParallelGuard::current(), nullptr);
  }
  run_ranks(2, [](const Communicator& ranks) {
    const SequenceParallelGuard outer(ranks);
    {
      const SequenceParallelGuard inner{Communicator()};
      EXPECT_EQ(SequenceParallelGuard::current(), nullptr);
    }
    EXPECT_EQ(SequenceParallelGuard::current(), &outer);
  });
}

}  // namespace
}  // namespace headway
