// Every family over sequences that are cut over ranks, against the same model over whole ones: threads as ranks, which
// share the model, so that its gradients are summed over them.
#include <gtest/gtest.h>

#include <array>

#include "headway/headway.h"
#include "headway/transformer_model.h"
#include "support/bits.h"
#include "support/message_of.h"
#include "support/small_families.h"
#include "training/token_loss.h"

namespace {

using headway::DType;
using headway::ModelInput;
using headway::ModelKind;
using headway::SequenceLayout;
using headway::SequenceMethod;
using headway::SequenceParallelGuard;
using headway::SequenceShares;
using headway::Tensor;
using headway::TransformerModel;
using headway_test::ids;
using headway_test::message_of;
using headway_test::near;
using headway_test::SmallFamily;

// Longer texts than small_input() has, of uneven lengths.
ModelInput long_input(const TransformerModel& model) {
  ModelInput input;
  const Tensor drawn = Tensor::uniform({2, 19}, 3, 30, 4);
  input.tokens = drawn.to(DType::int64);
  input.lengths = {19, 8};
  if (model.options().kind == ModelKind::encoder_decoder) {
    input.target = Tensor::uniform({2, 11}, 3, 30, 5).to(DType::int64);
  }
  return input;
}

using Gradients = std::vector<std::pair<std::string, Tensor>>;

Gradients gradients_of(const TransformerModel& model) {
  Gradients all;
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (parameter.grad().defined()) all.emplace_back(name, parameter.grad().clone());
  }
  model.zero_grad();
  return all;
}

void compare(const TransformerModel& model, int size, SequenceLayout layout, SequenceMethod method) {
  const ModelInput input = long_input(model);
  const Tensor logits = model.forward(input).logits;
  const Tensor weights = Tensor::randn(logits.shape(), 6, logits.dtype());
  logits.backward(weights);
  const Gradients expected = gradients_of(model);
  headway::run_ranks(size, [&](const headway::Communicator& ranks) {
    const SequenceParallelGuard guard(ranks, layout, method);
    const SequenceShares shares = guard.shares(logits.size(1));
    const Tensor own = model.forward(input).logits;
    EXPECT_TRUE(near(own, shares.take(logits.detach(), ranks.rank(), 1), 1e-9));
    own.backward(shares.take(weights, ranks.rank(), 1));
  });
  const Gradients got = gradients_of(model);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].first, expected[i].first);
    EXPECT_TRUE(near(got[i].second, expected[i].second, 1e-8)) << got[i].first;
  }
}

TEST(SequenceParallelModels, EveryFamily) {
  for (const SmallFamily& family : headway_test::small_families()) {
    SCOPED_TRACE(family.name);
    headway::set_random_seed(11);
    const TransformerModel model = TransformerModel::from_config(family.config(), DType::float64);
    model.eval();
    compare(model, 2, SequenceLayout::zigzag, SequenceMethod::ring);
    compare(model, 3, SequenceLayout::contiguous, SequenceMethod::automatic);
  }
}

TEST(SequenceParallelModels, PackedTexts) {
  const TransformerModel model =
      TransformerModel::from_config(headway_test::small_family("llama").config(), DType::float64);
  model.eval();
  const Tensor tokens = Tensor::uniform({1, 20}, 3, 30, 4).to(DType::int64);
  const Tensor logits = model.forward({.tokens = tokens, .packed = {0, 9, 9, 16, 20}}).logits.detach();
  headway::run_ranks(3, [&](const headway::Communicator& ranks) {
    const SequenceParallelGuard guard(ranks);
    const Tensor own = model.forward({.tokens = tokens, .packed = {0, 9, 9, 16, 20}}).logits;
    EXPECT_TRUE(near(own, guard.shares(20).take(logits, ranks.rank(), 1), 1e-9));
  });
}

// Four ranks, of which two share the tokens of a batch, learn what one rank learns from two batches a step.
TEST(SequenceParallelModels, TrainingIsThatOfOneRank) {
  const std::string config = headway_test::small_family("qwen3").config();
  const auto trained = [&](const headway::Communicator& ranks, int context_parallel, std::int64_t accumulate) {
    headway::set_random_seed(3);
    const TransformerModel model = TransformerModel::from_config(config, DType::float64);
    headway::AdamW optimizer(model, {.learning_rate = 1e-2});
    const auto loss_of = [&](const headway::BatchPosition& position) {
      const auto seed = static_cast<std::uint64_t>(position.index);
      const Tensor tokens = Tensor::uniform({2, 15}, 3, 30, seed).to(DType::int64);
      const Tensor labels = Tensor::uniform({2, 15}, 3, 30, seed + 100).to(DType::int64);
      return headway::internal::token_loss(model.forward({.tokens = tokens}).logits, labels, 30, {.ignore_index = 7});
    };
    double loss = 0;
    headway::TrainingOptions options = {.steps = 4, .accumulate = accumulate, .clip_norm = 0.5};
    options.ranks = ranks;
    options.context_parallel = context_parallel;
    options.on_step = [&](const headway::StepReport& report) { loss = report.loss; };
    headway::train(model, optimizer, headway::constant_schedule(1e-2), loss_of, options);
    return std::pair(model.state_dict(), loss);
  };
  const auto expected = trained({}, 1, 2);
  for (const auto& [size, together, accumulate] : std::vector<std::array<int, 3>>{{4, 2, 1}, {3, 3, 2}, {2, 1, 1}}) {
    headway::run_ranks(size, [&, together = together, accumulate = accumulate](const headway::Communicator& ranks) {
      const auto [state, own_loss] = trained(ranks, together, accumulate);
      EXPECT_NEAR(own_loss, expected.second, 1e-9);
      for (const auto& [name, value] : state) EXPECT_TRUE(near(value, expected.first.at(name), 1e-7)) << name;
    });
  }
}

TEST(SequenceParallelModels, RanksThatCannotBeGroupedAreTold) {
  headway::run_ranks(3, [&](const headway::Communicator& ranks) {
    const headway::Linear layer({.in_features = 2, .out_features = 2});
    headway::AdamW optimizer(layer);
    headway::TrainingOptions options = {.steps = 1};
    options.ranks = ranks;
    options.context_parallel = 2;
    EXPECT_EQ(message_of([&] {
                headway::train(
                    layer, optimizer, headway::constant_schedule(1), [](auto&&) { return headway::BatchLoss(); },
                    options);
              }),
              "train: context_parallel is 2, which does not divide the 3 ranks");
  });
}

TEST(SequenceParallelModels, WhatCannotBeCutIsRefused) {
  const SmallFamily bert = headway_test::small_family("bert");
  const TransformerModel classifier = TransformerModel::from_config(bert.config("BertForSequenceClassification"));
  classifier.eval();
  headway::run_ranks(2, [&](const headway::Communicator& ranks) {
    const SequenceParallelGuard guard(ranks);
    const std::string message = message_of([&] { classifier.forward({.tokens = ids({{1, 2, 3, 4}})}); });
    EXPECT_NE(message.find("cannot be cut over the ranks of a SequenceParallelGuard"), std::string::npos) << message;
  });
}

}  // namespace
