// TransformerBlock: every option against a block in plain loops, gradients, caches, packed and padded batches.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "headway/ops.h"
#include "headway/random.h"
#include "headway/transformer_block.h"
#include "support/gradcheck.h"
#include "support/message_of.h"
#include "support/plain_block.h"

namespace headway_test {
namespace {

using headway::Activation;
using headway::BlockInput;
using headway::BlockOptions;
using headway::BlockResult;
using headway::DType;
using headway::KeyValueCache;
using headway::Mask;
using headway::NormKind;
using headway::NormPlace;
using headway::RotaryPositions;
using headway::RotaryScaling;
using headway::Shape;
using headway::Tensor;
using headway::TransformerBlock;
using headway::Weights;

constexpr std::int64_t kWidth = 12;

struct BlockCase {
  std::string name;
  BlockOptions options;
};

// A small block with random parameters, which are not those that it begins with.
TransformerBlock random_block(BlockOptions options) {
  options.dtype = DType::float64;
  const TransformerBlock block(options);
  std::uint64_t seed = 100;
  for (const auto& [name, parameter] : block.named_parameters()) {
    parameter.detach().copy_from(headway::scale(Tensor::randn(parameter.shape(), ++seed, DType::float64), 0.4));
  }
  block.eval();
  return block;
}

// Each option on and off, alone and with others, as families have them.
std::vector<BlockCase> block_cases() {
  const BlockOptions plain = {.width = kWidth, .heads = 3, .hidden = 10};
  std::vector<BlockCase> all = {{"plain", plain}};
  const auto add = [&](const std::string& name, const std::function<void(BlockOptions&)>& change) {
    all.push_back({name, plain});
    change(all.back().options);
  };
  add("after", [](BlockOptions& o) { o.norm_place = NormPlace::after; });
  add("both", [](BlockOptions& o) { o.norm_place = NormPlace::both; });
  add("no attention norm", [](BlockOptions& o) { o.has_attention_norm = false; });
  add("no norm bias", [](BlockOptions& o) { o.norm_bias = false, o.norm_epsilon = 0.1; });
  add("no biases",
      [](BlockOptions& o) { o.query_bias = o.key_bias = o.value_bias = o.output_bias = o.feed_forward_bias = false; });
  add("some biases", [](BlockOptions& o) { o.key_bias = o.output_bias = false; });
  for (const Activation activation : {Activation::relu, Activation::gelu_tanh, Activation::silu}) {
    add("activation", [=](BlockOptions& o) { o.activation = activation; });
    add("gated", [=](BlockOptions& o) { o.activation = activation, o.gated = true; });
  }
  add("fused", [](BlockOptions& o) { o.fused_qkv = o.gated = o.fused_gate_up = true; });
  add("grouped heads", [](BlockOptions& o) { o.heads = 4, o.kv_heads = 2, o.head_dim = 6; });
  add("scale, softcap", [](BlockOptions& o) { o.scale = 0.9, o.softcap = 1.5; });
  add("causal", [](BlockOptions& o) { o.causal = true; });
  add("window", [](BlockOptions& o) { o.window = {.left = 1, .right = 1}; });
  add("causal window", [](BlockOptions& o) { o.causal = true, o.window.left = 2; });
  add("alibi", [](BlockOptions& o) { o.alibi_slopes = {0.5, 0.25, 0.125}; });
  add("sinks", [](BlockOptions& o) { o.sinks = true; });
  add("rotary", [](BlockOptions& o) { o.rotary = RotaryPositions{.base = 100}; });
  add("rotary, interleaved", [](BlockOptions& o) { o.rotary = RotaryPositions{.dims = 2, .interleaved = true}; });
  add("rotary, dynamic", [](BlockOptions& o) {
    o.rotary = RotaryPositions{.max_length = 3, .scaling = {.kind = RotaryScaling::Kind::dynamic, .factor = 2}};
  });
  add("llama", [](BlockOptions& o) {
    o.norm = NormKind::rms, o.gated = o.causal = true, o.activation = Activation::silu;
    o.heads = 4, o.kv_heads = 2, o.head_dim = 4, o.rotary = RotaryPositions{};
    o.query_bias = o.key_bias = o.value_bias = o.output_bias = o.feed_forward_bias = false;
  });
  add("phi", [](BlockOptions& o) {
    o.norm = NormKind::rms, o.gated = o.causal = o.fused_qkv = o.fused_gate_up = true, o.rotary = RotaryPositions{};
    o.query_bias = o.key_bias = o.value_bias = o.output_bias = o.feed_forward_bias = false;
  });
  add("gemma", [](BlockOptions& o) {
    o.norm = NormKind::rms_plus_one, o.norm_place = NormPlace::both, o.gated = o.causal = o.query_key_norm = true;
    o.activation = Activation::gelu_tanh, o.rotary = RotaryPositions{.base = 1000}, o.kv_heads = 1, o.softcap = 3.0;
  });
  add("heads' norms", [](BlockOptions& o) { o.query_key_norm = o.fused_qkv = true; });
  add("cross", [](BlockOptions& o) { o.causal = o.cross_attention = true; });
  add("cross, after",
      [](BlockOptions& o) { o.causal = o.cross_attention = true, o.norm_place = NormPlace::after, o.kv_heads = 1; });
  return all;
}

Tensor random(const Shape& shape, std::uint64_t seed) { return Tensor::randn(shape, seed, DType::float64); }

void expect_rows(const Tensor& actual, const Rows& expected, double tolerance = 1e-11) {
  ASSERT_EQ(actual.size(0), static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> row = actual.select(0, static_cast<std::int64_t>(i)).to_vector();
    ASSERT_EQ(row.size(), expected[i].size());
    for (std::size_t j = 0; j < row.size(); ++j) ASSERT_NEAR(row[j], expected[i][j], tolerance) << i << ", " << j;
  }
}

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance = 1e-11) {
  ASSERT_EQ(actual.shape().to_string(), expected.shape().to_string());
  const std::vector<double> a = actual.to_vector(), e = expected.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], tolerance) << "at " << i;
}

