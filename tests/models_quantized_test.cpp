// Models with weights in 8 bits: beside floating numbers, through files, and what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "headway/autograd.h"
#include "headway/optimizer.h"
#include "headway/random.h"
#include "headway/safetensors.h"
#include "headway/transformer_model.h"
#include "ops/quantized.h"
#include "support/bits.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/small_families.h"

namespace {

using headway::DType;
using headway::HeadKind;
using headway::ModelLoading;
using headway::ModelResult;
using headway::StateDict;
using headway::Tensor;
using headway::TransformerModel;
using headway::TranslationModel;
using headway_test::contains;
using headway_test::message_of;
using headway_test::same_bits;
using headway_test::small_family;
using headway_test::SmallFamily;
using headway_test::TemporaryDirectory;
using Json = nlohmann::json;

constexpr headway::Device kGpu = {.kind = headway::Device::Kind::cuda};

double cosine(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) xy += x[i] * y[i], xx += x[i] * x[i], yy += y[i] * y[i];
  return xy / std::sqrt(xx * yy);
}

ModelResult run(const TransformerModel& model) {
  const headway::NoGradGuard guard;
  return model.forward(headway_test::small_input(model));
}

TransformerModel random_model(const SmallFamily& family, const std::string& architecture = "") {
  headway::set_random_seed(3);
  TransformerModel model =
      TransformerModel::from_config(architecture.empty() ? family.config() : family.config(architecture));
  model.eval();
  return model;
}

void expect_same_state(const TransformerModel& a, const TransformerModel& b) {
  const StateDict left = a.state_dict(), right = b.state_dict();
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [name, tensor] : left) EXPECT_TRUE(same_bits(tensor, right.at(name))) << name;
}

std::vector<SmallFamily> every_family() {
  std::vector<SmallFamily> all = headway_test::small_families();
  for (SmallFamily& family : headway_test::small_feature_families()) all.push_back(std::move(family));
  return all;
}

TEST(QuantizedModel, EveryFamilyComputesNearlyTheSame) {
  for (const SmallFamily& family : every_family()) {
    SCOPED_TRACE(family.name);
    const TemporaryDirectory directory;
    const TransformerModel floating = random_model(family);
    floating.save(directory.path());
    const TransformerModel quantized = TransformerModel::load(directory.path(), {.dtype = DType::int8});
    const ModelResult expected = run(floating), found = run(quantized);
    EXPECT_GT(cosine(expected.hidden, found.hidden), 0.999);
    EXPECT_GT(cosine(expected.logits, found.logits), 0.999);
    EXPECT_EQ(found.hidden.dtype(), DType::float32);
    EXPECT_EQ(quantized.parameter_count(), floating.parameter_count());
    for (const auto& [name, tensor] : quantized.state_dict()) {
      const bool is_table = contains(name, "positions.") || contains(name, "token_types.") ||
                            contains(name, "relative_bias.") || contains(name, "front.");
      const bool is_weight = tensor.rank() == 2 && !is_table;
      EXPECT_EQ(tensor.dtype(), is_weight ? DType::int8 : DType::float32) << name;
      EXPECT_FALSE(tensor.requires_grad()) << name;
    }
  }
}

TEST(QuantizedModel, ADirectoryComesBackBitByBit) {
  for (const SmallFamily& family : every_family()) {
    SCOPED_TRACE(family.name);
    const TemporaryDirectory floats, written, again;
    random_model(family).save(floats.path());
    const TransformerModel quantized = TransformerModel::load(floats.path(), {.dtype = DType::int8});
    quantized.save(written.path());
    const TransformerModel loaded = TransformerModel::load(written.path());
    expect_same_state(quantized, loaded);
    EXPECT_TRUE(same_bits(run(quantized).logits, run(loaded).logits));
    EXPECT_EQ(loaded.config(), quantized.config());
    loaded.save(again.path(), DType::int8);
    EXPECT_EQ(headway_test::read_bytes(again / "model.safetensors"),
              headway_test::read_bytes(written / "model.safetensors"));
    const Json config = Json::parse(headway_test::read_bytes(written / "config.json"));
    EXPECT_EQ(config["quantization_config"], Json({{"quant_method", "headway"}, {"bits", 8}, {"scheme", "row"}}));
  }
}

