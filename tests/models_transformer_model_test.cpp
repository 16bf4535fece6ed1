// TransformerModel: every kind, head and position against plain loops, gradients, caches, packed and padded texts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "headway/device.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "models/relative_bias.h"
#include "models/transformer_model_parts.h"
#include "support/gradcheck.h"
#include "support/message_of.h"
#include "support/plain_model.h"
#include "support/small_models.h"

namespace headway_test {
namespace {

using headway::DType;
using headway::HeadKind;
using headway::HeadOptions;
using headway::InitialValues;
using headway::Mask;
using headway::ModelCache;
using headway::ModelInput;
using headway::ModelKind;
using headway::ModelResult;
using headway::Shape;
using headway::StateDict;
using headway::Tensor;
using headway::TransformerModel;
using headway::TransformerModelOptions;
using headway::Weights;
using headway::internal::make_transformer_model;

// ---- helpers ----

Tensor ids(const std::vector<Ids>& rows) {
  Ids all;
  for (const Ids& row : rows) all.insert(all.end(), row.begin(), row.end());
  return Tensor::from(all, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size())});
}

void expect_rows(const Tensor& actual, const Rows& expected, double tolerance = 1e-10) {
  ASSERT_EQ(actual.size(0), static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> row = actual.select(0, static_cast<std::int64_t>(i)).to_vector();
    ASSERT_EQ(row.size(), expected[i].size());
    for (std::size_t j = 0; j < row.size(); ++j) ASSERT_NEAR(row[j], expected[i][j], tolerance) << i << ", " << j;
  }
}

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance = 1e-10) {
  ASSERT_EQ(actual.shape().to_string(), expected.shape().to_string());
  const std::vector<double> a = actual.to_vector(), e = expected.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], tolerance) << "at " << i;
}

const std::vector<Ids> kTexts = {{3, 1, 4, 1, 5}, {9, 2}, {6, 5, 3}};
const std::vector<Ids> kTargets = {{2, 7, 1, 8}, {2, 8, 1, 8}, {2, 8, 4, 5}};
const Ids kLengths = {5, 2, 3};

Ids padded(const Ids& text, bool left) {
  Ids row(5 - text.size(), 10);
  row.insert(left ? row.end() : row.begin(), text.begin(), text.end());
  return row;
}

bool has_target(const TransformerModelOptions& options) { return options.kind == ModelKind::encoder_decoder; }

// ---- tests ----

TEST(TransformerModel, EveryKindAgainstPlainLoops) {
  for (const auto& one : model_cases()) {
    const std::string& name = one.name;
    const auto& options = one.options;
    SCOPED_TRACE(name);
    const TransformerModel model = random_model(options);
    const Ids types = options.encoder.token_types > 0 ? Ids{0, 1, 1, 0, 1} : Ids{};
    ModelInput input = {.tokens = ids({kTexts[0]})};
    if (has_target(options)) input.target = ids({kTargets[0]});
    if (!types.empty()) input.token_types = ids({types});
    const ModelResult result = model.forward(input);
    const PlainModelResult expected = plain_model(model, kTexts[0], kTargets[0], types);
    expect_rows(result.hidden.select(0, 0), expected.hidden);
    ASSERT_EQ(result.logits.defined(), options.head.kind != HeadKind::none);
    if (!result.logits.defined()) continue;
    expect_rows(options.head.kind == HeadKind::sequence ? result.logits : result.logits.select(0, 0), expected.logits);
  }
}