TEST(TransformerBlock, EveryOptionAgainstPlainLoops) {
  const Tensor x = random({2, 5, kWidth}, 1), memory = random({2, 4, kWidth}, 2);
  for (const auto& one : block_cases()) {
    const std::string& name = one.name;
    const auto& options = one.options;
    SCOPED_TRACE(name);
    const TransformerBlock block = random_block(options);
    BlockInput input = {.x = x, .weights = Weights::per_head};
    if (options.cross_attention) input.memory = memory;
    const BlockResult result = block.forward(input);
    ASSERT_EQ(result.cross_weights.defined(), options.cross_attention);
    for (std::int64_t entry = 0; entry < 2; ++entry) {
      const headway::StateDict state = block.state_dict();
      const PlainResult expected =
          plain_block({.x = rows_of(x.select(0, entry)), .memory = rows_of(memory.select(0, entry))},
                      PlainParameters(state, ""), block.options());
      expect_rows(result.output.select(0, entry), expected.output);
      for (std::int64_t h = 0; h < options.heads; ++h) {
        const auto head = static_cast<std::size_t>(h);
        expect_rows(result.weights.select(0, entry).select(0, h), expected.weights[head]);
        if (!options.cross_attention) continue;
        expect_rows(result.cross_weights.select(0, entry).select(0, h), expected.cross_weights[head]);
      }
    }
  }
}

TEST(TransformerBlock, Gradients) {
  for (const auto& one : block_cases()) {
    const std::string& name = one.name;
    const auto& options = one.options;
    SCOPED_TRACE(name);
    const TransformerBlock block = random_block(options);
    std::vector<std::string> names;
    std::vector<Tensor> inputs = {random({2, 3, kWidth}, 1), random({2, 2, kWidth}, 2)};
    for (const auto& [parameter, tensor] : block.named_parameters()) {
      names.push_back(parameter);
      inputs.push_back(tensor.detach().clone());
    }
    const auto run = [&](const std::vector<Tensor>& in) {
      for (std::size_t i = 0; i < names.size(); ++i) block.set_parameter(names[i], in[i + 2]);
      BlockInput input = {.x = in[0]};
      if (options.cross_attention) input.memory = in[1];
      const Tensor output = block.forward(input).output;
      return options.cross_attention ? output : headway::add(output, headway::mean(in[1]));
    };
    check_gradients(run, inputs, {.elements = 3});
  }
}

