// Steps of decoding on the GPU beside the CPU, one by one and as recorded work.
#include "ops/decoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway_test {
namespace {

using headway::Device;
using headway::DType;
using headway::Shape;
using headway::Tensor;
using namespace headway::internal;
using Numbers = std::vector<std::int64_t>;

constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16};

double tolerance(DType dtype) {
  if (dtype == DType::float64) return 1e-12;
  return dtype == DType::float32 ? 2e-5 : 2e-2;
}

void expect_near(const Tensor& found, const Tensor& expected, double tolerance, const std::string& what) {
  const std::vector<double> a = found.to_vector(), b = expected.to_vector();
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i])) {
      ASSERT_TRUE(std::isnan(a[i])) << what << " at " << i;
    } else {
      ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::fabs(b[i]))) << what << " at " << i;
    }
  }
}

// One position for all of some rows.
Tensor positions_of(std::int64_t value, std::int64_t rows) {
  return Tensor::from(Numbers(static_cast<std::size_t>(rows), value), {rows});
}

Tensor on(const Tensor& tensor, Device device) { return tensor.defined() ? tensor.to(device) : tensor; }

TEST(CudaDecoding, EmbedsTokens) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t features : {1, 7, 256}) {
      const Tensor weight = Tensor::randn({50, features}, 1, dtype), positions = Tensor::randn({9, features}, 2, dtype);
      const Tensor tokens = Tensor::from(Numbers{3, 0, 49, 50, -1, 7}, {6});
      const Tensor position = Tensor::from(Numbers{8, 0, 3, 1, 2, 9}, {6});
      const Device gpu = Device::cuda();
      expect_near(embed_step(weight.to(gpu), tokens.to(gpu), positions.to(gpu), position.to(gpu), 1.5),
                  embed_step(weight, tokens, positions, position, 1.5), tolerance(dtype), "embed_step");
      expect_near(embed_step(weight.to(gpu), tokens.to(gpu), {}, {}, 0.5), embed_step(weight, tokens, {}, {}, 0.5),
                  tolerance(dtype), "embed_step without positions");
    }
  }
}

// Products of few rows and of many, with all that a step does in the same pass.
struct LinearCase {
  std::int64_t rows = 1, in = 64, out = 96;
  StepNorm norm = StepNorm::none;
  headway::Activation activation = headway::Activation::none;
  bool bias = true, gated = false, added = false;
};

void check_linear(const LinearCase& c, DType dtype) {
  const Device gpu = Device::cuda();
  const std::int64_t results = c.gated ? c.out / 2 : c.out;
  const double spread = 1 / std::sqrt(static_cast<double>(c.in));  // results of size 1
  const Tensor x = Tensor::randn({c.rows, c.in + 8}, 1, dtype).slice(1, 0, c.in);
  const Tensor weight = scale(Tensor::randn({c.out, c.in}, 2), spread).to(dtype);
  const Tensor bias = c.bias ? Tensor::randn({c.out}, 3, dtype) : Tensor();
  LinearStepOptions here = {.activation = c.activation, .gated = c.gated};
  here.norm.kind = c.norm;
  if (c.norm != StepNorm::none) here.norm.weight = Tensor::randn({c.in}, 5, dtype);
  if (c.norm == StepNorm::layer) here.norm.bias = Tensor::randn({c.in}, 6, dtype);
  if (c.added) here.added = Tensor::randn({c.rows, results}, 4, dtype);
  LinearStepOptions there = here;
  for (Tensor* tensor : {&there.norm.weight, &there.norm.bias, &there.added}) *tensor = on(*tensor, gpu);
  const Tensor x_there = Tensor::randn({c.rows, c.in + 8}, 1, dtype).to(gpu).slice(1, 0, c.in);
  const std::string what = std::to_string(c.rows) + " rows, " + std::to_string(c.in) + " -> " + std::to_string(c.out) +
                           ", dtype " + std::to_string(static_cast<int>(dtype));
  const Tensor found = linear_step(x_there, pack_weight(weight.to(gpu), on(bias, gpu)), there);
  expect_near(found, linear_step(x, pack_weight(weight, bias), here), 2 * tolerance(dtype), what);
  const Tensor again = linear_step(x_there, pack_weight(weight.to(gpu), on(bias, gpu)), there);
  EXPECT_EQ(again.to_vector(), found.to_vector()) << what;
}