// Texts in one batch: padded behind (lengths, mask), padded before, packed; each is the text alone.
TEST(TransformerModel, PackedAndPaddedTextsAreTheTextsOneByOne) {
  for (const auto& one : model_cases()) {
    const std::string& name = one.name;
    const auto& options = one.options;
    SCOPED_TRACE(name);
    const TransformerModel model = random_model(options);
    std::vector<Ids> right, left;
    Ids packed;
    Tensor keep = Tensor::zeros({3, 5}, DType::boolean), keep_left = Tensor::zeros({3, 5}, DType::boolean);
    for (std::int64_t i = 0; i < 3; ++i) {
      const Ids& text = kTexts[static_cast<std::size_t>(i)];
      right.push_back(padded(text, false));
      left.push_back(padded(text, true));
      packed.insert(packed.end(), text.begin(), text.end());
      keep.select(0, i).slice(0, 0, kLengths[static_cast<std::size_t>(i)]).fill(1);
      keep_left.select(0, i).slice(0, 5 - kLengths[static_cast<std::size_t>(i)], 5).fill(1);
    }
    ModelInput by_lengths = {.tokens = ids(right), .lengths = kLengths};
    ModelInput by_mask = {.tokens = ids(right), .padding_mask = Mask::drop(headway::logical_not(keep))};
    ModelInput before = {.tokens = ids(left), .padding_mask = Mask::keep(keep_left)};
    ModelInput end_to_end = {.tokens = ids({packed}), .packed = {0, 5, 7, 10}};
    for (ModelInput* input : {&by_lengths, &by_mask, &before, &end_to_end}) {
      if (has_target(options)) input->target = ids(kTargets);
    }
    const ModelResult a = model.forward(by_lengths), b = model.forward(by_mask), c = model.forward(before),
                      d = model.forward(end_to_end);
    const bool of_texts = options.head.kind == HeadKind::sequence;
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < 3; ++i) {
      const auto index = static_cast<std::size_t>(i);
      ModelInput alone = {.tokens = ids({kTexts[index]})};
      if (has_target(options)) alone.target = ids({kTargets[index]});
      const ModelResult expected = model.forward(alone);
      const std::int64_t length = has_target(options) ? 4 : kLengths[index];
      const auto check = [&](const Tensor& got, const Tensor& wanted, std::int64_t first) {
        expect_near(got.slice(0, first, first + length), wanted.select(0, 0));
      };
      const auto check_all = [&](auto member) {
        check((a.*member).select(0, i), expected.*member, 0);
        check((b.*member).select(0, i), expected.*member, 0);
        check((c.*member).select(0, i), expected.*member, has_target(options) ? 0 : 5 - length);
        has_target(options) ? check((d.*member).select(0, i), expected.*member, 0)
                            : check((d.*member).select(0, 0), expected.*member, begin);
      };
      check_all(&ModelResult::hidden);
      if (options.head.kind != HeadKind::none && !of_texts) check_all(&ModelResult::logits);
      for (const ModelResult* got : {&a, &b, &c, &d}) {
        if (of_texts) expect_near(got->logits.select(0, i), expected.logits.select(0, 0));
        if (options.pooler) expect_near(got->pooled.select(0, i), expected.pooled.select(0, 0));
      }
      begin += kLengths[index];
    }
  }
}

TEST(TransformerModel, ACacheChangesNothing) {
  for (const auto& one : model_cases()) {
    const std::string& name = one.name;
    const auto& options = one.options;
    SCOPED_TRACE(name);
    if (options.kind == ModelKind::encoder || options.head.kind == HeadKind::sequence) continue;
    const TransformerModel model = random_model(options);
    const Tensor tokens = ids({{2, 7, 1, 8, 2, 8}, {1, 8, 2, 8, 4, 5}});
    ModelInput whole = {.tokens = tokens, .weights = Weights::per_head};
    Tensor memory;
    if (has_target(options)) {
      whole = {
          .tokens = ids({kTexts[0], kTexts[0]}), .lengths = {5, 3}, .target = tokens, .weights = Weights::per_head};
      memory = model.encode({.tokens = whole.tokens, .lengths = whole.lengths}).hidden;
    }
    const ModelResult expected = model.forward(whole);
    ModelCache cache;
    for (std::int64_t begin = 0; begin < 6;) {
      const std::int64_t end = begin == 0 ? 3 : begin + 1;
      const ModelInput step = {.tokens = tokens.slice(1, begin, end), .weights = Weights::per_head};
      const ModelResult result =
          model.decode(step, cache, memory, has_target(options) ? whole.lengths : headway::PerEntry());
      expect_near(result.logits, expected.logits.slice(1, begin, end));
      expect_near(model.logits_of(result.hidden), result.logits);
      for (std::size_t layer = 0; layer < 2; ++layer) {
        expect_near(result.decoder_weights[layer],
                    expected.decoder_weights[layer].slice(2, begin, end).slice(3, 0, end));
      }
      begin = end;
    }
    EXPECT_EQ(cache.length(), 6);
    // The entries exchanged: each continues as the other.
    cache.reorder({1, 0});
    const Tensor next = ids({{3}, {4}}), exchanged = ids({{4}, {3}});
    ModelCache plain;
    model.decode({.tokens = tokens}, plain, memory, has_target(options) ? whole.lengths : headway::PerEntry());
    if (has_target(options)) continue;  // the memory would have to be exchanged too
    const Tensor a = model.decode({.tokens = next, .last_only = true}, cache).logits;
    const Tensor b = model.decode({.tokens = exchanged, .last_only = true}, plain).logits;
    expect_near(a.select(0, 0), b.select(0, 1));
    expect_near(a.select(0, 1), b.select(0, 0));
  }
}

