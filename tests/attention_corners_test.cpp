// Corners where one option hides another's mistake: long decoding windows, careful passes, biases and sinks that mask.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/bits.h"
#include "support/cases.h"

namespace headway_test {
namespace {

using std::int64_t;

AttentionBackward problem(DType dtype, int64_t queries, int64_t keys) {
  return build(sized(dtype, 2, 2, {queries, keys, 24, 20}));
}

// A few queries whose windows begin in different parts of the keys that decoding splits.
TEST(Corners, DecodingWindowsBeginInDifferentParts) {
  for (DType dtype : test_dtypes()) {
    for (int64_t offset : {510, 511, 1022}) {
      AttentionBackward window = problem(dtype, 4, 1300), masked = window;
      window.options.window = {.left = 0, .right = 90};
      window.options.query_offset = offset;
      std::vector<bool> keep;
      for (int64_t i = 0; i < 4; ++i) {
        for (int64_t j = 0; j < 1300; ++j) keep.push_back(j >= i + offset && j <= i + offset + 90);
      }
      masked.options.mask = Mask::keep(Tensor::from(keep, {4, 1300}));
      SCOPED_TRACE(std::string(headway::dtype_name(dtype)) + " offset " + std::to_string(offset));
      expect_near(run(window), run(masked), tolerance_of(dtype));
    }
  }
}

// The pass that leaves out hidden values which are not finite draws the same dropout, for every block of keys.
TEST(Corners, HiddenNanLeavesDropoutAsItIs) {
  const int64_t keys = reduced() ? 600 : 1100;
  for (DType dtype : test_dtypes()) {
    AttentionBackward p = problem(dtype, 40, keys);
    std::vector<bool> drop(static_cast<size_t>(keys));
    drop[7] = true;
    p.options.mask = Mask::drop(Tensor::from(drop, {1, 1, 1, keys}));
    p.options.dropout = 0.4;
    p.options.seed = 11;
    const Named expected = run(p);
    p.key = p.key.clone();
    p.value = p.value.clone();
    for (int64_t b = 0; b < 2; ++b) {
      fill_row(p.key, b, 1, 7, kNan);
      fill_row(p.value, b, 1, 7, kNan);
    }
    SCOPED_TRACE(headway::dtype_name(dtype));
    expect_near(run(p), expected, tolerance_of(dtype));
  }
}

// From -1e30 down a bias is a mask, also where it would not overflow; just above it is a number like any other.
TEST(Corners, BiasFromMinus1e30DownMasks) {
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    for (double low : {-1.1e30, -1e36}) {
      AttentionBackward finite = problem(dtype, 30, 70), infinite = finite;
      std::vector<double> bias(30 * 70, 0.5);
      for (size_t e = 0; e < bias.size(); ++e) {
        if (e / 70 == 4 || e % 3 == 0) bias[e] = low;
      }
      finite.options.bias = Tensor::from(bias, {30, 70}).to(dtype);
      for (double& value : bias) value = value == low ? -kInfinity : value;
      infinite.options.bias = Tensor::from(bias, {30, 70}).to(dtype);
      finite.options.weights = infinite.options.weights = Weights::per_head;
      SCOPED_TRACE(headway::dtype_name(dtype));
      expect_same_bits(run(finite), run(infinite));
    }
  }
}

// A bias need not have the dtype of the inputs: each value that both types hold counts the same.
TEST(Corners, BiasOfAnotherDtype) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward p = problem(dtype, 20, 50);
    const Tensor values =
        Tensor::uniform({1, 2, 20, 50}, -2, 2, 4, DType::float64).to(DType::bfloat16).to(DType::float16);
    const AttentionBackward same = [&] {
      AttentionBackward q = p;
      q.options.bias = values.to(DType::bfloat16);
      return q;
    }();
    const Named expected = run(same);
    for (DType other : {DType::float16, DType::float32, DType::float64}) {
      p.options.bias = values.to(DType::bfloat16).to(other);
      SCOPED_TRACE(std::string(headway::dtype_name(dtype)) + " inputs, " + std::string(headway::dtype_name(other)));
      const Named actual = run(p);
      for (size_t n = 0; n < 6; ++n) EXPECT_TRUE(same_bits(actual[n].second, expected[n].second)) << actual[n].first;
      EXPECT_EQ(actual[6].second.dtype(), other);
      EXPECT_TRUE(near(actual[6].second, expected[6].second, tolerance_of(DType::bfloat16)));
    }
  }
}