TEST(CudaDecoding, Products) {
  using headway::Activation;
  const std::vector<LinearCase> cases = {
      {},
      {.rows = 5, .activation = Activation::relu},
      {.rows = 130, .added = true},
      {.rows = 130, .out = 64, .norm = StepNorm::layer, .activation = Activation::silu, .gated = true},
      {.rows = 1, .in = 8, .out = 2, .bias = false},
      {.rows = 1, .in = 7, .out = 5},  // not aligned
      {.rows = 1, .in = 2048, .out = 2560, .norm = StepNorm::rms, .bias = false},
      {.rows = 1, .in = 2048, .out = 1024, .norm = StepNorm::rms, .activation = Activation::silu, .gated = true},
      {.rows = 1, .in = 5632, .out = 2048, .bias = false, .added = true},
      {.rows = 3, .in = 520, .out = 100, .norm = StepNorm::layer, .added = true},
      {.rows = 2, .in = 8200, .out = 40, .norm = StepNorm::layer, .activation = Activation::gelu_tanh},
      {.rows = 4, .in = 5632, .out = 2048, .bias = false, .added = true},
      {.rows = 8, .in = 5632, .out = 4240, .bias = false, .added = true},
      {.rows = 16, .in = 5632, .out = 2056, .added = true},
      {.rows = 31, .in = 5640, .out = 2048, .bias = false, .added = true},
      {.rows = 32, .in = 2048, .out = 5000, .norm = StepNorm::rms, .activation = Activation::silu, .gated = true},
      {.rows = 8, .in = 1544, .out = 64, .norm = StepNorm::rms, .activation = Activation::gelu_tanh, .gated = true},
      {.rows = 9, .in = 640, .out = 70, .added = true},
      {.rows = 16, .in = 5632, .out = 48, .added = true},
      {.rows = 17, .in = 2048, .out = 5000, .activation = Activation::gelu},
      {.rows = 32, .in = 2048, .out = 640, .norm = StepNorm::layer, .activation = Activation::gelu, .gated = true},
      {.rows = 32, .in = 5632, .out = 2048, .bias = false, .added = true},
      {.rows = 33, .in = 256, .out = 640, .norm = StepNorm::rms, .added = true}};
  for (const LinearCase& c : cases) {
    for (const DType dtype : kDTypes) check_linear(c, dtype);
  }
}

TEST(CudaDecoding, Means) {
  const Device gpu = Device::cuda();
  for (const DType dtype : kDTypes) {
    const Tensor mean = Tensor::randn({130, 96}, 4, dtype), mean_there = mean.to(gpu);
    const Tensor now = Tensor::randn({130, 96}, 5, dtype);
    lerp_into(mean, now, 0.2);
    lerp_into(mean_there, now.to(gpu), 0.2);
    expect_near(mean_there, mean, tolerance(dtype), "lerp_into");
  }
}

// What BlockOptions can ask of the scores.
struct ScoreCase {
  std::int64_t heads = 4, kv_heads = 4, head_dim = 8, capacity = 140;
  double softcap = 0;
  std::int64_t window = -1;
  bool alibi = false, distance_bias = false, sinks = false, norms = false;
  std::int64_t rotated = 0;
  bool interleaved = false;
};

std::string name_of(const ScoreCase& c) {
  return "heads " + std::to_string(c.heads) + " / " + std::to_string(c.kv_heads) + " of " + std::to_string(c.head_dim);
}

StepScores scores_of(const ScoreCase& c, Device device) {
  StepScores scores = {.heads = c.heads,
                       .kv_heads = c.kv_heads,
                       .head_dim = c.head_dim,
                       .scale = 1 / std::sqrt(static_cast<double>(c.head_dim)),
                       .softcap = c.softcap,
                       .window = c.window};
  if (c.alibi) scores.alibi_slopes = Tensor::uniform({c.heads}, 0, 1, 5).to(device);
  if (c.distance_bias) scores.distance_bias = Tensor::randn({c.heads, 20}, 6).to(device);
  if (c.sinks) scores.sinks = Tensor::randn({c.heads}, 7).to(device);
  return scores;
}

CacheAppend cache_of(const ScoreCase& c, std::int64_t rows, DType dtype, Device device) {
  CacheAppend cache = {
      .cache = Tensor::randn({rows + 1, c.capacity, 2 * c.kv_heads * c.head_dim}, 9).to(dtype).to(device),
      .origins = Tensor::zeros({rows, c.capacity}, DType::int32, device),
      .heads = c.heads,
      .kv_heads = c.kv_heads,
      .head_dim = c.head_dim,
      .interleaved = c.interleaved};
  if (c.norms) {
    cache.query_norm = Tensor::uniform({c.head_dim}, 0.5, 2, 3).to(dtype).to(device);
    cache.key_norm = Tensor::uniform({c.head_dim}, 0.5, 2, 4).to(dtype).to(device);
  }
  if (c.rotated > 0) cache.rotation = Tensor::randn({c.capacity - 1, c.rotated}, 8).to(device);
  return cache;
}