TEST(TransformerBlock, ACacheChangesNothing) {
  const std::int64_t length = 6;
  const Tensor x = random({2, length, kWidth}, 1), memory = random({2, 4, kWidth}, 2);
  for (BlockCase& one : block_cases()) {
    SCOPED_TRACE(one.name);
    one.options.causal = true;
    if (one.name == "rotary, dynamic") continue;  // its frequencies grow with the text, and cached keys keep theirs
    const TransformerBlock block = random_block(one.options);
    BlockInput whole = {.x = x, .weights = Weights::per_head};
    if (one.options.cross_attention) whole.memory = memory, whole.memory_lengths = {4, 2};
    const BlockResult expected = block.forward(whole);
    KeyValueCache cache, memory_cache;
    for (std::int64_t begin = 0; begin < length;) {
      const std::int64_t end = begin == 0 ? 3 : begin + 1;  // a prompt, then token by token
      BlockInput step = whole;
      step.x = x.slice(1, begin, end);
      step.cache = &cache;
      if (one.options.cross_attention) step.memory_cache = &memory_cache;
      const BlockResult result = block.forward(step);
      expect_near(result.output, expected.output.slice(1, begin, end));
      expect_near(result.weights, expected.weights.slice(2, begin, end).slice(3, 0, end));
      if (one.options.cross_attention) expect_near(result.cross_weights, expected.cross_weights.slice(2, begin, end));
      begin = end;
    }
  }
}

// Texts of 2, 5 and 3 tokens one by one, packed, padded behind and padded before.
TEST(TransformerBlock, PackedAndPaddedBatchesAreTheTextsOneByOne) {
  const std::vector<std::int64_t> lengths = {2, 5, 3};
  for (const auto& one : block_cases()) {
    const std::string& name = one.name;
    const auto& options = one.options;
    SCOPED_TRACE(name);
    if (options.cross_attention || name == "rotary, dynamic") continue;
    const TransformerBlock block = random_block(options);
    const Tensor all = random({1, 10, kWidth}, 1);
    const Tensor packed = block.forward({.x = all, .packed = {0, 2, 7, 10}}).output;
    Tensor right = random({3, 5, kWidth}, 2), left = random({3, 5, kWidth}, 3);
    Tensor mask = Tensor::zeros({3, 5}, DType::boolean), left_mask = Tensor::zeros({3, 5}, DType::boolean);
    std::vector<Tensor> expected;
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::int64_t length = lengths[static_cast<std::size_t>(i)];
      const Tensor text = all.slice(1, begin, begin + length);
      expected.push_back(block.forward({.x = text}).output.select(0, 0));
      expect_near(packed.select(0, 0).slice(0, begin, begin + length), expected.back());
      right.select(0, i).slice(0, 0, length).copy_from(text.select(0, 0));
      left.select(0, i).slice(0, 5 - length, 5).copy_from(text.select(0, 0));
      mask.select(0, i).slice(0, 0, length).fill(1);
      left_mask.select(0, i).slice(0, 5 - length, 5).fill(1);
      begin += length;
    }
    const Tensor by_lengths = block.forward({.x = right, .lengths = lengths}).output;
    const Tensor by_mask = block.forward({.x = right, .padding_mask = Mask::keep(mask)}).output;
    const Tensor positions = Tensor::from<std::int64_t>({0, 0, 0, 0, 1, 0, 1, 2, 3, 4, 0, 0, 0, 1, 2}, {3, 5});
    const Tensor before =
        block.forward({.x = left, .padding_mask = Mask::keep(left_mask), .positions = positions}).output;
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::int64_t length = lengths[static_cast<std::size_t>(i)];
      const Tensor& text = expected[static_cast<std::size_t>(i)];
      expect_near(by_lengths.select(0, i).slice(0, 0, length), text);
      expect_near(by_mask.select(0, i).slice(0, 0, length), text);
      expect_near(before.select(0, i).slice(0, 5 - length, 5), text);
    }
  }
}

