// Corners of attention on the GPU: masked keys, rows without keys, dropout's rule, strides, sizes past 2^31.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "core/random.h"
#include "cuda/device_problem.h"
#include "cuda/messages.h"
#include "headway/ops.h"
#include "support/cases.h"
#include "support/message_of.h"

namespace headway_test {
namespace {

using headway::attention;
using headway::AttentionOptions;
using headway::Device;
using headway::internal::DropoutRule;
using std::int64_t;

AttentionBackward problem(DType dtype, int64_t queries, int64_t keys, int64_t dim = 64) {
  return build(sized(dtype, 2, 2, {queries, keys, dim, dim}));
}

struct Corner {
  std::string name;
  AttentionBackward problem;
};

std::string name_of(const Corner& corner) {
  return corner.name + " " + std::string(headway::dtype_name(corner.problem.query.dtype())) + " dim " +
         std::to_string(corner.problem.query.size(3));
}

// The results [begin, end) of forward and backward on the GPU are near those on the CPU, which has tests of its own.
void expect_like_cpu(Messages& messages, const Corner& corner, std::size_t begin = 0, std::size_t end = 8) {
  messages.guarded(name_of(corner), [&] {
    const Named actual = run_on_gpu(corner.problem), expected = run(corner.problem);
    for (std::size_t n = begin; n < end; ++n) {
      messages.expect(near(actual[n].second, expected[n].second, 2 * tolerance_of(corner.problem.query.dtype())),
                      name_of(corner) + " " + actual[n].first);
    }
  });
}

// ---- masked keys and values ----

// Problems in which some keys, values and queries are hidden by one option.
std::vector<Corner> hiding_corners(DType dtype, int64_t dim) {
  constexpr int64_t kLength = 200;
  std::vector<Corner> corners;
  const auto add = [&](const char* name, int64_t queries, int64_t keys) -> AttentionBackward& {
    corners.push_back({name, problem(dtype, queries, keys, dim)});
    return corners.back().problem;
  };
  std::vector<bool> keep;
  std::vector<double> bias;
  for (int64_t e = 0; e < kLength * kLength; ++e) {
    const int64_t i = e / kLength, j = e % kLength;
    keep.push_back(j != 3 && !(j >= 50 && j < 80) && j < kLength - 10 && i != 5 && i != kLength - 1);
    bias.push_back(keep.back() ? 0.25 : -kInfinity);
  }
  add("mask", kLength, kLength).options.mask = Mask::keep(Tensor::from(keep, {kLength, kLength}));
  add("bias", kLength, kLength).options.bias = Tensor::from(bias, {1, 1, kLength, kLength}).to(dtype);
  add("key lengths", kLength, kLength).options.key_lengths = {kLength - 37, 0};
  add("key lengths and sinks", kLength, kLength).options.key_lengths = {kLength - 37, 0};
  corners.back().problem.options.sinks = Tensor::from<float>({0.5f, -1.0f}, {2});
  add("causal top left", kLength - 61, kLength).options.causal = Causal::top_left;
  add("causal bottom right", kLength, kLength - 61).options.causal = Causal::bottom_right;
  AttentionOptions& window = add("window", kLength, kLength).options;
  window.window = {20, 5};
  window.query_offset = kLength / 2;
  add("one query", 1, 4 * kLength).options.key_lengths = {3 * kLength + 1, kLength};

  Case c;
  c.dtype = dtype;
  c.packed = true;
  c.batch = 4;
  c.heads = c.kv_heads = 2;
  c.query_length = c.key_length = 100;
  c.head_dim = c.value_dim = dim;
  AttentionBackward packed = build(c);
  packed.options.key_lengths = {0, 11, 0, 5};
  packed.options.cu_query_lengths = {0, 40, 55, 55, packed.query.size(2)};
  packed.options.cu_key_lengths = {0, 20, 45, 50, packed.key.size(2)};
  corners.push_back({"packed", packed});
  return corners;
}

TEST(CudaCorners, HiddenNumbersStayHidden) {
  Messages messages;
  for (DType dtype : test_dtypes()) {
    const double largest = dtype == DType::float16 ? 65504 : dtype == DType::float64 ? 1e300 : 3e38;
    for (int64_t dim : {24, 64, 128, 256}) {
      if (dim > 64 && (dtype == DType::float32 || dtype == DType::float64)) continue;
      for (const Corner& corner : hiding_corners(dtype, dim)) {
        const Named expected = run(corner.problem);
        for (double hidden : {kNan, kInfinity, largest}) {
          const std::string where = name_of(corner) + " hides " + std::to_string(hidden);
          messages.guarded(where, [&] {
            AttentionBackward p = corner.problem;
            if (fill_hidden_rows(p, hidden) == 0) messages.add(where + ": nothing is hidden");
            const Named actual = run_on_gpu(p);
            for (std::size_t n = 0; n < actual.size(); ++n) {
              messages.expect(near(actual[n].second, expected[n].second, 2 * tolerance_of(dtype)),
                              where + ", " + actual[n].first);
            }
          });
        }
      }
    }
  }
}

TEST(CudaCorners, HiddenNanStaysHiddenWithEveryPairOfOptions) {
  Messages messages;
  int tested = 0;
  for (Case c : pair_cases()) {
    // Scores before the mask show what is masked, so they may not be asked for.
    if (c.weights_of == WeightsOf::scores || c.weights_of == WeightsOf::softcapped) c.weights_of = WeightsOf::masked;
    const AttentionBackward clean = build(c);
    AttentionBackward hiding = clean;
    if (fill_hidden_rows(hiding, kNan) == 0) continue;
    ++tested;
    messages.guarded(describe(c), [&] {
      const Named actual = run_on_gpu(hiding), expected = run(clean);
      for (std::size_t n = 0; n < actual.size(); ++n) {
        // The gradient of a bias that is one number per row is a sum of what cancels: what is left is rounding.
        const double factor = actual[n].first == "d_bias" ? 64 : 2;
        messages.expect(near(actual[n].second, expected[n].second, factor * tolerance_of(c.dtype)),
                        describe(c) + "\n  " + actual[n].first);
      }
    });
  }
  EXPECT_GT(tested, 100);
}

// NaN that is seen shows in the rows that see it, and in no others.
TEST(CudaCorners, VisibleNanShows) {
  Messages messages;
  for (DType dtype : test_dtypes()) {
    for (int64_t queries : {4, 200}) {
      for (int64_t key : {0, 77, 199}) {
        Corner corner = {"NaN in key " + std::to_string(key), problem(dtype, queries, 200)};
        AttentionBackward& p = corner.problem;
        p.value.select(0, 1).select(0, 0).select(0, key).slice(0, 7, 8).fill(kNan);
        fill_row(p.key, 0, 0, key, kNan);
        expect_like_cpu(messages, corner, 0, 2);
        p.options.causal = Causal::top_left;
        expect_like_cpu(messages, corner, 0, 2);
        corner = {"NaN in a query", problem(dtype, queries, 200)};
        fill_row(corner.problem.query, 1, 0, 2, kNan);
        expect_like_cpu(messages, corner, 0, 4);
      }
    }
  }
}

// ---- numbers ----

TEST(CudaCorners, LikeTheCpu) {
  Messages messages;
  for (DType dtype : test_dtypes()) {
    std::vector<Corner> corners;
    const auto add = [&](const char* name, int64_t queries, int64_t keys) -> AttentionBackward& {
      corners.push_back({name, problem(dtype, queries, keys)});
      return corners.back().problem;
    };
    AttentionBackward& empty_rows = add("every key masked", 9, 12);
    empty_rows.options.mask = Mask::drop(Tensor::full({1}, 1, DType::boolean));
    empty_rows.options.weights = Weights::per_head;
    AttentionBackward& sinks = add("sinks of -inf", 40, 80);
    sinks.options.key_lengths = {70, 0};
    sinks.options.sinks = Tensor::full({2}, -kInfinity, DType::float32);
    AttentionBackward& low = add("bias of -1e30 and below", 30, 70);
    std::vector<double> bias(30 * 70, 0.5);
    for (std::size_t e = 0; e < bias.size(); ++e) bias[e] = e / 70 == 4 || e % 3 == 0 ? -1.1e30 : 0.5;
    low.options.bias = Tensor::from(bias, {30, 70}).to(DType::float32);
    low.options.weights = Weights::per_head;
    add("transposed bias", 60, 90).options.bias = Tensor::randn({1, 2, 90, 60}, 6, dtype).transpose(2, 3);
    add("bias of float64", 60, 90).options.bias = Tensor::randn({60, 90}, 6, DType::float64);
    add("expanded bias", 60, 90).options.bias = Tensor::randn({1, 2, 1, 90}, 6, dtype).expand({2, 2, 60, 90});
    add("expanded d_output", 60, 90).d_output = Tensor::full({1}, 0.5, dtype).expand({2, 2, 60, 64});
    AttentionBackward& late = add("the maximum comes late", 70, 700);
    late.options.bias = Tensor::zeros({700}, DType::float32);
    for (int64_t j = 0; j < 700; ++j) late.options.bias.slice(0, j, j + 1).fill(static_cast<double>(j) / 35);
    AttentionBackward& far = add("a decoding window", 4, 1300);
    far.options.window = {.left = 0, .right = 90};
    far.options.query_offset = 511;
    AttentionBackward& tiles = add("weights of whole tiles", 128, 128);
    tiles.options.weights = Weights::per_head;
    add("softcap", 100, 150).options.softcap = 0.5;
    add("scale of zero", 100, 150).options.scale = 0;
    for (const Corner& corner : corners) expect_like_cpu(messages, corner);
  }
}

// A row of dQ follows its row of dO through all magnitudes, bit for bit where the factor is a power of two.
TEST(CudaCorners, RowsOfAllMagnitudes) {
  constexpr int64_t kQueries = 150;
  std::vector<double> factors;
  for (int64_t i = 0; i < kQueries; ++i) factors.push_back(std::ldexp(1.0, static_cast<int>(i % 9 - 4) * 9));
  const Tensor factor = Tensor::from(factors, {1, 1, kQueries, 1}).to(DType::float32);
  for (int64_t dim : {24, 64, 128}) {
    AttentionBackward p = problem(DType::float32, kQueries, 200, dim);
    p.d_logsumexp = {};
    const Named plain = run_on_gpu(p);
    p.d_output = p.d_output * factor;
    const Named scaled = run_on_gpu(p);
    ASSERT_EQ(plain[3].first, "d_query");
    EXPECT_TRUE(same_bits(scaled[3].second, plain[3].second * factor)) << "dim " << dim;
  }
}

TEST(CudaCorners, NoElements) {
  Messages messages;
  for (DType dtype : test_dtypes()) {
    for (const auto& [batch, queries, keys] :
         {std::tuple<int64_t, int64_t, int64_t>{0, 5, 7}, {2, 0, 7}, {2, 5, 0}, {0, 0, 0}}) {
      Case c = sized(dtype, batch, 3, {queries, keys, 64, 64});
      c.weights = Weights::per_head;
      c.sinks = true;
      expect_like_cpu(
          messages,
          {"sizes " + std::to_string(batch) + " " + std::to_string(queries) + " " + std::to_string(keys), build(c)});
    }
    AttentionBackward no_heads;
    no_heads.query = no_heads.key = no_heads.value = no_heads.d_output = Tensor::zeros({2, 0, 5, 8}, dtype);
    expect_like_cpu(messages, {"no heads", no_heads});
    AttentionBackward nothing_flows = problem(dtype, 70, 130);
    nothing_flows.d_output = Tensor();
    nothing_flows.options.sinks = Tensor::full({2}, 1, DType::float32);
    expect_like_cpu(messages, {"no gradient", nothing_flows});
  }
}

// ---- dropout ----

// Values [1, heads, keys, keys] with ones on the diagonal: the output is then the weights after dropout.
Tensor identity(int64_t batch, int64_t heads, int64_t keys, DType dtype) {
  std::vector<float> values(static_cast<std::size_t>(keys * keys));
  for (int64_t j = 0; j < keys; ++j) values[static_cast<std::size_t>(j * keys + j)] = 1;
  return Tensor::from(values, {1, 1, keys, keys}).expand({batch, heads, keys, keys}).contiguous().to(dtype);
}

struct DropoutShape {
  int64_t queries, keys, head_dim;
};

// Exactly the weights that the rule names are dropped.
TEST(CudaDropout, FollowsTheRule) {
  constexpr int64_t kBatch = 2, kHeads = 3;
  Messages messages;
  for (DType dtype : test_dtypes()) {
    for (const DropoutShape& shape :
         {DropoutShape{75, 140, 16}, {200, 64, 64}, {200, 128, 128}, {140, 256, 256}, {1, 700, 16}, {1, 128, 128}}) {
      AttentionBackward p;
      p.query = Tensor::randn({kBatch, kHeads, shape.queries, shape.head_dim}, 1, dtype);
      p.key = Tensor::randn({kBatch, 1, shape.keys, shape.head_dim}, 2, dtype);
      p.value = identity(kBatch, 1, shape.keys, dtype);
      const std::string where = std::string(headway::dtype_name(dtype)) + " keys " + std::to_string(shape.keys) +
                                " dim " + std::to_string(shape.head_dim);
      messages.guarded(where, [&] {
        const std::vector<double> weights = forward_on_gpu(p).output.to_vector();
        p.options.dropout = 0.4;
        p.options.seed = 0x123456789ABCDEFu;
        const DropoutRule rule = DropoutRule::make(p.options.dropout, p.options.seed);
        const std::vector<double> dropped = forward_on_gpu(p).output.to_vector();
        int wrong = 0;
        for (std::size_t e = 0; e < dropped.size(); ++e) {
          const auto place = static_cast<int64_t>(e);
          const int64_t c = place % shape.keys, r = place / shape.keys % shape.queries;
          const int64_t h = place / shape.keys / shape.queries % kHeads,
                        b = place / shape.keys / shape.queries / kHeads;
          const double expected = rule.keep(b, h, r, c) ? weights[e] * rule.scale : 0;
          if (!(std::abs(dropped[e] - expected) <= 2 * tolerance_of(dtype) * expected + 1e-7) && wrong++ == 0) {
            messages.add(where + ": weight " + std::to_string(b) + " " + std::to_string(h) + " " + std::to_string(r) +
                         " " + std::to_string(c) + " is " + std::to_string(dropped[e]) + ", expected " +
                         std::to_string(expected));
          }
        }
      });
    }
  }
}

TEST(CudaDropout, CountsPositionsInsideTheSequence) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward p;
    p.query = Tensor::randn({1, 2, 90, 16}, 1, dtype);
    p.key = Tensor::randn({1, 2, 100, 16}, 2, dtype);
    p.value = identity(1, 2, 100, dtype);
    p.options = {.dropout = 0.5, .seed = 7};
    p.options.cu_query_lengths = {0, 40, 90};
    p.options.cu_key_lengths = {0, 33, 100};
    p.options.query_offset = 5;  // positions for masks, not for dropout
    const Tensor output = forward_on_gpu(p).output;
    const DropoutRule rule = DropoutRule::make(0.5, 7);
    for (int64_t r = 40; r < 90; ++r) {
      for (int64_t c = 33; c < 100; ++c) {
        ASSERT_EQ(output.at({0, 1, r, c}) != 0, rule.keep(1, 1, r - 40, c - 33)) << r << " " << c;
      }
    }
  }
}

