// Different ways to say the same thing give the same result.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/bits.h"
#include "support/cases.h"

namespace headway_test {
namespace {

using headway::attention;
using headway::AttentionOptions;
using headway::PerEntry;
using std::int64_t;

Case shaped(DType dtype, int64_t heads, int64_t queries, int64_t keys) {
  return sized(dtype, 2, heads, {queries, keys, 24, 40});
}

// Two problems that must give the same, forward and backward; d_bias and d_sinks are left out.
void expect_equivalent(const AttentionBackward& a, const AttentionBackward& b) {
  const Named first = run(a), second = run(b);
  for (size_t n = 0; n < 6; ++n) {
    EXPECT_TRUE(near(first[n].second, second[n].second, tolerance_of(a.query.dtype())))
        << headway::dtype_name(a.query.dtype()) << " " << first[n].first;
  }
}

// A mask [queries, keys] from a rule.
template <typename Rule>
Mask keep_where(int64_t queries, int64_t keys, Rule rule) {
  std::vector<bool> keep;
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) keep.push_back(rule(i, j));
  }
  return Mask::keep(Tensor::from(keep, {queries, keys}));
}

TEST(Equivalence, GroupedIsRepeated) {
  for (DType dtype : test_dtypes()) {
    Case c = shaped(dtype, 6, 50, 70);
    c.kv_heads = 2;
    AttentionBackward grouped = build(c), repeated = grouped;
    // [batch, 2, keys, dim] -> [batch, 2, 3, keys, dim] -> [batch, 6, keys, dim]
    auto repeat = [](const Tensor& t) {
      return t.unsqueeze(2)
          .expand({t.size(0), t.size(1), 3, t.size(2), t.size(3)})
          .reshape({t.size(0), 6, t.size(2), t.size(3)});
    };
    repeated.key = repeat(grouped.key);
    repeated.value = repeat(grouped.value);
    const Named a = run(grouped), b = run(repeated);
    EXPECT_TRUE(near(a[0].second, b[0].second, tolerance_of(dtype)));
    EXPECT_TRUE(near(a[3].second, b[3].second, tolerance_of(dtype)));
    // The gradients of a shared head are the sum over its copies.
    for (size_t n : {4u, 5u}) {
      const Tensor shared = a[n].second, copies = b[n].second.to(DType::float64);
      std::vector<double> sum(static_cast<size_t>(shared.element_count()));
      for (int64_t copy = 0; copy < 3; ++copy) {
        const Tensor slice = copies.reshape({shared.size(0), 2, 3, shared.size(2), shared.size(3)}).select(2, copy);
        const std::vector<double> values = slice.to_vector();
        for (size_t e = 0; e < sum.size(); ++e) sum[e] += values[e];
      }
      EXPECT_TRUE(near(shared, Tensor::from(sum, shared.shape()), 2 * tolerance_of(dtype))) << a[n].first;
    }
  }
}

TEST(Equivalence, PackedIsOneByOne) {
  const std::vector<int64_t> query_ends = {0, 17, 17, 90, 160}, key_ends = {0, 33, 60, 60, 190};
  for (DType dtype : test_dtypes()) {
    for (Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
      Case c = shaped(dtype, 3, 160, 190);
      c.batch = 1;
      AttentionBackward packed = build(c);
      packed.options.causal = causal;
      packed.options.window.left = 40;
      packed.options.cu_query_lengths = query_ends;
      packed.options.cu_key_lengths = key_ends;
      const Named whole = run(packed);
      for (size_t s = 0; s + 1 < query_ends.size(); ++s) {
        SCOPED_TRACE("sequence " + std::to_string(s));
        AttentionBackward one = packed;
        auto queries = [&](const Tensor& t) { return t.slice(2, query_ends[s], query_ends[s + 1]); };
        auto keys = [&](const Tensor& t) { return t.slice(2, key_ends[s], key_ends[s + 1]); };
        one.query = queries(packed.query);
        one.d_output = queries(packed.d_output);
        one.key = keys(packed.key);
        one.value = keys(packed.value);
        one.options.cu_query_lengths = one.options.cu_key_lengths = {};
        const Named alone = run(one);
        EXPECT_TRUE(near(queries(whole[0].second), alone[0].second, tolerance_of(dtype)));
        EXPECT_TRUE(near(queries(whole[1].second), alone[1].second, tolerance_of(dtype)));
        EXPECT_TRUE(near(queries(whole[3].second), alone[3].second, tolerance_of(dtype)));
        EXPECT_TRUE(near(keys(whole[4].second), alone[4].second, tolerance_of(dtype)));
        EXPECT_TRUE(near(keys(whole[5].second), alone[5].second, tolerance_of(dtype)));
      }
    }
  }
}