// A model of floating numbers from a quantized directory: the products of values and scales, which can be trained.
TEST(QuantizedModel, FloatingNumbersComeBack) {
  for (const char* name : {"gpt2", "bart", "t5", "modernbert"}) {
    SCOPED_TRACE(name);
    const TemporaryDirectory floats, written, once_more;
    random_model(small_family(name)).save(floats.path());
    const TransformerModel quantized = TransformerModel::load(floats.path(), {.dtype = DType::int8});
    quantized.save(written.path());
    const TransformerModel loaded = TransformerModel::load(written.path(), {.dtype = DType::float32, .mapped = false});
    const StateDict values = quantized.state_dict();
    for (const auto& [parameter, tensor] : loaded.state_dict()) {
      const Tensor& given = values.at(parameter);
      const Tensor expected = given.dtype() == DType::int8
                                  ? headway::internal::dequantize_weight({given, values.at(parameter + "_scale")})
                                  : given;
      EXPECT_TRUE(same_bits(tensor, expected)) << parameter;
    }
    const headway::AdamW optimizer(loaded, {});
    run(loaded).logits.defined();
    // The same by saving the quantized model in floating numbers, with the family's names.
    quantized.save(once_more.path(), DType::float32);
    const TransformerModel floating = TransformerModel::load(once_more.path());
    expect_same_state(loaded, floating);
    EXPECT_EQ(floating.config().find("quantization_config"), std::string::npos);
  }
}

TEST(QuantizedModel, AHeadIsLeftOut) {
  const TemporaryDirectory floats, written;
  random_model(small_family("bert")).save(floats.path());
  TransformerModel::load(floats.path(), {.dtype = DType::int8}).save(written.path());
  const TransformerModel bare = TransformerModel::load(written.path(), {.new_head = HeadKind::none});
  EXPECT_EQ(bare.options().head.kind, HeadKind::none);
  const TransformerModel expected =
      TransformerModel::load(floats.path(), {.dtype = DType::int8, .new_head = HeadKind::none});
  EXPECT_TRUE(same_bits(run(bare).hidden, run(expected).hidden));
  const TransformerModel classifier =
      TransformerModel::load(written.path(), {.new_head = HeadKind::sequence, .new_labels = {"a", "b", "c"}});
  EXPECT_EQ(run(classifier).logits.size(1), 3);
}

TEST(QuantizedModel, ATranslationModel) {
  const TemporaryDirectory floats, written, floats_again;
  headway::set_random_seed(21);
  const TranslationModel floating(headway_test::small_options());
  floating.save(floats.path());
  const auto logits_of = [](const TranslationModel& model) {
    const headway::NoGradGuard guard;
    model.eval();
    return model.forward({.source = headway_test::ids({{5, 6, 7, 0}}), .target = headway_test::ids({{19, 3, 4}})})
        .logits;
  };
  const TranslationModel quantized = TranslationModel::load(floats.path(), DType::int8);
  EXPECT_GT(cosine(logits_of(floating), logits_of(quantized)), 0.999);
  quantized.save(written.path());
  EXPECT_TRUE(same_bits(logits_of(quantized), logits_of(TranslationModel::load(written.path()))));
  // As a model of the family, too.
  expect_same_state(quantized.transformer(), TransformerModel::load(written.path()));
  quantized.save(floats_again.path(), DType::float32);
  EXPECT_TRUE(same_bits(logits_of(TranslationModel::load(written.path(), DType::float32)),
                        logits_of(TranslationModel::load(floats_again.path()))));
  EXPECT_PRED2(contains, message_of([&] { TranslationModel::load(written.path(), DType::float16); }),
               "dtype is float16, expected float32 or int8");
  EXPECT_PRED2(contains, message_of([&] { floating.save(written.path(), DType::int8); }),
               "dtype is int8, expected a floating one: the model was not loaded with int8");
}