// Prompts of different lengths, padded before or behind, continue as each alone. Windows count the padding between
// tokens, so that prompts of Gemma are padded before.
TEST(TransformerModel, PaddedPromptsContinue) {
  for (const TransformerModelOptions& options : {gpt2(), gemma()}) {
    const TransformerModel model = random_model(options);
    for (const bool left : {true, false}) {
      if (!left && options.decoder.layers[0].window.left) continue;
      const Tensor prompts = ids({padded(kTexts[1], left), padded(kTexts[0], left)});
      Tensor keep = Tensor::full({2, 6}, 1, DType::boolean);
      keep.select(0, 0).slice(0, left ? 0 : 2, left ? 3 : 5).fill(0);
      ModelCache cache;
      const Tensor first =
          model.decode({.tokens = prompts, .padding_mask = Mask::keep(keep.slice(1, 0, 5)), .last_only = true}, cache)
              .logits;
      const Tensor second =
          model.decode({.tokens = ids({{7}, {8}}), .padding_mask = Mask::keep(keep), .last_only = true}, cache).logits;
      for (std::int64_t i = 0; i < 2; ++i) {
        Ids text = kTexts[i == 0 ? 1 : 0];
        const auto last = [&] { return model.forward({.tokens = ids({text}), .last_only = true}).logits.select(0, 0); };
        expect_near(first.select(0, i), last());
        text.push_back(i == 0 ? 7 : 8);
        expect_near(second.select(0, i), last());
      }
    }
  }
}

TEST(TransformerModel, LastOnlyIsTheLastToken) {
  const TransformerModel model = random_model(gpt2());
  const Tensor tokens = ids({padded(kTexts[0], false), padded(kTexts[2], false)});
  const Tensor all = model.forward({.tokens = tokens, .lengths = {5, 3}}).logits;
  const Tensor last = model.forward({.tokens = tokens, .lengths = {5, 3}, .last_only = true}).logits;
  ASSERT_EQ(last.shape(), (Shape{2, 1, kVocabulary}));
  expect_near(last.select(0, 0), all.select(0, 0).slice(0, 4, 5));
  expect_near(last.select(0, 1), all.select(0, 1).slice(0, 2, 3));
}

TEST(TransformerModel, Gradients) {
  for (const auto& one : model_cases()) {
    const std::string& name = one.name;
    const auto& options = one.options;
    SCOPED_TRACE(name);
    const TransformerModel model = random_model(options);
    std::vector<std::string> names;
    std::vector<Tensor> inputs;
    for (const auto& [parameter, tensor] : model.named_parameters()) {
      if (options.head.kind == HeadKind::none && parameter.starts_with("pooler")) continue;
      names.push_back(parameter);
      inputs.push_back(tensor.detach().clone());
    }
    const auto run = [&](const std::vector<Tensor>& in) {
      for (std::size_t i = 0; i < names.size(); ++i) model.set_parameter(names[i], in[i]);
      ModelInput input = {.tokens = ids({{3, 1, 4}, {1, 5, 10}}), .lengths = {3, 2}};
      if (has_target(options)) input.target = ids({{2, 7}, {2, 9}});
      const ModelResult result = model.forward(input);
      return result.logits.defined() ? result.logits : result.hidden;
    };
    check_gradients(run, inputs, {.elements = 2});
  }
}