const std::vector<ScoreCase> kScoreCases = {
    {.heads = 8, .kv_heads = 8, .head_dim = 32},
    {.heads = 2, .kv_heads = 2, .head_dim = 5},
    {.heads = 1, .kv_heads = 1, .head_dim = 64},
    {.heads = 3, .kv_heads = 3, .head_dim = 100, .rotated = 100},
    {.heads = 2, .kv_heads = 2, .head_dim = 256},
    {.heads = 8, .kv_heads = 2, .head_dim = 64, .norms = true, .rotated = 64},
    {.heads = 4, .kv_heads = 1, .head_dim = 32, .softcap = 5, .rotated = 16, .interleaved = true},
    {.heads = 6, .kv_heads = 1, .head_dim = 128, .capacity = 700, .window = 50, .sinks = true, .rotated = 128},
    {.heads = 12, .kv_heads = 1, .head_dim = 16, .alibi = true, .distance_bias = true},
    {.heads = 2, .kv_heads = 1, .head_dim = 256, .window = 0, .distance_bias = true, .rotated = 64},
    {.heads = 32, .kv_heads = 4, .head_dim = 64, .capacity = 1100, .rotated = 64}};

// Steps of rows that change places, at lengths up to the capacity and one beyond.
void check_self_attention(const ScoreCase& c, DType dtype) {
  constexpr std::int64_t kRows = 5;
  const Device gpu = Device::cuda();
  CacheAppend here = cache_of(c, kRows, dtype, Device::cpu()), there = cache_of(c, kRows, dtype, gpu);
  const std::int64_t width = (c.heads + 2 * c.kv_heads) * c.head_dim, stride = c.capacity > 200 ? 97 : 9;
  for (std::int64_t t = 0; t < c.capacity + 1; t += t < 35 || t > c.capacity - 4 ? 1 : stride) {
    here.projected = Tensor::randn({kRows, width}, static_cast<std::uint64_t>(t + 1), dtype);
    there.projected = Tensor::randn({kRows, width}, static_cast<std::uint64_t>(t + 1), dtype).to(gpu);
    here.positions = positions_of(t, kRows);
    there.positions = here.positions.to(gpu);
    const Tensor order = Tensor::from(Numbers{t % 5, 1, 2, (t + 3) % 5, 0}, {kRows});
    here.origins.copy_from(gather_rows(here.origins, order));
    there.origins.copy_from(gather_rows(there.origins, order.to(gpu)));
    // From time to time rows have other entries, and one has none.
    here.entries = t % 7 == 3 ? Tensor::from(std::vector<std::int32_t>{4, 5, 1, -1, 2}, {kRows}) : Tensor();
    there.entries = on(here.entries, gpu);
    expect_near(self_attention_step(there, scores_of(c, gpu)), self_attention_step(here, scores_of(c, Device::cpu())),
                2 * tolerance(dtype), name_of(c) + ", token " + std::to_string(t));
  }
  EXPECT_EQ(there.origins.to_vector(), here.origins.to_vector());
  expect_near(there.cache, here.cache, tolerance(dtype), name_of(c) + ", cache");
}

TEST(CudaDecoding, SelfAttention) {
  for (const ScoreCase& c : kScoreCases) {
    for (const DType dtype : kDTypes) check_self_attention(c, dtype);
  }
}

