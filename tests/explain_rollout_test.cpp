// Averages and rollouts against sums written out.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "headway/attention_view.h"
#include "support/attention_record.h"
#include "support/message_of.h"

namespace {

using headway::attention_mean;
using headway::attention_rollout;
using headway::AttentionPart;
using headway::AttentionRecord;
using headway::Tensor;
using headway_test::contains;
using headway_test::message_of;

using Matrix = std::vector<std::vector<double>>;

Matrix mean_of(const AttentionPart& part, std::size_t layer) {
  Matrix mean(part.queries.size(), std::vector<double>(part.keys.size(), 0.0));
  const auto heads = part.layers[layer].size(0);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::size_t q = 0; q < mean.size(); ++q) {
      for (std::size_t k = 0; k < mean[q].size(); ++k) {
        mean[q][k] += part.layers[layer].at({h, static_cast<std::int64_t>(q), static_cast<std::int64_t>(k)}) /
                      static_cast<double>(heads);
      }
    }
  }
  return mean;
}

// (first * second + keep) / 2.
Matrix half_step(const Matrix& first, const Matrix& second, const Matrix& keep) {
  Matrix result = keep;
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (std::size_t j = 0; j < result[i].size(); ++j) {
      double sum = keep[i][j];
      for (std::size_t k = 0; k < second.size(); ++k) sum += first[i][k] * second[k][j];
      result[i][j] = sum / 2.0;
    }
  }
  return result;
}

Matrix identity(std::size_t size) {
  Matrix result(size, std::vector<double>(size, 0.0));
  for (std::size_t i = 0; i < size; ++i) result[i][i] = 1.0;
  return result;
}

Matrix rollout_of(const AttentionPart& part) {
  Matrix rolled = identity(part.queries.size());
  for (std::size_t layer = 0; layer < part.layers.size(); ++layer)
    rolled = half_step(mean_of(part, layer), rolled, rolled);
  return rolled;
}

void expect_near(const Tensor& actual, const Matrix& expected) {
  ASSERT_EQ(actual.size(0), static_cast<std::int64_t>(expected.size()));
  ASSERT_EQ(actual.size(1), static_cast<std::int64_t>(expected[0].size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t j = 0; j < expected[i].size(); ++j) {
      EXPECT_NEAR(actual.at({static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)}), expected[i][j], 1e-5);
    }
  }
}

TEST(AttentionMean, OneLayerAndAll) {
  const AttentionRecord record = headway_test::animal_record();
  const AttentionPart& part = record.parts[2];
  expect_near(attention_mean(part, 1), mean_of(part, 1));
  Matrix all = mean_of(part, 0);
  for (std::size_t layer = 1; layer < part.layers.size(); ++layer) {
    const Matrix next = mean_of(part, layer);
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < all[i].size(); ++j) all[i][j] += next[i][j];
    }
  }
  for (auto& row : all) {
    for (double& value : row) value /= static_cast<double>(part.layers.size());
  }
  expect_near(attention_mean(part), all);
}

TEST(AttentionRollout, SelfAttention) {
  const AttentionRecord record = headway_test::animal_record();
  expect_near(attention_rollout(record.parts[0]), rollout_of(record.parts[0]));
  expect_near(attention_rollout(record.parts[1]), rollout_of(record.parts[1]));
}

TEST(AttentionRollout, WholeModel) {
  const AttentionRecord record = headway_test::animal_record();
  const Matrix memory = rollout_of(record.parts[0]);
  Matrix rolled(record.parts[2].queries.size(), std::vector<double>(memory.size(), 0.0));
  for (std::size_t layer = 0; layer < record.parts[2].layers.size(); ++layer) {
    rolled = half_step(mean_of(record.parts[1], layer), rolled, rolled);
    rolled = half_step(mean_of(record.parts[2], layer), memory, rolled);
  }
  for (auto& row : rolled) {
    double sum = 0.0;
    for (const double value : row) sum += value;
    for (double& value : row) value /= sum;
  }
  expect_near(attention_rollout(record), rolled);
}

TEST(AttentionRollout, MaskedRowsStayZero) {
  // One layer, one head: the second query looks at nothing but itself by way of the identity.
  const AttentionPart part{"decoder", {"a", "b"}, {"a", "b"}, {Tensor::from<float>({1, 0, 0, 0}, {1, 2, 2})}};
  expect_near(attention_rollout(part), {{1, 0}, {0, 1}});
}

TEST(AttentionRollout, Errors) {
  AttentionRecord record = headway_test::animal_record();
  AttentionPart odd = record.parts[2];
  odd.queries.pop_back();
  EXPECT_PRED2(contains, message_of([&] { attention_rollout(odd); }),
               "layer 0 of part \"cross\" is float32[8, 16, 16]");
  for (Tensor& layer : odd.layers) layer = layer.slice(1, 0, 15);
  EXPECT_PRED2(contains, message_of([&] { attention_rollout(odd); }), "15 queries and 16 keys");
  EXPECT_EQ(attention_mean(odd, 0).size(0), 15);  // strided layers are fine
  EXPECT_PRED2(contains, message_of([&] { attention_mean(odd, 4); }), "layer is 4, expected 0 to 3");
  EXPECT_PRED2(contains, message_of([&] { attention_mean({"x", {}, {}, {}}); }), "has no layers");
  record.parts.pop_back();
  EXPECT_PRED2(contains, message_of([&] { attention_rollout(record); }), "part is \"cross\"");
  record.parts[0].layers[1] = record.parts[0].layers[1].clone();
  record.parts[0].layers[1].data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_PRED2(contains, message_of([&] { attention_mean(record.parts[0]); }), "layer 1 of part \"encoder\" holds");
}

}  // namespace