TEST(TransformerModel, EmptyTexts) {
  const TransformerModel model = random_model(bert({}));
  EXPECT_EQ(model.forward({.tokens = Tensor::zeros({2, 0}, DType::int64)}).hidden.shape(), (Shape{2, 0, 8}));
  EXPECT_EQ(model.forward({.tokens = Tensor::zeros({0, 3}, DType::int64)}).hidden.shape(), (Shape{0, 3, 8}));
  const Tensor packed = model.forward({.tokens = ids({{9, 2, 6}}), .packed = {0, 2, 2, 3}}).hidden;
  expect_near(packed.slice(1, 0, 2), model.forward({.tokens = ids({{9, 2}})}).hidden);
  const TransformerModel classifier = random_model(bert({.kind = HeadKind::sequence, .labels = 2}));
  EXPECT_EQ(message_of([&] {
              classifier.forward({.tokens = ids({{9, 2, 6}}), .packed = {0, 2, 2, 3}});
            }),
            "TransformerModel::forward: text 1 has no tokens, expected at least one");
}

TEST(TransformerModel, WeightsOfEveryLayer) {
  const TransformerModel model = random_model(t5());
  const ModelResult result =
      model.forward({.tokens = ids({kTexts[0]}), .target = ids({kTargets[0]}), .weights = Weights::mean});
  ASSERT_EQ(result.encoder_weights.size(), 2u);
  ASSERT_EQ(result.decoder_weights.size(), 2u);
  ASSERT_EQ(result.cross_weights.size(), 2u);
  EXPECT_EQ(result.encoder_weights[1].shape(), (Shape{1, 5, 5}));
  EXPECT_EQ(result.decoder_weights[1].shape(), (Shape{1, 4, 4}));
  EXPECT_EQ(result.cross_weights[1].shape(), (Shape{1, 4, 5}));
  EXPECT_TRUE(model.forward({.tokens = ids({kTexts[0]}), .target = ids({kTargets[0]})}).cross_weights.empty());
}

TEST(TransformerModel, DropoutOnlyInTraining) {
  TransformerModelOptions options = bert({.kind = HeadKind::sequence, .labels = 2, .dropout = 0.2});
  options.encoder.embedding_dropout = options.encoder.final_dropout = 0.2;
  const TransformerModel model = random_model(options);
  const ModelInput input = {.tokens = ids({kTexts[0]})};
  const Tensor first = model.forward(input).logits;
  expect_near(model.forward(input).logits, first, 0);
  model.train();
  EXPECT_NE(model.forward(input).logits.to_vector(), first.to_vector());
}