// Rows of different lengths whose tokens lie in four entries, some of them in none; new tokens go to four others.
// Nothing looks at the last entry, which is NaN.
void check_scattered_tokens(const ScoreCase& c, DType dtype) {
  constexpr std::int64_t kRows = 4;
  const Device gpu = Device::cuda();
  CacheAppend here = cache_of(c, 2 * kRows, dtype, Device::cpu());
  here.cache.slice(0, 2 * kRows, 2 * kRows + 1).fill(NAN);
  here.entries = Tensor::from(std::vector<std::int32_t>{4, 5, 6, 7}, {kRows});
  std::vector<std::int32_t> origins(static_cast<std::size_t>(kRows * c.capacity));
  for (std::size_t i = 0; i < origins.size(); ++i) origins[i] = static_cast<std::int32_t>(i * i / 3 % 5) - 1;
  here.origins = Tensor::from(origins, {kRows, c.capacity});
  CacheAppend there = here;
  for (Tensor* tensor :
       {&there.cache, &there.origins, &there.entries, &there.query_norm, &there.key_norm, &there.rotation}) {
    *tensor = on(*tensor, gpu);
  }
  const std::int64_t width = (c.heads + 2 * c.kv_heads) * c.head_dim, last = c.capacity - 1;
  for (const Numbers& positions : std::vector<Numbers>{
           {0, 1, 2, 3}, {4, 14, 15, 16}, {30, 31, 32, 33}, {126, 127, 128, 129}, {500, last - 1, last, 999}}) {
    here.projected = Tensor::randn({kRows, width}, static_cast<std::uint64_t>(positions[1]), dtype);
    here.positions = Tensor::from(positions, {kRows});
    there.projected = here.projected.to(gpu);
    there.positions = here.positions.to(gpu);
    const std::string what = name_of(c) + ", token " + std::to_string(positions[0]);
    const Tensor expected = self_attention_step(here, scores_of(c, Device::cpu()));
    const Tensor found = self_attention_step(there, scores_of(c, gpu));
    expect_near(found, expected, 2 * tolerance(dtype), what);
    EXPECT_EQ(self_attention_step(there, scores_of(c, gpu)).to_vector(), found.to_vector()) << what;
  }
  const auto written = [](const Tensor& cache) { return cache.slice(0, kRows, 2 * kRows).slice(1, 0, 130); };
  expect_near(written(there.cache), written(here.cache), tolerance(dtype), name_of(c) + ", cache");
}

TEST(CudaDecoding, ScatteredTokens) {
  for (const std::int64_t head_dim : {64, 96, 128, 256}) {
    for (const std::int64_t group : {1, 2, 4, 7, 8, 12}) {
      const std::int64_t kv_heads = group <= 4 ? 2 : 1;
      const ScoreCase c = {.heads = group * kv_heads,
                           .kv_heads = kv_heads,
                           .head_dim = head_dim,
                           .capacity = head_dim == 64 && group >= 8 ? 5003 : 1100,
                           .softcap = group == 4 ? 5.0 : 0.0,
                           .window = group == 7 ? 33 : (group == 2 ? 100 : -1),
                           .sinks = group == 8,
                           .norms = group % 2 == 0,
                           .rotated = group == 12 ? 32 : head_dim,
                           .interleaved = group == 7};
      for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) check_scattered_tokens(c, dtype);
    }
  }
}

// Tokens of prompts: several rows go to one entry, at positions of their own.
TEST(CudaDecoding, Appends) {
  const Device gpu = Device::cuda();
  for (const ScoreCase& c : kScoreCases) {
    for (const DType dtype : kDTypes) {
      constexpr std::int64_t kRows = 6;
      CacheAppend here = cache_of(c, kRows, dtype, Device::cpu()), there = cache_of(c, kRows, dtype, gpu);
      here.origins = there.origins = {};
      here.projected = Tensor::randn({kRows, (c.heads + 2 * c.kv_heads) * c.head_dim}, 1, dtype);
      there.projected = here.projected.to(gpu);
      here.positions = Tensor::from(Numbers{0, 1, 2, 9, c.capacity, 3}, {kRows});
      here.entries = Tensor::from(std::vector<std::int32_t>{2, 2, 2, 0, 1, 99}, {kRows});
      there.positions = here.positions.to(gpu);
      there.entries = here.entries.to(gpu);
      cache_append(here);
      cache_append(there);
      const std::int64_t queries = c.heads * c.head_dim;
      expect_near(there.cache, here.cache, tolerance(dtype), name_of(c) + ", cache");
      expect_near(there.projected.slice(1, 0, queries), here.projected.slice(1, 0, queries), tolerance(dtype),
                  name_of(c) + ", queries");
    }
  }
}