// ---- memory ----

// Layouts of the inputs change nothing but rounding.
TEST(CudaCorners, Layouts) {
  Messages messages;
  for (DType dtype : test_dtypes()) {
    for (int64_t dim : {64, 72, 128}) {
      for (double dropout : {0.0, 0.3}) {
        Case c;
        c.dtype = dtype;
        c.batch = 2;
        c.heads = 4;
        c.kv_heads = 2;
        c.query_length = 150;
        c.key_length = 170;
        c.head_dim = c.value_dim = dim;
        c.dropout = dropout;
        const Named expected = run(build(c));
        for (Layout layout : {Layout::heads_first, Layout::length_first, Layout::padded}) {
          c.layout = layout;
          messages.guarded(describe(c), [&] {
            const Named actual = run_on_gpu(build(c));
            for (std::size_t n = 0; n < actual.size(); ++n) {
              messages.expect(near(actual[n].second, expected[n].second, 2 * tolerance_of(dtype)),
                              describe(c) + "\n  " + actual[n].first);
            }
          });
        }
      }
    }
  }
}

// What the forward gave may come back in other strides.
TEST(CudaCorners, ForwardResultsInOtherStrides) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward p = on_gpu(problem(dtype, 130, 150));
    p.forward = attention(p.query, p.key, p.value, p.options);
    const Named expected = on_cpu(named({}, headway::attention_backward(p)));
    p.forward.output = p.forward.output.transpose(2, 3).contiguous().transpose(2, 3);
    p.forward.logsumexp = p.forward.logsumexp.transpose(1, 2).contiguous().transpose(1, 2);
    SCOPED_TRACE(headway::dtype_name(dtype));
    expect_same_bits(on_cpu(named({}, headway::attention_backward(p))), expected);
  }
}