TEST(Corners, TransposedBias) {
  for (DType dtype : test_dtypes()) {
    for (int64_t queries : {3, 60}) {
      AttentionBackward view = problem(dtype, queries, 90);
      view.options.bias = Tensor::randn({1, 2, 90, queries}, 6, dtype).transpose(2, 3);
      AttentionBackward copy = view;
      copy.options.bias = view.options.bias.clone();
      ASSERT_NE(view.options.bias.stride(-1), copy.options.bias.stride(-1));
      expect_same_bits(run(view), run(copy));
    }
  }
}

// A sink of -inf is none, in rows that see nothing too, and has no gradient whatever comes back to those.
TEST(Corners, SinkOfMinusInfinityIsNone) {
  for (DType dtype : test_dtypes()) {
    for (int64_t queries : {1, 40}) {
      AttentionBackward with = problem(dtype, queries, 80);
      with.options.key_lengths = {70, 0};
      const Named expected = run(with);
      with.options.sinks = Tensor::full({2}, -kInfinity, DType::float32);
      with.d_logsumexp = Tensor::zeros({2, 2, queries}, dtype == DType::float64 ? dtype : DType::float32);
      with.d_logsumexp.select(0, 1).fill(kNan);
      const Named actual = run(with);
      SCOPED_TRACE(std::string(headway::dtype_name(dtype)) + " queries " + std::to_string(queries));
      for (size_t n = 0; n < 6; ++n) {
        EXPECT_TRUE(near(actual[n].second, expected[n].second, tolerance_of(dtype))) << actual[n].first;
      }
      EXPECT_EQ(actual[7].second.to_vector(), std::vector<double>(2, 0.0));
    }
  }
}

// A query that is NaN and sees keys gives NaN on every path; its neighbours do not notice.
TEST(Corners, NanQueryShowsInItsOwnRow) {
  for (DType dtype : test_dtypes()) {
    for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{4, 600}, {60, 600}, {4, 50}, {60, 50}}) {
      for (int option = 0; option < 3; ++option) {
        AttentionBackward p = problem(dtype, queries, keys);
        if (option == 1) p.options.softcap = 5;
        if (option == 2) p.options.bias = Tensor::full({1}, 0.25, dtype);
        fill_row(p.query, 1, 0, 2, kNan);
        SCOPED_TRACE(std::string(headway::dtype_name(dtype)) + " queries " + std::to_string(queries) + " keys " +
                     std::to_string(keys) + " option " + std::to_string(option));
        p.forward = headway::attention(p.query, p.key, p.value, p.options);
        p.d_output = Tensor::full(p.forward.output.shape(), 1, dtype);
        const Tensor output = p.forward.output, d_query = headway::attention_backward(p).query;
        EXPECT_TRUE(std::isnan(p.forward.logsumexp.at({1, 0, 2})));
        EXPECT_TRUE(std::isnan(d_query.at({1, 0, 2, 5})));
        EXPECT_TRUE(std::isfinite(d_query.at({1, 0, 3, 5})));
        EXPECT_TRUE(std::isnan(output.at({1, 0, 2, 5})));
        EXPECT_TRUE(std::isfinite(output.at({1, 0, 1, 5})));
        EXPECT_TRUE(std::isfinite(output.at({1, 0, 3, 5})));
        EXPECT_TRUE(std::isfinite(output.at({1, 1, 2, 5})));
      }
    }
  }
}

// With the unit vectors as values the output is the weights, also where whole tiles of them go straight to memory.
TEST(Corners, WeightsOfWholeTilesAreTheOutput) {
  constexpr int64_t kLength = 128;  // a multiple of every tile
  std::vector<float> unit(kLength * kLength);
  for (size_t j = 0; j < kLength; ++j) unit[j * kLength + j] = 1;
  for (DType dtype : test_dtypes()) {
    for (int option = 0; option < 7; ++option) {
      AttentionBackward p = problem(dtype, kLength, kLength);
      p.value = Tensor::from(unit, {1, 1, kLength, kLength}).to(dtype).expand({2, 2, kLength, kLength}).contiguous();
      p.options.weights = Weights::per_head;
      if (option == 1) p.options.causal = Causal::top_left;
      if (option == 2) p.options.window = {.left = 33, .right = 20};
      if (option == 3) p.options.key_lengths = {96, 127};
      if (option == 4) p.options.softcap = 0.5;
      if (option == 5) p.options.alibi_slopes = Tensor::full({2}, 0.5, dtype);
      if (option == 6) p.options.bias = Tensor::randn({kLength, kLength}, 3, dtype);
      const AttentionResult result = headway::attention(p.query, p.key, p.value, p.options);
      EXPECT_TRUE(near(result.weights, result.output, tolerance_of(dtype)))
          << headway::dtype_name(dtype) << " option " << option;
    }
  }
}