TEST(CudaDecoding, CrossAttention) {
  const Device gpu = Device::cuda();
  for (const DType dtype : kDTypes) {
    for (const std::int64_t length : {1, 31, 32, 33, 300}) {
      for (const std::int64_t kv_heads : {1, 3}) {
        const ScoreCase c = {.heads = 3,
                             .kv_heads = kv_heads,
                             .head_dim = length == 31 ? 128 : (length == 300 ? 256 : 32),
                             .softcap = length == 33 ? 4.0 : 0.0};
        const std::int64_t features = kv_heads * c.head_dim;
        const Tensor memory = Tensor::randn({3, length, 2 * features}, 1, dtype);
        memory.slice(0, 1, 2).slice(1, length / 2, length).fill(NAN);  // padding is never looked at
        const Tensor query = Tensor::randn({5, c.heads * c.head_dim}, 2, dtype);
        const Tensor lengths = Tensor::from(Numbers{length, length / 2, 1}, {3});
        const Tensor source_of = Tensor::from(std::vector<std::int32_t>{2, 0, 1, 0, 7}, {5});
        expect_near(cross_attention_step(query.to(gpu), {memory.to(gpu), lengths.to(gpu), source_of.to(gpu)},
                                         scores_of(c, gpu)),
                    cross_attention_step(query, {memory, lengths, source_of}, scores_of(c, Device::cpu())),
                    tolerance(dtype), "length " + std::to_string(length));
      }
    }
  }
}

// Draws of the CPU, of which the rules leave a few tokens; sums differ in the last digit, and draws at such a border
// would too.
TEST(CudaDecoding, Samples) {
  const Device gpu = Device::cuda();
  constexpr std::int64_t kRows = 40;
  Numbers sequences(kRows);
  for (std::int64_t row = 0; row < kRows; ++row) sequences[static_cast<std::size_t>(row)] = 3 * row;
  for (const DType dtype : kDTypes) {
    for (const std::int64_t classes : {5, 300, 8003}) {
      for (const SampleRule& rule :
           {SampleRule{.seed = 1}, SampleRule{.temperature = 0.7, .top_k = 3, .seed = 2},
            SampleRule{.temperature = 1.3, .top_p = 0.6, .seed = 3}, SampleRule{.min_p = 0.1, .seed = 4},
            SampleRule{.temperature = 0.9, .top_k = 40, .top_p = 0.9, .min_p = 0.02, .seed = 5}}) {
        const Tensor logits = Tensor::randn({kRows, classes}, 3, dtype);
        logits.slice(0, 1, 2).fill(2.0);  // all equal
        logits.slice(0, 2, 3).slice(1, 0, classes / 2).fill(-INFINITY);
        logits.slice(0, 3, 4).fill(-INFINITY);
        const auto draw = [&](Device device) {
          SampleTask task = {.logits = logits.to(device),
                             .rule = rule,
                             .sequences = Tensor::from(sequences, {kRows}).to(device),
                             .step = Tensor::from(Numbers{11}, {1}).to(device)};
          task.top = {Tensor::zeros({kRows, 1}, DType::int64, device),
                      Tensor::zeros({kRows, 1}, DType::float32, device),
                      Tensor::zeros({kRows}, DType::float32, device)};
          sample_tokens(task);
          return task.top;
        };
        const headway::internal::TopTokens here = draw(Device::cpu()), there = draw(gpu);
        const std::vector<double> a = there.tokens.to_vector(), b = here.tokens.to_vector();
        const auto same = std::inner_product(a.begin(), a.end(), b.begin(), std::int64_t{0}, std::plus<>(),
                                             [](double x, double y) { return x == y ? 1 : 0; });
        EXPECT_GE(same, kRows - 1) << classes << " classes, seed " << rule.seed;
        EXPECT_EQ(a[3], -1);
        EXPECT_EQ(draw(gpu).tokens.to_vector(), a);
        for (std::int64_t row = 0; row < 3; ++row) {
          EXPECT_NEAR(there.logsumexp.at({row}), here.logsumexp.at({row}), 1e-4);
        }
      }
    }
  }
}

TEST(CudaDecoding, TopTokens) {
  const Device gpu = Device::cuda();
  for (const DType dtype : kDTypes) {
    for (const std::int64_t classes : {1, 5, 300, 8003, 32000}) {
      for (const std::int64_t count : {1, 2, 8, 40}) {
        const Tensor logits = Tensor::randn({6, classes}, 3, dtype);
        logits.slice(0, 1, 2).fill(2.0);  // all equal
        logits.slice(0, 2, 3).slice(1, 0, classes / 2).fill(-INFINITY);
        const auto make = [&](Device device) {
          return headway::internal::TopTokens{Tensor::zeros({6, count}, DType::int64, device),
                                              Tensor::zeros({6, count}, DType::float32, device),
                                              Tensor::zeros({6}, DType::float32, device)};
        };
        const headway::internal::TopTokens here = make(Device::cpu()), there = make(gpu);
        top_tokens(logits, classes / 3, here);
        top_tokens(logits.to(gpu), classes / 3, there);
        const std::string what = std::to_string(count) + " of " + std::to_string(classes);
        EXPECT_EQ(there.tokens.to_vector(), here.tokens.to_vector()) << what;
        EXPECT_EQ(there.logits.to_vector(), here.logits.to_vector()) << what;
        expect_near(there.logsumexp, here.logsumexp, 1e-5, what);
      }
    }
  }
}