TEST(TransformerBlock, MaskAndBias) {
  const TransformerBlock block = random_block({.width = kWidth, .heads = 3, .hidden = 8, .causal = true});
  const Tensor x = random({1, 4, kWidth}, 1), bias = random({1, 3, 4, 4}, 2);
  std::vector<bool> hidden(16, false);
  hidden[4] = hidden[14] = true;  // query 1's key 0, query 3's key 2
  const Tensor mask = Tensor::from<bool>(hidden, {4, 4});
  const headway::StateDict state = block.state_dict();
  const PlainText text = {.x = rows_of(x.select(0, 0)),
                          .score_bias =
                              [&](int h, int q, int k) {
                                return bias.at({0, h, q, k});
                              },
                          .is_visible = [&](int q, int k) { return !hidden[static_cast<std::size_t>(4 * q + k)]; }};
  const PlainResult expected = plain_block(text, PlainParameters(state, ""), block.options());
  expect_rows(block.forward({.x = x, .mask = Mask::drop(mask), .bias = bias}).output.select(0, 0), expected.output);
}

TEST(TransformerBlock, DropoutOnlyInTraining) {
  const BlockOptions options = {
      .width = kWidth, .heads = 3, .dropout = 0.3, .attention_dropout = 0.2, .activation_dropout = 0.1};
  const TransformerBlock block = random_block(options);
  const Tensor x = random({2, 4, kWidth}, 1);
  const Tensor first = block.forward({.x = x}).output;
  expect_near(block.forward({.x = x}).output, first, 0);
  block.train();
  headway::set_random_seed(3);
  const Tensor dropped = block.forward({.x = x}).output;
  EXPECT_GT(std::abs(headway::sum(headway::sub(dropped, first)).item()), 1e-3);
  headway::set_random_seed(3);
  expect_near(block.forward({.x = x}).output, dropped, 0);
}

TEST(TransformerBlock, SixteenBitsAreNear) {
  for (const auto& one : block_cases()) {
    const std::string& name = one.name;
    const auto& options = one.options;
    SCOPED_TRACE(name);
    const TransformerBlock block = random_block(options);
    const Tensor x = random({1, 5, kWidth}, 1), memory = random({1, 3, kWidth}, 2);
    const auto run = [&](DType dtype) {
      block.to(dtype);
      BlockInput input = {.x = x.to(dtype)};
      if (options.cross_attention) input.memory = memory.to(dtype);
      return block.forward(input).output.to(DType::float64);
    };
    const Tensor exact = run(DType::float64);
    expect_near(run(DType::float32), exact, 2e-5);
    expect_near(run(DType::float16), exact, 0.1);
    expect_near(run(DType::bfloat16), exact, 0.6);
  }
}

// What transformers 5.22 computes for heads of 16 features, with its float32.
TEST(RotaryFrequencies, AreThoseOfTransformers) {
  using Kind = RotaryScaling::Kind;
  struct Case {
    RotaryScaling scaling;
    std::int64_t max_length, length;
    std::vector<double> frequencies;
    double factor;
  };
  const RotaryScaling yarn = {.kind = Kind::yarn, .factor = 8, .original_length = 64};
  RotaryScaling yarn_mscale = yarn, yarn_factor = yarn;
  yarn_mscale.truncate = false, yarn_mscale.beta_fast = 4, yarn_mscale.beta_slow = 0.5;
  yarn_mscale.mscale = 0.7, yarn_mscale.mscale_all_dim = 0.3;
  yarn_factor.attention_factor = 0.5;
  const RotaryScaling longrope = {.kind = Kind::longrope,
                                  .factor = 8,
                                  .original_length = 64,
                                  .short_factors = {1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6},
                                  .long_factors = {2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}};
  const std::vector<double> plain = {1.0,           0.316227764,   0.100000001,   0.0316227786,
                                     0.00999999978, 0.00316227786, 0.00100000005, 0.000316227786};
  const std::vector<double> yarned = {1.0,           0.223994657,    0.0416666642,   0.00395284733,
                                      0.00124999997, 0.000395284733, 0.000125000006, 3.95284733e-05};
  const std::vector<Case> cases = {
      {{}, 64, 10, plain, 1.0},
      {{.kind = Kind::linear, .factor = 4},
       64,
       10,
       {0.25, 0.079056941, 0.0250000004, 0.00790569466, 0.00249999994, 0.000790569466, 0.000250000012, 7.90569466e-05},
       1.0},
      {{.kind = Kind::dynamic, .factor = 3}, 64, 10, plain, 1.0},
      {{.kind = Kind::dynamic, .factor = 3},
       64,
       200,
       {1.0, 0.237702638, 0.0565025434, 0.0134308031, 0.00319253746, 0.000758874579, 0.000180386472, 4.28783387e-05},
       1.0},
      {yarn, 512, 10, yarned, 1.2079441541679836},
      {yarn_factor, 512, 10, yarned, 0.5},
      {yarn_mscale,
       512,
       10,
       {1.0, 0.28740859, 0.0424417965, 0.00395284733, 0.00124999997, 0.000395284733, 0.000125000006, 3.95284733e-05},
       1.0782934613857693},
      {{.kind = Kind::llama3, .factor = 8, .original_length = 64},
       512,
       10,
       {1.0, 0.244384587, 0.0130422562, 0.00395284733, 0.00124999997, 0.000395284733, 0.000125000006, 3.95284733e-05},
       1.0},
      {longrope,
       512,
       64,
       {1.0, 0.301169306, 0.0909090936, 0.0263523124, 0.0076923077, 0.00225876993, 0.00066666666, 0.000197642366},
       1.224744871391589},
      {longrope,
       512,
       65,
       {0.5, 0.126491114, 0.0333333351, 0.00790569466, 0.00200000009, 0.00052704633, 0.000142857141, 3.95284733e-05},
       1.224744871391589}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    const auto result =
        headway::rotary_frequencies({.max_length = one.max_length, .scaling = one.scaling}, 16, one.length);
    ASSERT_EQ(result.frequencies.size(), one.frequencies.size());
    for (std::size_t j = 0; j < one.frequencies.size(); ++j) {
      EXPECT_NEAR(result.frequencies[j] / one.frequencies[j], 1.0, 1e-6) << "case " << i << ", pair " << j;
    }
    EXPECT_NEAR(result.factor, one.factor, 1e-12) << "case " << i;
  }
}

