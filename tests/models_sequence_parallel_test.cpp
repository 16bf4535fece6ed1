// Every family over sequences that are cut over ranks, against the same model over whole ones: threads as ranks, which
// share the model, so that its gradients are summed over them.
#include <gtest/gtest.h>

#include "headway/headway.h"
#include "headway/transformer_model.h"
#include "support/bits.h"
#include "support/message_of.h"
#include "support/small_families.h"

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