// What flows back to a weight that is masked is not its concern.
TEST(Corners, GradientOfMaskedWeightsIsIgnored) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward p = problem(dtype, 50, 70);
    std::vector<bool> keep;
    for (int e = 0; e < 50 * 70; ++e) keep.push_back(e % 3 != 1 && e / 70 != 9);
    p.options.mask = Mask::keep(Tensor::from(keep, {50, 70}));
    p.options.weights = Weights::per_head;
    std::vector<double> zeros(50 * 70, 0.5), nans = zeros;
    for (size_t e = 0; e < keep.size(); ++e) {
      if (keep[e]) continue;
      zeros[e] = 0;
      nans[e] = kNan;
    }
    auto gradient = [&](const std::vector<double>& values) {
      return Tensor::from(values, {1, 1, 50, 70}).to(dtype).expand({2, 2, 50, 70}).contiguous();
    };
    p.d_weights = gradient(zeros);
    const Named expected = run(p);
    p.d_weights = gradient(nans);
    SCOPED_TRACE(headway::dtype_name(dtype));
    expect_same_bits(run(p), expected);
  }
}

// So many wide heads that the backward works through them in several sections: the same as a few heads at a time.
TEST(Corners, BackwardInSections) {
  constexpr int64_t kHeads = 120, kPart = 30;
  for (DType dtype : test_dtypes()) {
    Case c;
    c.dtype = dtype;
    c.heads = c.kv_heads = kHeads;
    c.query_length = 3;
    c.key_length = 5;
    c.head_dim = c.value_dim = 512;
    c.bias = true;
    c.bias_extent = Extent::query_key;
    c.bias_float32 = true;
    const AttentionBackward whole = build(c);
    const Named all = run(whole);
    std::vector<double> bias(3 * 5, 0.0);
    for (int64_t h = 0; h < kHeads; h += kPart) {
      AttentionBackward part = whole;
      for (Tensor* tensor : {&part.query, &part.key, &part.value, &part.d_output}) {
        *tensor = tensor->slice(1, h, h + kPart);
      }
      const Named some = run(part);
      SCOPED_TRACE(std::string(headway::dtype_name(dtype)) + " heads from " + std::to_string(h));
      for (size_t n : {0u, 1u, 3u, 4u, 5u}) {
        EXPECT_TRUE(same_bits(all[n].second.slice(1, h, h + kPart), some[n].second)) << all[n].first;
      }
      for (size_t e = 0; e < bias.size(); ++e) bias[e] += some[6].second.to_vector()[e];
    }
    EXPECT_TRUE(near(all[6].second, Tensor::from(bias, all[6].second.shape()), 1e-4)) << headway::dtype_name(dtype);
  }
}

// The mean of two neighbours lies halfway between them and rounds to the even one, in vectors and in what is left over.
TEST(Corners, HalfwayRoundsToEven) {
  for (DType dtype : {DType::bfloat16, DType::float16}) {
    const double step = dtype == DType::bfloat16 ? 0x1p-7 : 0x1p-10;
    for (int64_t queries : {1, 40}) {
      const Tensor query = Tensor::zeros({1, 1, queries, 16}, dtype), key = Tensor::zeros({1, 1, 2, 16}, dtype);
      std::vector<double> values;
      for (int j = 0; j < 2; ++j) {
        for (int c = 0; c < 37; ++c) values.push_back(1 + (c % 2 + j) * step);  // 1, 1 + step | 1 + step, 1 + 2 step
      }
      const Tensor value = Tensor::from(values, {1, 1, 2, 37}).to(dtype);
      const Tensor output = headway::attention(query, key, value).output;
      for (int64_t c = 0; c < 37; ++c) {
        EXPECT_EQ(output.at({0, 0, queries - 1, c}), c % 2 == 0 ? 1 : 1 + 2 * step)
            << headway::dtype_name(dtype) << " queries " << queries << " column " << c;
      }
    }
  }
}