TEST(TransformerBlock, Errors) {
  const auto message = [](const BlockOptions& options) { return message_of([&] { TransformerBlock{options}; }); };
  EXPECT_EQ(message({.width = 10, .heads = 3}),
            "TransformerBlock: width is 10, which is not a multiple of heads, 3; then head_dim has to be given");
  EXPECT_EQ(message({.width = 12, .heads = 3, .kv_heads = 2}),
            "TransformerBlock: heads is 3, which is not a multiple of kv_heads, 2");
  EXPECT_EQ(message({.width = 12, .heads = 3, .alibi_slopes = {1.0}}),
            "TransformerBlock: alibi_slopes has 1 numbers, expected one for each of 3 heads");
  EXPECT_EQ(message({.width = 12, .key_bias = false, .fused_qkv = true}),
            "TransformerBlock: fused_qkv needs query_bias, key_bias and value_bias to be equal");
  EXPECT_EQ(message({.width = 12, .dropout = 1.0}),
            "TransformerBlock: dropout is 1, expected 0 or more and less than 1");
  const TransformerBlock block({.width = 12, .heads = 3});
  const auto call = [&](const BlockInput& input) { return message_of([&] { block.forward(input); }); };
  const Tensor x = Tensor::zeros({2, 4, 12}), keep = Tensor::zeros({2, 4}, DType::boolean);
  EXPECT_EQ(call({.x = Tensor::zeros({2, 12})}), "TransformerBlock: x is float32[2, 12], expected [batch, length, 12]");
  EXPECT_EQ(call({.x = x, .lengths = {2, 5}}), "TransformerBlock: lengths has 5 at 1, expected 0 to 4");
  EXPECT_EQ(call({.x = x, .lengths = {2, 3}, .padding_mask = Mask::keep(keep)}),
            "TransformerBlock: lengths and padding_mask are both given, expected one of them");
  EXPECT_EQ(call({.x = x, .padding_mask = Mask::keep(keep.slice(1, 0, 3))}),
            "TransformerBlock: padding_mask is bool[2, 3], expected bool[2, 4]");
  EXPECT_EQ(call({.x = x, .packed = {0, 4}}),
            "TransformerBlock: x is float32[2, 4, 12], expected a batch of 1 with packed sequences");
  EXPECT_EQ(call({.x = x, .memory = x}), "TransformerBlock: memory is given, and the block has no cross_attention");
}

}  // namespace
}  // namespace headway_test