TEST(Equivalence, CausalAlignments) {
  for (DType dtype : test_dtypes()) {
    for (auto [queries, keys] : {std::pair<int64_t, int64_t>{90, 130}, {130, 90}, {64, 64}, {1, 200}}) {
      SCOPED_TRACE(std::to_string(queries) + "x" + std::to_string(keys));
      const AttentionBackward plain = build(shaped(dtype, 2, queries, keys));
      AttentionBackward top_left = plain, bottom_right = plain, masked = plain;
      top_left.options.causal = Causal::top_left;
      masked.options.mask = keep_where(queries, keys, [](int64_t i, int64_t j) { return j <= i; });
      expect_equivalent(top_left, masked);
      bottom_right.options.causal = Causal::bottom_right;
      const int64_t shift = keys - queries;
      masked.options.mask = keep_where(queries, keys, [&](int64_t i, int64_t j) { return j <= i + shift; });
      expect_equivalent(bottom_right, masked);
      if (shift < 0) continue;
      top_left.options.query_offset = shift;
      expect_same_bits(run(top_left), run(bottom_right));
    }
  }
}

// With a cache: the last queries alone, at their offset, give the last rows of all queries.
TEST(Equivalence, OffsetIsSlicing) {
  for (DType dtype : test_dtypes()) {
    const AttentionBackward p = build(shaped(dtype, 2, 150, 150));
    AttentionOptions options = {.causal = Causal::top_left, .window = {.left = 50}};
    options.alibi_slopes = Tensor::from<float>({0.1f, 0.3f}, {2});
    const AttentionResult all = attention(p.query, p.key, p.value, options);
    for (int64_t start : {0, 12, 149}) {
      options.query_offset = start;
      const AttentionResult last = attention(p.query.slice(2, start, 150), p.key, p.value, options);
      EXPECT_TRUE(near(last.output, all.output.slice(2, start, 150), tolerance_of(dtype))) << start;
      EXPECT_TRUE(near(last.logsumexp, all.logsumexp.slice(2, start, 150), tolerance_of(dtype))) << start;
    }
    // One offset for each entry.
    options.query_offset = {3, 100};
    const AttentionResult each = attention(p.query, p.key, p.value, options);
    options.query_offset = 100;
    const AttentionResult second = attention(p.query, p.key, p.value, options);
    EXPECT_TRUE(same_bits(each.output.select(0, 1), second.output.select(0, 1)));
  }
}

TEST(Equivalence, WindowIsAMask) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward window = build(shaped(dtype, 2, 140, 160)), masked = window;
    for (int kind = 0; kind < 3; ++kind) {
      SCOPED_TRACE(kind);
      window.options.window = kind == 0   ? headway::Window{.left = 20}
                              : kind == 1 ? headway::Window{.right = 0}
                                          : headway::Window{.left = 5, .right = 33};
      masked.options.mask = keep_where(140, 160, [&](int64_t i, int64_t j) {
        return (kind == 1 || j >= i - (kind == 0 ? 20 : 5)) && (kind == 0 || j <= i + (kind == 1 ? 0 : 33));
      });
      expect_equivalent(window, masked);
    }
  }
}

TEST(Equivalence, NegativeOffsetsShiftQueriesBeforeTheKeys) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward shifted = build(shaped(dtype, 2, 80, 70)), masked = shifted;
    shifted.options.causal = Causal::top_left;
    shifted.options.query_offset = -9;
    masked.options.mask = keep_where(80, 70, [](int64_t i, int64_t j) { return j <= i - 9; });
    expect_equivalent(shifted, masked);
  }
}