// A recorded step moves on by itself: what it reads is on the GPU. Its kernels overlap and must still see each other's
// results.
TEST(CudaDecoding, StepsAreRecorded) {
  constexpr std::int64_t kRows = 4, kWidth = 64, kHidden = 96, kClasses = 1000, kCapacity = 100, kLayers = 3;
  const ScoreCase c = {.heads = 4, .kv_heads = 2, .head_dim = 16, .capacity = kCapacity, .rotated = 16};
  const auto run = [&](Device device, DType dtype, bool recorded) {
    const auto made = [&](const Shape& shape, std::uint64_t seed) {
      return scale(Tensor::randn(shape, seed), 1 / std::sqrt(static_cast<double>(shape[1]))).to(dtype).to(device);
    };
    const Tensor embedding = scale(Tensor::randn({kClasses, kWidth}, 1), 4.0).to(dtype).to(device);
    std::vector<PackedWeight> in, out, up, down;
    std::vector<CacheAppend> caches;
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      const auto seed = static_cast<std::uint64_t>(10 * layer);
      in.push_back(pack_weight(made({(c.heads + 2 * c.kv_heads) * c.head_dim, kWidth}, seed + 2), {}));
      out.push_back(pack_weight(made({kWidth, c.heads * c.head_dim}, seed + 3), {}));
      up.push_back(pack_weight(made({2 * kHidden, kWidth}, seed + 4), {}));
      down.push_back(pack_weight(made({kWidth, kHidden}, seed + 5), {}));
      caches.push_back(cache_of(c, kRows, dtype, device));
    }
    const PackedWeight output = pack_weight(embedding, {});
    const StepNormWeights norm = {.kind = StepNorm::rms, .weight = Tensor::full({kWidth}, 1.0, dtype).to(device)};
    const Tensor newest = Tensor::from(Numbers{5, 6, 7, 8}, {kRows}).to(device);
    const Tensor positions = Tensor::from(Numbers{0, 3, 1, 0}, {kRows}).to(device);
    const Tensor step_number = Tensor::zeros({1}, DType::int64, device);
    const headway::internal::TopTokens top = {Tensor::zeros({kRows, 1}, DType::int64, device),
                                              Tensor::zeros({kRows, 1}, DType::float32, device),
                                              Tensor::zeros({kRows}, DType::float32, device)};
    const headway::internal::TokenHistory history = {Tensor::zeros({kCapacity, kRows}, DType::int64, device),
                                                     Tensor::zeros({kCapacity, kRows}, DType::float32, device)};
    const auto step = [&] {
      Tensor x = embed_step(embedding, newest, {}, {}, 1.0);
      for (std::size_t layer = 0; layer < caches.size(); ++layer) {
        CacheAppend append = caches[layer];
        append.projected = linear_step(x, in[layer], {.norm = norm});
        append.positions = positions;
        const Tensor attended = self_attention_step(append, scores_of(c, device));
        x = linear_step(attended, out[layer], {.added = x});
        const Tensor hidden =
            linear_step(x, up[layer], {.norm = norm, .activation = headway::Activation::silu, .gated = true});
        x = linear_step(hidden, down[layer], {.added = x});
      }
      top_tokens(linear_step(x, output, {.norm = norm}), 0, top);
      take_best({top, newest, history, positions, step_number});
    };
    step();
    if (recorded) {
      const headway::DeviceGraph graph(device, step);
      for (int i = 1; i < kCapacity - 3; ++i) graph.replay();
    } else {
      for (int i = 1; i < kCapacity - 3; ++i) step();
    }
    EXPECT_EQ(positions.to_vector(), (std::vector<double>{97, 100, 98, 97}));
    return history.tokens.to_vector();
  };
  const std::vector<double> expected = run(Device::cpu(), DType::float32, false);
  EXPECT_EQ(run(Device::cuda(), DType::float32, false), expected);
  EXPECT_EQ(run(Device::cuda(), DType::float32, true), expected);
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    const std::vector<double> once = run(Device::cuda(), dtype, false);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(run(Device::cuda(), dtype, true), once);
  }
}

}  // namespace
}  // namespace headway_test