// T5's rule: numbers from transformers 5.22 for distances from -20 to 20.
TEST(TransformerModel, RelativeBuckets) {
  using headway::internal::relative_bucket;
  for (std::int64_t distance = -20; distance <= 20; ++distance) {
    const auto at = static_cast<std::size_t>(distance + 20);
    static const Ids both = {3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 1, 0,
                             5, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
    static const Ids backward = {7, 7, 7, 7, 7, 7, 7, 6, 6, 6, 6, 6, 5, 5, 5, 4, 4, 3, 2, 1, 0,
                                 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_EQ(relative_bucket(distance, {8, 20, true}), both[at]) << distance;
    EXPECT_EQ(relative_bucket(distance, {8, 20, false}), backward[at]) << distance;
  }
  EXPECT_EQ(relative_bucket(-128, {}), 15);
  EXPECT_EQ(relative_bucket(64, {}), 30);
}

double deviation_of(const Tensor& tensor) {
  double sum = 0;
  for (const double value : tensor.to_vector()) sum += value * value;
  return std::sqrt(sum / static_cast<double>(tensor.element_count()));
}

TEST(TransformerModel, InitialValuesOfEachRule) {
  const auto state_of = [](TransformerModelOptions options, InitialValues::Rule rule, double deviation) {
    options.vocab_size = 400;
    options.padding_row = 3;
    options.initial_values = {.rule = rule, .deviation = deviation};
    headway::set_random_seed(1);
    return make_transformer_model(options, "test", "{}", "", DType::float32, true).state_dict();
  };
  StateDict state = state_of(gemma(), InitialValues::Rule::normal, 0.02);
  EXPECT_NEAR(deviation_of(state.at("embedding.weight")), 0.02, 0.002);
  EXPECT_EQ(deviation_of(state.at("embedding.weight").select(0, 3)), 0.0);
  EXPECT_EQ(deviation_of(state.at("decoder.norm.weight")), 0.0);
  state = state_of(gpt2(), InitialValues::Rule::gpt2, 0.02);
  EXPECT_NEAR(deviation_of(state.at("decoder.layers.0.attention.qkv.weight")), 0.02, 0.004);
  EXPECT_NEAR(deviation_of(state.at("decoder.layers.1.feed_forward.down.weight")), 0.01, 0.003);
  EXPECT_EQ(deviation_of(state.at("decoder.layers.1.feed_forward.down.bias")), 0.0);
  EXPECT_EQ(deviation_of(state.at("decoder.norm.weight")), 1.0);
  state = state_of(t5(), InitialValues::Rule::t5, 1.0);
  EXPECT_NEAR(deviation_of(state.at("embedding.weight")), 1.0, 0.1);
  EXPECT_NEAR(deviation_of(state.at("encoder.layers.0.attention.query.weight")), 1 / std::sqrt(8.0 * 3), 0.08);
  EXPECT_NEAR(deviation_of(state.at("encoder.layers.0.attention.key.weight")), 1 / std::sqrt(8.0), 0.1);
  EXPECT_NEAR(deviation_of(state.at("decoder.layers.0.cross.output.weight")), 1 / std::sqrt(6.0), 0.1);
  EXPECT_NEAR(deviation_of(state.at("decoder.layers.0.feed_forward.down.weight")), 1 / std::sqrt(6.0), 0.1);
  EXPECT_NEAR(deviation_of(state.at("head.output.weight")), 1.0, 0.1);
  state = state_of(modern_bert(), InitialValues::Rule::modernbert, 0.02);
  double greatest = 0;
  for (const double value : state.at("embedding.weight").to_vector()) greatest = std::max(greatest, std::abs(value));
  EXPECT_LE(greatest, 0.04 + 1e-9);
  EXPECT_GT(greatest, 0.038);
  EXPECT_NEAR(deviation_of(state.at("encoder.layers.0.attention.output.weight")), 0.01 * 0.88, 0.002);
  EXPECT_NEAR(deviation_of(state.at("head.output.weight")), 0.88 / std::sqrt(8.0), 0.12);
}

TEST(TransformerModel, WithoutInitialValuesNothingIsDrawn) {
  headway::set_random_seed(1);
  make_transformer_model(t5(), "t5", "{}", "", DType::bfloat16, false);
  EXPECT_EQ(headway::random_state().drawn, 0u);
}

TEST(TransformerModel, SixteenBitsAreNear) {
  for (const auto& one : model_cases()) {
    const std::string& name = one.name;
    const auto& options = one.options;
    SCOPED_TRACE(name);
    const TransformerModel model = random_model(options);
    ModelInput input = {.tokens = ids({kTexts[0]})};
    if (has_target(options)) input.target = ids({kTargets[0]});
    const Tensor exact = model.forward(input).hidden;
    model.to(DType::float32);
    expect_near(model.forward(input).hidden, exact, 2e-5);
    model.to(DType::bfloat16);
    expect_near(model.forward(input).hidden, exact, 0.5);
  }
}

// Results and gradients on a device: padded before, packed, step by step.
TEST(TransformerModelOnADevice, AgreesWithTheCpu) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  for (const auto& one : model_cases()) {
    const std::string& name = one.name;
    const auto& options = one.options;
    SCOPED_TRACE(name);
    const TransformerModel model = random_model(options);
    model.to(DType::float32);
    Tensor keep = Tensor::full({2, 5}, 1, DType::boolean);
    keep.select(0, 0).slice(0, 0, 3).fill(0);
    ModelInput before = {.tokens = ids({padded(kTexts[1], true), kTexts[0]}), .padding_mask = Mask::keep(keep)};
    ModelInput packed = {.tokens = ids({{9, 2, 6, 5, 3}}), .packed = {0, 2, 5}};
    if (has_target(options)) before.target = packed.target = ids({kTargets[0], kTargets[1]});
    const auto run = [&](headway::Device device) {
      model.to(device);
      model.zero_grad();
      std::vector<Tensor> results;
      for (const ModelInput* input : {&before, &packed}) {
        const ModelResult result = model.forward(*input);
        results.push_back(result.logits.defined() ? result.logits : result.hidden);
        EXPECT_EQ(results.back().device(), device);
        headway::sum(headway::mul(results.back(), results.back())).backward();
      }
      for (const auto& [parameter, tensor] : model.named_parameters()) {
        if (tensor.grad().defined()) results.push_back(tensor.grad());
      }
      if (options.kind != ModelKind::decoder || options.head.kind == HeadKind::sequence) return results;
      ModelCache cache;
      for (const Ids& token : std::vector<Ids>{{3}, {1}, {4}}) {
        results.push_back(model.decode({.tokens = ids({token})}, cache).logits);
      }
      return results;
    };
    const std::vector<Tensor> expected = run(headway::Device::cpu()), there = run(headway::Device::cuda());
    ASSERT_EQ(there.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) expect_near(there[i], expected[i], 2e-3);
  }
}

TEST(TransformerModel, Errors) {
  const TransformerModel encoder = random_model(bert({})), decoder = random_model(gpt2()), both = random_model(t5());
  const auto message = [](const TransformerModel& model, const ModelInput& input) {
    return message_of([&] { model.forward(input); });
  };
  const Tensor tokens = ids({kTexts[0]}), mask = Tensor::full({1, 5}, 1, DType::boolean);
  EXPECT_EQ(message(encoder, {}), "TransformerModel::forward: tokens is not given, expected int64 ids [batch, length]");
  EXPECT_EQ(message(encoder, {.tokens = Tensor::zeros({1, 2})}),
            "TransformerModel::forward: tokens is float32[1, 2], expected int64 ids [batch, length]");
  EXPECT_EQ(message(encoder, {.tokens = ids({{1, 11}})}),
            "TransformerModel::forward: tokens has 11 at [0, 1], expected 0 to 10");
  EXPECT_EQ(message(encoder, {.tokens = ids({{1, 2, 3, 4, 5, 6, 7, 8}})}),
            "TransformerModel::forward: tokens has a text of 8 tokens, and the model has 7 positions");
  EXPECT_EQ(message(encoder, {.tokens = tokens, .lengths = {6}}),
            "TransformerModel::forward: lengths has 6 at 0, expected 0 to 5");
  EXPECT_EQ(message(encoder, {.tokens = tokens, .lengths = {5}, .padding_mask = Mask::keep(mask)}),
            "TransformerModel::forward: lengths and padding_mask are both given, expected one of them");
  EXPECT_EQ(message(encoder, {.tokens = tokens, .padding_mask = Mask::keep(mask), .packed = {0, 5}}),
            "TransformerModel::forward: packed is given with lengths or padding_mask, expected packed alone");
  EXPECT_EQ(message(encoder, {.tokens = tokens, .packed = {0, 4}}),
            "TransformerModel::forward: packed ends at 4, expected the number of tokens, 5");
  EXPECT_EQ(message(encoder, {.tokens = tokens, .packed = {0, 3, 2, 5}}),
            "TransformerModel::forward: packed has 2 at 2, expected 3 to 5");
  EXPECT_EQ(message(decoder, {.tokens = tokens, .token_types = tokens}),
            "TransformerModel::forward: token_types is given, and the model has none");
  EXPECT_EQ(message(encoder, {.tokens = tokens, .token_types = tokens}),
            "TransformerModel::forward: token_types has 3 at [0, 0], expected 0 to 1");
  EXPECT_EQ(message(encoder, {.tokens = tokens, .last_only = true}),
            "TransformerModel::forward: last_only is set, and the model has no decoder");
  EXPECT_EQ(message(both, {.tokens = tokens}),
            "TransformerModel::forward: target is not given, expected int64 ids [batch, length]");
  EXPECT_EQ(message(both, {.tokens = tokens, .target = ids({{1}, {2}})}),
            "TransformerModel::forward: target is int64[2, 1], expected one row for each of 1 texts");
  TransformerModelOptions apart = t5();
  apart.decoder.layers[1].cross_attention = false;
  EXPECT_EQ(message_of([&] { random_model(apart); }),
            "TransformerModel: decoder layer 1 has no cross_attention, expected it in an encoder-decoder alone");
  ModelCache cache;
  EXPECT_EQ(message_of([&] { encoder.decode({.tokens = tokens}, cache); }),
            "TransformerModel::decode: the model has no decoder");
  EXPECT_EQ(message_of([&] { both.decode({.tokens = tokens}, cache); }),
            "TransformerModel::decode: memory is not given, expected the encoder's hidden states");
  EXPECT_EQ(message_of([&] {
              encoder.logits_of(Tensor::zeros({1, 8}));
            }),
            "TransformerModel::logits_of: the model has no language_model head");
}

}  // namespace
}  // namespace headway_test