// Batch entries more than 2^31 elements apart.
TEST(CudaCorners, FarStrides) {
  constexpr int64_t kApart = (int64_t{1} << 31) + 64, kPart = 2 * 100 * 64;
  const Tensor memory = Tensor::empty({2, kApart}, DType::bfloat16, Device::cuda());
  const AttentionBackward near_by = problem(DType::bfloat16, 100, 100);
  const Named expected = run_on_gpu(near_by);
  AttentionBackward p = on_gpu(near_by);
  int64_t begin = 0;
  for (Tensor* tensor : {&p.query, &p.key, &p.value, &p.d_output}) {
    Tensor far = memory.slice(1, begin, begin + kPart).view({2, 2, 100, 64});
    far.copy_from(*tensor);
    *tensor = far;
    begin += kPart;
  }
  p.forward = attention(p.query, p.key, p.value, p.options);
  expect_near(on_cpu(named(p.forward, headway::attention_backward(p))), expected, tolerance_of(DType::bfloat16));
}

// More than 2^31 weights: equal ones, for queries of zero.
TEST(CudaCorners, ManyWeights) {
  constexpr int64_t kLength = 32776;
  const Tensor zeros = Tensor::zeros({1, 2, kLength, 16}, DType::bfloat16, Device::cuda());
  const AttentionResult result = attention(zeros, zeros, zeros, {.weights = Weights::per_head});
  for (int64_t head : {0, 1}) {
    for (int64_t row : {int64_t{0}, kLength - 1}) {
      const Tensor weights = on_cpu(result.weights.select(1, head).select(1, row));
      EXPECT_TRUE(near(weights, Tensor::full({1, kLength}, 1.0 / kLength), 1e-6)) << head << " " << row;
      EXPECT_GT(weights.at({0, kLength - 1}), 0) << head << " " << row;
    }
  }
}