// Reaches and offsets near the limits of the integers act like "without limit" and "out of sight".
TEST(Equivalence, FarReachesAndOffsets) {
  constexpr int64_t kFar = int64_t{1} << 60, kLargest = std::numeric_limits<int64_t>::max();
  const AttentionBackward plain = build(shaped(DType::float32, 2, 80, 100));
  const Named expected = run(plain);
  for (int64_t reach : {int64_t{100}, kFar, kLargest}) {
    AttentionBackward wide = plain;
    wide.options.window = {.left = reach, .right = reach};
    expect_near(run(wide), expected, 1e-5);
  }
  AttentionBackward far = plain;
  far.options.causal = Causal::top_left;
  far.options.query_offset = kFar;
  expect_near(run(far), expected, 1e-5);
  far.options.window.left = kLargest;
  expect_near(run(far), expected, 1e-5);
  far.options.window.left = 1000;
  EXPECT_EQ(run(far)[0].second.to_vector(), std::vector<double>(2 * 2 * 80 * 40, 0.0));
  far.options.window = {};
  far.options.query_offset = -kFar;
  EXPECT_EQ(run(far)[0].second.to_vector(), std::vector<double>(2 * 2 * 80 * 40, 0.0));
}

TEST(Equivalence, KeyLengthsAreSlices) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward p = build(shaped(dtype, 2, 60, 140));
    p.options.key_lengths = {77, 140};
    const AttentionResult both = attention(p.query, p.key, p.value, p.options);
    const AttentionResult first =
        attention(p.query.slice(0, 0, 1), p.key.slice(0, 0, 1).slice(2, 0, 77), p.value.slice(0, 0, 1).slice(2, 0, 77));
    const AttentionResult second = attention(p.query.slice(0, 1, 2), p.key.slice(0, 1, 2), p.value.slice(0, 1, 2));
    EXPECT_TRUE(near(both.output.slice(0, 0, 1), first.output, tolerance_of(dtype)));
    EXPECT_TRUE(near(both.output.slice(0, 1, 2), second.output, tolerance_of(dtype)));
    // The same counts as an int32 tensor.
    p.options.key_lengths = Tensor::from<std::int32_t>({77, 140}, {2});
    EXPECT_TRUE(same_bits(attention(p.query, p.key, p.value, p.options).output, both.output));
  }
}

TEST(Equivalence, KeepIsNotDropAndBiasMasks) {
  for (DType dtype : test_dtypes()) {
    const AttentionBackward plain = build(shaped(dtype, 2, 40, 90));
    AttentionBackward keep = plain, drop = plain, bias = plain;
    std::vector<bool> kept;
    std::vector<double> added;
    for (int e = 0; e < 2 * 90; ++e) {
      kept.push_back(e % 5 != 2);
      added.push_back(kept.back() ? 0 : -INFINITY);
    }
    keep.options.mask = Mask::keep(Tensor::from(kept, {2, 1, 1, 90}));
    bias.options.bias = Tensor::from(added, {2, 1, 1, 90}).to(dtype);
    kept.flip();
    drop.options.mask = Mask::drop(Tensor::from(kept, {2, 1, 1, 90}));
    expect_same_bits(run(keep), run(drop));
    expect_equivalent(keep, bias);
  }
}

TEST(Equivalence, AlibiIsABias) {
  for (DType dtype : {DType::float32, DType::float64}) {
    AttentionBackward alibi = build(shaped(dtype, 2, 70, 80)), bias = alibi;
    alibi.options.alibi_slopes = Tensor::from<double>({0.25, 0.0625}, {2}).to(dtype);
    alibi.options.query_offset = 7;
    std::vector<double> added;
    for (double slope : {0.25, 0.0625}) {
      for (int i = 0; i < 70; ++i) {
        for (int j = 0; j < 80; ++j) added.push_back(-slope * std::abs(i + 7 - j));
      }
    }
    bias.options.bias = Tensor::from(added, {1, 2, 70, 80}).to(dtype);
    expect_equivalent(alibi, bias);
  }
}

TEST(Equivalence, AskingForWeightsChangesNoBit) {
  for (const Case& c : random_cases(reduced() ? 5 : 30, 4)) {
    SCOPED_TRACE(describe(c));
    AttentionBackward p = build(c);
    p.options.weights = Weights::none;
    const AttentionResult plain = attention(p.query, p.key, p.value, p.options);
    for (Weights weights : {Weights::per_head, Weights::mean}) {
      for (WeightsOf of : {WeightsOf::softmax, WeightsOf::scores, WeightsOf::softcapped, WeightsOf::masked}) {
        p.options.weights = weights;
        p.options.weights_of = of;
        const AttentionResult asked = attention(p.query, p.key, p.value, p.options);
        EXPECT_TRUE(same_bits(asked.output, plain.output));
        EXPECT_TRUE(same_bits(asked.logsumexp, plain.logsumexp));
      }
    }
  }
}