// A NaN with all bits set stays one: rounded like a number it would overflow into a zero.
TEST(Corners, NanOfAllBitsStaysNan) {
  for (int64_t queries : {1, 40}) {
    AttentionBackward p = problem(DType::bfloat16, queries, 50);
    const std::vector<float> bias(50, std::bit_cast<float>(0x7FFFFFFFu));
    p.options.bias = Tensor::from(bias, {50});
    const Tensor output = headway::attention(p.query, p.key, p.value, p.options).output;
    for (double value : output.to_vector()) ASSERT_TRUE(std::isnan(value)) << queries << " queries";
  }
}

// Probabilities are rounded to bfloat16, not cut: their errors cancel, and the mean of ones is one.
TEST(Corners, ProbabilitiesRoundWithoutBias) {
  AttentionBackward p = problem(DType::bfloat16, 40, 600);
  p.value = Tensor::full(p.value.shape(), 1, DType::bfloat16);
  for (double value : headway::attention(p.query, p.key, p.value, p.options).output.to_vector()) ASSERT_EQ(value, 1);
}

// Ratios of weights are powers of e to the last few bits: 2 ulp of the exponential, one for each product around it.
TEST(Corners, ExponentialIsExact) {
  constexpr int64_t kKeys = 64, kQueries = 20;  // so many queries that they are not decoded
  for (DType dtype : {DType::float32, DType::float64}) {
    std::vector<double> keys, unit(kKeys * kKeys, 0.0);
    for (int64_t j = 0; j < kKeys; ++j) {
      keys.push_back(-static_cast<double>(j) / 64);
      unit[static_cast<size_t>(j * kKeys + j)] = 1;
    }
    const Tensor output =
        headway::attention(Tensor::full({1, 1, kQueries, 1}, 1, dtype), Tensor::from(keys, {1, 1, kKeys, 1}).to(dtype),
                           Tensor::from(unit, {1, 1, kKeys, kKeys}).to(dtype))
            .output;
    const double epsilon = dtype == DType::float64 ? 0x1p-52 : 0x1p-23;
    for (int64_t j = 0; j < kKeys; ++j) {
      const double exact = std::exp(keys[static_cast<size_t>(j)]);
      EXPECT_NEAR(output.at({0, 0, 3, j}) / output.at({0, 0, 3, 0}), exact, 5 * epsilon * exact) << j;
    }
  }
}

// What the forward gave may come back in other strides.
TEST(Corners, ForwardResultsInOtherStrides) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward p = problem(dtype, 30, 50);
    p.forward = headway::attention(p.query, p.key, p.value, p.options);
    AttentionBackward strided = p;
    strided.forward.output = p.forward.output.transpose(2, 3).contiguous().transpose(2, 3);
    strided.forward.logsumexp = p.forward.logsumexp.transpose(1, 2).contiguous().transpose(1, 2);
    SCOPED_TRACE(headway::dtype_name(dtype));
    expect_same_bits(named({}, headway::attention_backward(strided)), named({}, headway::attention_backward(p)));
  }
}

// A bias of -1e9 on every key of a row is what people add to mask padding. It leaves the softmax as it is, up to what
// rounding does to the scores, and next to it the logarithm of the row's sum is lost.
TEST(Corners, LargeBiasOnWholeRowsKeepsWeightsAndGradients) {
  for (DType dtype : test_dtypes()) {
    for (double shift : {-1e4, 6e4, -1e9, -1e29}) {
      if (dtype == DType::float16 && std::abs(shift) > 65504) continue;
      AttentionBackward shifted = problem(dtype, 20, 70);
      // Without scores of their own, keys that are seen have equal weights whatever the shift.
      shifted.query.fill(0);
      AttentionBackward plain = shifted;
      shifted.options.bias = Tensor::full({20, 70}, shift, dtype);
      plain.options.bias = Tensor::full({20, 70}, 0, dtype);
      shifted.options.weights = plain.options.weights = headway::Weights::per_head;
      shifted.d_weights = plain.d_weights = Tensor::full({2, 2, 20, 70}, 0, dtype);
      shifted.d_weights.slice(3, 0, 9).fill(0.5);
      plain.d_weights.slice(3, 0, 9).fill(0.5);
      Named expected = run(plain);
      const Named found = run(shifted);
      SCOPED_TRACE(std::string(headway::dtype_name(dtype)) + " shift " + std::to_string(shift));
      ASSERT_EQ(found[1].first, "logsumexp");
      expected[1] = found[1];
      expect_near(found, expected, tolerance_of(dtype));
    }
  }
}

}  // namespace
}  // namespace headway_test