// A quantized directory that can be spoiled.
class QuantizedDirectory : public testing::Test {
 protected:
  void SetUp() override {
    const TemporaryDirectory floats;
    random_model(small_family("llama")).save(floats.path());
    TransformerModel::load(floats.path(), {.dtype = DType::int8}).save(directory_.path());
    tensors_ = headway::load_safetensors(directory_ / "model.safetensors");
  }
  // What load() complains of where a tensor is another one, or undefined: is missing.
  std::string with(const std::string& name, const Tensor& tensor) const {
    std::map<std::string, Tensor> all = tensors_;
    all.erase(name);
    if (tensor.defined()) all[name] = tensor;
    headway::save_safetensors(directory_ / "model.safetensors", all);
    return complaint();
  }
  std::string with(const Json& quantization) const {
    Json config = Json::parse(headway_test::read_bytes(directory_ / "config.json"));
    config["quantization_config"] = quantization;
    headway_test::write_bytes(directory_ / "config.json", config.dump());
    return complaint();
  }
  std::string complaint(const ModelLoading& loading = {}) const {
    return message_of([&] { TransformerModel::load(directory_.path(), loading); });
  }

  TemporaryDirectory directory_;
  std::map<std::string, Tensor> tensors_;
};

TEST_F(QuantizedDirectory, HostileTensorsAreRefused) {
  const std::string name = "decoder.layers.0.feed_forward.up.weight";  // [20, 12]
  EXPECT_PRED2(contains, with(name, {}), "missing: " + name + " [20, 12]");
  EXPECT_PRED2(contains, with(name, Tensor::zeros({12, 20}, DType::int8)),
               name + " is int8[12, 20], expected int8 or floats [20, 12]");
  EXPECT_PRED2(contains, with(name, Tensor::zeros({20, 12}, DType::int32)), name + " is int32[20, 12]");
  EXPECT_PRED2(contains, with(name, Tensor::full({20, 12}, -128, DType::int8)),
               directory_.path().string() + ": tensor " + name + " has -128, expected -127 to 127");
  EXPECT_PRED2(contains, with(name + "_scale", {}), "missing: " + name + "_scale [20]");
  EXPECT_PRED2(contains, with(name + "_scale", Tensor::zeros({12})),
               name + "_scale is float32[12], expected float32 [20]");
  EXPECT_PRED2(contains, with(name + "_scale", Tensor::zeros({20}, DType::float16)),
               name + "_scale is float16[20], expected float32 [20]");
  for (const double bad : {-1.0, std::nan(""), static_cast<double>(INFINITY)}) {
    EXPECT_PRED2(contains, with(name + "_scale", Tensor::full({20}, bad)),
                 directory_.path().string() + ": tensor " + name + "_scale has ");
  }
  EXPECT_PRED2(contains, with("decoder.norm.weight", Tensor::zeros({12}, DType::int8)),
               "decoder.norm.weight is int8[12], expected floats [12]");
  EXPECT_PRED2(contains, with("decoder.norm.weight_scale", Tensor::zeros({12})),
               "unexpected: decoder.norm.weight_scale float32[12]");
  EXPECT_EQ(with(name, tensors_.at(name)), "no error");
}

TEST_F(QuantizedDirectory, OtherMethodsAreNamed) {
  const std::string config = (directory_ / "config.json").string();
  EXPECT_PRED2(contains, with({{"quant_method", "gptq"}, {"bits", 4}}),
               config + ": quantization_config: quant_method is \"gptq\", expected \"headway\"");
  EXPECT_PRED2(contains, with({{"load_in_8bit", true}}), "quant_method is not there, expected \"headway\"");
  EXPECT_PRED2(contains, with({{"quant_method", "headway"}, {"bits", 4}}), "bits is 4, expected 8");
  EXPECT_PRED2(contains, with({{"quant_method", "headway"}, {"bits", 8}, {"scheme", "block"}}),
               "scheme is \"block\", expected \"row\"");
  EXPECT_PRED2(contains, with(3), "quantization_config is 3, expected an object");
}