TEST(Equivalence, MeanIsTheMeanOfAllHeads) {
  AttentionBackward p = build(shaped(DType::float32, 4, 30, 50));
  p.options.causal = Causal::top_left;
  p.options.weights = Weights::per_head;
  const Tensor per_head = attention(p.query, p.key, p.value, p.options).weights;
  p.options.weights = Weights::mean;
  const Tensor mean = attention(p.query, p.key, p.value, p.options).weights;
  for (int64_t i = 0; i < 30; ++i) {
    double row = 0;
    for (int64_t j = 0; j < 50; ++j) {
      double sum = 0;
      for (int64_t h = 0; h < 4; ++h) sum += per_head.at({1, h, i, j});
      ASSERT_NEAR(mean.at({1, i, j}), sum / 4, 1e-6);
      row += mean.at({1, i, j});
      ASSERT_TRUE(j <= i || mean.at({1, i, j}) == 0);
    }
    ASSERT_NEAR(row, 1, 1e-5);
  }
}

TEST(Equivalence, LayoutsGiveTheSameBits) {
  for (Case c : random_cases(reduced() ? 8 : 40, 8)) {
    c.layout = Layout::heads_first;
    SCOPED_TRACE(describe(c));
    const Named expected = run(build(c));
    for (Layout layout : {Layout::length_first, Layout::padded}) {
      c.layout = layout;
      expect_same_bits(run(build(c)), expected);
    }
  }
}

// Masks, biases and gradients that are views: repeated along a dimension, or transposed.
TEST(Equivalence, ViewsGiveTheSameBits) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward view = build(shaped(dtype, 2, 60, 90));
    const Tensor across = Tensor::uniform({90, 60}, 0, 1, 5, DType::float64);
    std::vector<bool> kept;
    for (double value : across.to_vector()) kept.push_back(value < 0.8);
    view.options.mask = Mask::keep(Tensor::from(kept, {90, 60}).transpose(0, 1));
    view.options.bias = Tensor::randn({1, 1, 60, 1}, 6, dtype).expand({2, 2, 60, 90});
    view.options.weights = Weights::per_head;
    view.query = view.query.transpose(2, 3).contiguous().transpose(2, 3);
    view.d_output = Tensor::full({1, 1, 1, 1}, 0.5, dtype).expand(view.d_output.shape());
    view.d_weights = Tensor::full({1, 1, 1, 1}, 0.25, dtype).expand({2, 2, 60, 90});
    view.d_logsumexp = Tensor::full({1, 1, 1}, 2, dtype == DType::float64 ? dtype : DType::float32).expand({2, 2, 60});
    AttentionBackward copy = view;
    copy.options.mask = Mask::keep(view.options.mask.tensor().clone());
    for (Tensor* tensor : {&copy.options.bias, &copy.query, &copy.d_output, &copy.d_weights, &copy.d_logsumexp}) {
      *tensor = tensor->clone();
    }
    expect_same_bits(run(view), run(copy));
  }
}

// A user's own memory, seen without a copy, and not written to.
TEST(Equivalence, WrappedMemory) {
  std::vector<float> memory(3 * 2 * 20 * 16);
  for (size_t e = 0; e < memory.size(); ++e) memory[e] = std::sin(static_cast<float>(e));
  const std::vector<float> before = memory;
  const Tensor qkv = Tensor::wrap(memory.data(), {20, 3, 2, 16}, DType::float32);  // [length, (q, k, v), heads, dim]
  auto part = [&](int64_t which) { return qkv.select(1, which).permute({1, 0, 2}).unsqueeze(0); };
  const AttentionResult wrapped = attention(part(0), part(1), part(2));
  const AttentionResult copied = attention(part(0).clone(), part(1).clone(), part(2).clone());
  EXPECT_TRUE(same_bits(wrapped.output, copied.output));
  EXPECT_EQ(memory, before);
}

}  // namespace
}  // namespace headway_test
