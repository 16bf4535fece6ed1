// Batches by token count: every pair once an epoch, little padding, the same from the same seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "support/message_of.h"
#include "training/batches.h"

namespace {

using headway::internal::BatchPlan;
using headway::internal::ExampleSet;
using headway::internal::make_batch;
using headway::internal::PairBatch;

// Pairs whose lengths are those of short sentences.
ExampleSet random_examples(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  ExampleSet examples;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t source = 3 + random() % 6 + random() % 6 + (random() % 20 == 0 ? random() % 60 : 0);
    const std::size_t target = std::max<std::size_t>(2, source + random() % 5 - 2);
    examples.add(std::vector<std::int64_t>(source, i % 97), std::vector<std::int64_t>(target, i % 89));
  }
  return examples;
}

std::vector<std::vector<std::int32_t>> epoch_of(BatchPlan& plan, std::int64_t epoch) {
  std::vector<std::vector<std::int32_t>> batches;
  for (std::int64_t i = 0; i < plan.batches_per_epoch(); ++i) {
    const auto members = plan.members(epoch * plan.batches_per_epoch() + i);
    batches.emplace_back(members.begin(), members.end());
  }
  return batches;
}

TEST(TranslationBatches, EveryPairComesOnceAnEpochAndBatchesAreFull) {
  const ExampleSet examples = random_examples(20000, 1);
  constexpr std::int64_t kTokens = 3000;
  BatchPlan plan(examples, kTokens, 7);
  for (const std::int64_t epoch : {0, 1, 5}) {
    std::set<std::int32_t> seen;
    std::int64_t padded = 0, tokens = 0;
    for (const auto& members : epoch_of(plan, epoch)) {
      std::int64_t source = 0, target = 0;
      for (const std::int32_t member : members) {
        EXPECT_TRUE(seen.insert(member).second);
        source = std::max(source, std::ssize(examples.source(member)));
        target = std::max(target, std::ssize(examples.target(member)));
        tokens += std::ssize(examples.source(member)) + std::ssize(examples.target(member));
      }
      EXPECT_LE(std::ssize(members) * (source + target), kTokens);
      padded += std::ssize(members) * (source + target);
    }
    EXPECT_EQ(std::ssize(seen), examples.size());
    EXPECT_NEAR(plan.padding_share(), 1.0 - static_cast<double>(tokens) / static_cast<double>(padded), 1e-12);
    EXPECT_LT(plan.padding_share(), 0.05);
    EXPECT_GT(static_cast<double>(padded), 0.9 * kTokens * static_cast<double>(plan.batches_per_epoch()));
  }
}

TEST(TranslationBatches, FollowFromSeedAndPositionAlone) {
  const ExampleSet examples = random_examples(3000, 2);
  BatchPlan plan(examples, 1000, 7), same(examples, 1000, 7), other(examples, 1000, 8);
  const auto first = epoch_of(plan, 0), second = epoch_of(plan, 1);
  EXPECT_NE(first, second);
  EXPECT_NE(first, epoch_of(other, 0));
  // In any order, and from any place.
  EXPECT_EQ(epoch_of(same, 1), second);
  EXPECT_EQ(epoch_of(same, 0), first);
  const auto place = same.members(plan.batches_per_epoch() + 3);
  EXPECT_EQ(std::vector<std::int32_t>(place.begin(), place.end()), second[3]);
  // Which pairs meet changes too, not only the order of batches.
  EXPECT_NE(std::set(first.begin(), first.end()), std::set(second.begin(), second.end()));
}

TEST(TranslationBatches, APairLongerThanABatchIsOneOfItsOwn) {
  ExampleSet examples;
  examples.add(std::vector<std::int64_t>(50, 1), std::vector<std::int64_t>(60, 2));
  examples.add(std::vector<std::int64_t>(2, 1), std::vector<std::int64_t>(2, 2));
  BatchPlan plan(examples, 20, 1);
  EXPECT_EQ(plan.batches_per_epoch(), 2);
  EXPECT_EQ(plan.padding_share(), 0.0);
}

TEST(TranslationBatches, TensorsArePaddedAndShifted) {
  ExampleSet first, examples;
  first.add(std::vector<std::int64_t>{8, 5, 0}, std::vector<std::int64_t>{6, 0});
  first.add(std::vector<std::int64_t>{8, 0}, std::vector<std::int64_t>{3, 4, 0});
  examples.append_all(first);
  examples.append_all(first);
  ASSERT_EQ(examples.size(), 4);
  const std::vector<std::int32_t> members = {3, 2};
  const PairBatch batch = make_batch(examples, members, 9);
  using Values = std::vector<double>;
  EXPECT_EQ(batch.source.to_vector(), (Values{8, 0, 9, 8, 5, 0}));
  EXPECT_EQ(batch.source_lengths.to_vector(), (Values{2, 3}));
  EXPECT_EQ(batch.target.to_vector(), (Values{9, 3, 4, 9, 6, 9}));
  EXPECT_EQ(batch.labels.to_vector(), (Values{3, 4, 0, 6, 0, 9}));
  EXPECT_EQ(batch.tokens, 5);
}

TEST(TranslationBatches, NoPairsAreAnError) {
  EXPECT_PRED2(headway_test::contains, headway_test::message_of([] { BatchPlan(ExampleSet(), 100, 1); }),
               "no pairs to train on");
  EXPECT_THROW(ExampleSet().add({}, std::vector<std::int64_t>{1}), headway::Error);
}

}  // namespace