TEST_F(QuantizedDirectory, WhatItCannotBe) {
  EXPECT_PRED2(contains, complaint({.dtype = DType::int32}), "dtype is int32, expected a floating one or int8");
  EXPECT_PRED2(contains, complaint({.device = kGpu}),
               "weights in 8 bits are asked for on cuda, expected the CPU or a floating dtype");
  const TransformerModel model = TransformerModel::load(directory_.path());
  for (const auto& call :
       std::vector<std::function<void()>>{[&] { model.to(DType::float16); }, [&] { model.to(kGpu); },
                                          [&] { model.unfreeze(); }, [&] { headway::AdamW(model, {}); }}) {
    EXPECT_PRED2(contains, message_of(call), "a module with weights in 8 bits cannot be ");
  }
  EXPECT_PRED2(contains, message_of([&] {
                 model.set_parameter("embedding.weight", Tensor::zeros({30, 12}));
               }),
               "would be float32[30, 12], expected int8[30, 12]");
  EXPECT_PRED2(contains,
               message_of([&] { TransformerModel::from_config(small_family("llama").config(), DType::int8); }),
               "dtype is int8, expected a floating one");
  EXPECT_PRED2(contains, message_of([&] { random_model(small_family("gpt2")).save(directory_.path(), DType::int8); }),
               "dtype is int8, expected a floating one: the model was not loaded with int8");
}

// Layers by themselves.
TEST(QuantizedLayers, FollowTheirWeights) {
  headway::set_random_seed(4);
  const headway::Linear linear({.in_features = 40, .out_features = 7, .dtype = DType::int8});
  const Tensor x = Tensor::randn({3, 5, 40}, 9);
  const StateDict state = linear.state_dict();
  EXPECT_EQ(state.size(), 3U);
  const Tensor weight = headway::internal::dequantize_weight({state.at("weight"), state.at("weight_scale")});
  const Tensor expected = headway::linear(x, weight, state.at("bias"));
  EXPECT_GT(cosine(linear.forward(x), expected), 0.999);
  EXPECT_EQ(linear.forward(x).shape(), expected.shape());
  // Changed values are seen.
  const headway::Linear other({.in_features = 40, .out_features = 7, .dtype = DType::int8});
  other.load_state_dict(state);
  EXPECT_TRUE(same_bits(other.forward(x), linear.forward(x)));
  Tensor(state.at("weight_scale")).fill(0);
  EXPECT_TRUE(same_bits(linear.forward(x), state.at("bias").expand({3, 5, 7}).contiguous()));
  EXPECT_PRED2(contains, message_of([&] { linear.forward(x.clone().set_requires_grad()); }),
               "a gradient of x or of the bias is wanted, and a weight in 8 bits has none");
  EXPECT_PRED2(contains, message_of([&] { linear.forward(Tensor::zeros({2, 41})); }), "expected float32[..., 40]");

  const headway::Embedding table({.count = 6, .width = 10, .dtype = DType::int8});
  const StateDict rows = table.state_dict();
  const Tensor all = headway::internal::dequantize_weight({rows.at("weight"), rows.at("weight_scale")});
  const Tensor chosen = headway_test::ids({{5, 0, 5}, {1, 2, 3}});
  EXPECT_TRUE(same_bits(table.forward(chosen), headway::embedding(all, chosen)));
  EXPECT_PRED2(contains, message_of([&] {
                 table.forward(headway_test::ids({{0, 6}}));
               }),
               "index 6 at [0, 1] is out of range, expected one of the weight's 6 rows");
}

}  // namespace