// Threads that call at the same time do not disturb each other.
TEST(CudaCorners, Threads) {
  const AttentionBackward small = problem(DType::bfloat16, 130, 150), portable = problem(DType::float32, 130, 150);
  const Named expected[] = {run_on_gpu(small), run_on_gpu(portable)};
  std::vector<std::vector<Named>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<Named>& own : results) {
    threads.emplace_back([&] {
      for (int n = 0; n < 20; ++n) own.push_back(run_on_gpu(n % 2 == 0 ? small : portable));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<Named>& own : results) {
    for (std::size_t n = 0; n < own.size(); ++n) expect_same_bits(own[n], expected[n % 2]);
  }
}

TEST(CudaCorners, MixedDevicesAreRefused) {
  const Tensor x = Tensor::randn({1, 2, 5, 16}, 1), there = x.to(Device::cuda());
  for (const auto& [query, key, value] :
       {std::tuple{x, there, there}, std::tuple{there, x, there}, std::tuple{there, there, x}}) {
    const std::string message = message_of([&] { attention(query, key, value); });
    EXPECT_PRED2(contains, message, "cpu");
    EXPECT_PRED2(contains, message, "cuda");
  }
  const std::string message = message_of([&] { attention(there, there, there, {.bias = Tensor::zeros({5, 5})}); });
  EXPECT_PRED2(contains, message, "cpu");
  EXPECT_PRED2(contains, message, "cuda");
}

}  // namespace
}  // namespace headway_test
