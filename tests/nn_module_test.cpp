// Modules: names, state dicts, training mode, dtypes, sharing; and the small layers.
#include <gtest/gtest.h>

#include <cmath>

#include "headway/autograd.h"
#include "headway/layers.h"
#include "headway/random.h"
#include "headway/safetensors.h"
#include "headway/transformer.h"
#include "support/files.h"
#include "support/message_of.h"

namespace {

using headway::Device;
using headway::DType;
using headway::Linear;
using headway::Module;
using headway::Shape;
using headway::StateDict;
using headway::Tensor;
using headway_test::contains;
using headway_test::message_of;

// Two layers of which the second is tied to the first.
class Tied : public Module {
 public:
  Tied() : first_({.in_features = 3, .out_features = 3}) {
    add_module("first", first_);
    add_parameter("again", first_.weight());
    offset_ = add_buffer("offset", Tensor::full({3}, 2.0));
  }
  Tensor forward(const Tensor& x) const { return linear(first_.forward(x), first_.weight().get()) + offset_.get(); }
  void add_twice() { add_module("first", first_); }

 private:
  Linear first_;
  headway::Parameter offset_;
};

TEST(Module, NamesComeInOrderAndTiedOnesOnce) {
  const Tied module;
  std::string names;
  for (const auto& parameter : module.named_parameters()) names += parameter.name + " ";
  EXPECT_EQ(names, "again first.bias ");
  EXPECT_EQ(module.parameter_count(), 9 + 3);
  EXPECT_EQ(module.state_dict().size(), 4u);
  EXPECT_EQ(module.state_dict().at("again").raw_data(), module.state_dict().at("first.weight").raw_data());
  EXPECT_PRED2(contains, message_of([&] { Tied(module).add_twice(); }), "\"first\" already");
}

TEST(Module, CopiesShareAndTiesSurviveConversion) {
  const Linear layer({.in_features = 2, .out_features = 2});
  const Linear copy = layer;
  copy.to(DType::float64);
  EXPECT_EQ(layer.weight().get().dtype(), DType::float64);
  EXPECT_TRUE(layer.weight().get().requires_grad());
  const Tied tied;
  tied.to(DType::float64);
  EXPECT_EQ(tied.state_dict().at("again").raw_data(), tied.state_dict().at("first.weight").raw_data());
  EXPECT_EQ(tied.state_dict().at("offset").dtype(), DType::float64);
  sum(tied.forward(Tensor::full({1, 3}, 1.0, DType::float64))).backward();
  EXPECT_TRUE(tied.named_parameters()[0].tensor.grad().defined());
}

TEST(Module, StaysAsItIsWhereItIsAlready) {
  const Tied tied;
  sum(tied.forward(Tensor::full({1, 3}, 1.0))).backward();
  const Tensor before = tied.named_parameters()[0].tensor;
  tied.to(Device::cpu());
  const Tensor after = tied.named_parameters()[0].tensor;
  EXPECT_EQ(after.raw_data(), before.raw_data());
  EXPECT_TRUE(after.grad().defined());
}

TEST(Module, MovesToADeviceAndBack) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const Tied tied;
  const Tensor x = Tensor::randn({5, 3}, 1);
  const std::vector<double> expected = tied.forward(x).to_vector();
  sum(tied.forward(x)).backward();
  const Device device = Device::cuda();
  tied.to(device);
  for (const auto& [name, tensor] : tied.state_dict()) EXPECT_EQ(tensor.device(), device) << name;
  EXPECT_EQ(tied.state_dict().at("again").raw_data(), tied.state_dict().at("first.weight").raw_data());
  const Tensor weight = tied.named_parameters()[0].tensor;
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_FALSE(weight.grad().defined());

  const Tensor y = tied.forward(x.to(device));
  sum(y).backward();
  EXPECT_EQ(weight.grad().device(), device);
  const std::vector<double> moved = y.to_vector();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(moved[i], expected[i], 1e-5);
  tied.to(Device::cpu());
  EXPECT_EQ(tied.forward(x).to_vector(), expected);
}

TEST(Layers, PositionsAndExtraKeysFollowTheData) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const headway::SinusoidalPositions positions({.max_length = 8, .width = 4});
  const headway::MultiHeadAttention layer({.embed_dim = 4, .num_heads = 2, .add_bias_kv = true, .add_zero_attn = true});
  const Tensor x = Tensor::randn({2, 5, 4}, 3);
  Tensor padding = Tensor::full({2, 5}, 1.0, DType::boolean);
  padding.select(0, 1).slice(0, 3, 5).fill(0.0);
  const auto output = [&](Device device) {
    layer.to(device);
    const Tensor rows = positions.forward(x.to(device), 2);
    const Tensor y = layer
                         .forward({.query = rows,
                                   .causal = headway::Causal::top_left,
                                   .key_padding_mask = headway::Mask::keep(padding.to(device))})
                         .output;
    EXPECT_EQ(y.device(), device);
    return y.to_vector();
  };
  const std::vector<double> expected = output(Device::cpu()), moved = output(Device::cuda());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(moved[i], expected[i], 1e-5);
}

// Padding in every form beside a mask and a bias, on the device and on the host.
TEST(Layers, PaddingAndMasksFollowTheData) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const headway::TransformerEncoder encoder(
      {.layer = {.d_model = 4, .nhead = 2, .dim_feedforward = 8, .dropout = 0.0}, .num_layers = 2});
  const headway::MultiHeadAttention layer({.embed_dim = 4, .num_heads = 2});
  const Tensor x = Tensor::randn({2, 3, 4}, 3), bias = Tensor::randn({3, 3}, 4);
  const Tensor holes = Tensor::from<bool>({true, false, true, false, true, true}, {2, 3});
  const Tensor mask = Tensor::from<bool>({true, true, false, true, true, true, false, true, true}, {3, 3});
  const Tensor lengths = Tensor::from<std::int64_t>({3, 2}, {2});
  const auto outputs = [&](Device device) {
    encoder.to(device);
    layer.to(device);
    const Tensor here = x.to(device);
    const auto kept = headway::Mask::keep(holes.to(device)), allowed = headway::Mask::keep(mask.to(device));
    return std::vector<Tensor>{
        encoder.forward({.source = here, .source_lengths = lengths.to(device)}).output,
        encoder.forward({.source = here, .mask = allowed, .padding_mask = kept}).output,
        layer.forward({.query = here, .key_padding_mask = kept, .mask = allowed, .bias = bias.to(device)}).output};
  };
  const std::vector<Tensor> expected = outputs(Device::cpu()), moved = outputs(Device::cuda());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(moved[i].device(), Device::cuda());
    const std::vector<double> a = moved[i].to_vector(), e = expected[i].to_vector();
    for (std::size_t j = 0; j < a.size(); ++j) EXPECT_NEAR(a[j], e[j], 1e-5) << i;
  }
}

TEST(Module, TrainingModeFreezingAndForgettingReachEverything) {
  const headway::Transformer model(
      {.layer = {.d_model = 8, .nhead = 2, .dim_feedforward = 8}, .num_encoder_layers = 1, .num_decoder_layers = 1});
  EXPECT_TRUE(model.is_training());
  model.eval();
  EXPECT_FALSE(model.encoder().is_training());
  model.train();
  EXPECT_TRUE(model.decoder().is_training());
  const Tensor x = Tensor::randn({1, 2, 8}, 1);
  sum(model.forward({.source = x, .target = x}).output).backward();
  for (const Tensor& parameter : model.parameters()) EXPECT_TRUE(parameter.grad().defined());
  model.zero_grad();
  for (const Tensor& parameter : model.parameters()) EXPECT_FALSE(parameter.grad().defined());
  model.encoder().freeze();
  sum(model.forward({.source = x, .target = x}).output).backward();
  for (const auto& [name, tensor] : model.named_parameters()) {
    EXPECT_EQ(tensor.grad().defined(), name.rfind("decoder.", 0) == 0) << name;
  }
  model.freeze();
  EXPECT_FALSE(model.forward({.source = x, .target = x}).output.requires_grad());
}

TEST(Module, LoadingIsAllOrNothing) {
  const Linear layer({.in_features = 2, .out_features = 3});
  const std::vector<double> before = layer.weight().get().to_vector();
  const Tensor weight = Tensor::zeros({3, 2}), bias = Tensor::zeros({3});
  const auto message = [&](const StateDict& state, bool strict = true) {
    return message_of([&] { layer.load_state_dict(state, strict); });
  };
  EXPECT_PRED2(contains, message({{"weight", weight}}), "\"bias\" is missing, expected float32[3]");
  EXPECT_PRED2(contains, message({{"weight", weight}, {"bias", bias}, {"more", bias}}), "\"more\"");
  EXPECT_PRED2(contains, message({{"weight", weight}, {"bias", weight}}),
               "\"bias\" is float32[3, 2], expected float32[3]");
  EXPECT_PRED2(contains, message({{"weight", weight.to(DType::int32)}, {"bias", bias}}), "\"weight\" is int32[3, 2]");
  EXPECT_PRED2(contains, message({{"weight", weight}, {"bias", Tensor()}}), "undefined");
  EXPECT_EQ(layer.weight().get().to_vector(), before);
  EXPECT_EQ(message({{"bias", weight}, {"more", bias}, {"most", bias}}),
            "load_state_dict: \"weight\" is missing, expected float32[3, 2]; \"bias\" is float32[3, 2], expected "
            "float32[3]; \"more\" (float32[3]) is none of the module's; \"most\" (float32[3]) is none of the module's");
  StateDict many = {{"weight", weight}, {"bias", bias}};
  for (int i = 0; i < 45; ++i) many["more" + std::to_string(i)] = bias;
  EXPECT_PRED2(contains, message(many), "; and 25 more are none of the module's");
  layer.load_state_dict({{"bias", bias}, {"more", bias}}, false);
  EXPECT_EQ(layer.weight().get().to_vector(), before);
  EXPECT_EQ(layer.bias().get().to_vector(), std::vector<double>(3, 0.0));
  layer.load_state_dict({{"weight", weight.to(DType::float64)}, {"bias", bias}});  // converts
  EXPECT_EQ(layer.weight().get().to_vector(), weight.to_vector());
  EXPECT_TRUE(layer.weight().get().requires_grad());
}

TEST(Module, StateDictsGoThroughFiles) {
  const headway_test::TemporaryDirectory directory;
  const headway::TransformerLayerOptions options = {.d_model = 8, .nhead = 2, .dim_feedforward = 16};
  const headway::TransformerEncoderLayer written(options), read(options);
  headway::save_safetensors(directory.path() / "layer.safetensors", written.state_dict());
  const auto file = headway::SafeTensors::open(directory.path() / "layer.safetensors");
  StateDict state;
  for (const std::string& name : file.names()) state[name] = file.get(name);
  read.load_state_dict(state);
  for (const auto& [name, tensor] : read.state_dict()) {
    EXPECT_EQ(tensor.to_vector(), written.state_dict().at(name).to_vector()) << name;
  }
}

TEST(Module, SettingAParameterKeepsItsRecord) {
  const Linear layer({.in_features = 2, .out_features = 1, .bias = false});
  const Tensor source = Tensor::full({1, 2}, 3.0).set_requires_grad();
  layer.set_parameter("weight", scale(source, 2.0));
  sum(layer.forward(Tensor::full({1, 2}, 1.0))).backward();
  EXPECT_EQ(source.grad().to_vector(), (std::vector<double>{2, 2}));
  EXPECT_PRED2(contains, message_of([&] { layer.set_parameter("bias", source); }), "no parameter \"bias\"");
  EXPECT_PRED2(contains, message_of([&] { layer.set_parameter("weight", Tensor::zeros({2})); }),
               "expected float32[1, 2]");
}

double deviation(const Tensor& tensor) {
  double squares = 0;
  for (const double value : tensor.to_vector()) squares += value * value;
  return std::sqrt(squares / static_cast<double>(tensor.element_count()));
}

TEST(InitialValues, FollowTheSeedAndTorchsDistributions) {
  headway::set_random_seed(3);
  const Linear first({.in_features = 100, .out_features = 200});
  const Linear second({.in_features = 100, .out_features = 200});
  headway::set_random_seed(3);
  const Linear again({.in_features = 100, .out_features = 200});
  EXPECT_EQ(first.weight().get().to_vector(), again.weight().get().to_vector());
  EXPECT_NE(first.weight().get().to_vector(), second.weight().get().to_vector());
  EXPECT_NEAR(deviation(first.weight().get()), 0.1 / std::sqrt(3.0), 0.001);  // uniform in +-1/sqrt(100)
  const headway::Embedding table({.count = 200, .width = 100, .padding_index = -1});
  EXPECT_NEAR(deviation(table.weight().get()), std::sqrt(199.0 / 200), 0.02);
  EXPECT_EQ(deviation(table.weight().get().detach().select(0, 199)), 0.0);
}

TEST(RandomState, GoesOnFromWhereItWas) {
  headway::set_random_seed(11);
  headway::next_random_seed();
  const headway::RandomState state = headway::random_state();
  const std::uint64_t a = headway::next_random_seed(), b = headway::next_random_seed();
  EXPECT_NE(a, b);
  headway::set_random_state(state);
  EXPECT_EQ(headway::next_random_seed(), a);
  EXPECT_EQ(headway::next_random_seed(), b);
}

TEST(Layers, DropoutIsIdleOutsideOfTraining) {
  const headway::Dropout layer(0.5);
  const Tensor x = Tensor::full({1000}, 1.0);
  EXPECT_NE(layer.forward(x).to_vector(), x.to_vector());
  EXPECT_NE(layer.add_to(x, x).to_vector(), (x + x).to_vector());
  layer.eval();
  EXPECT_EQ(layer.forward(x).to_vector(), x.to_vector());
  EXPECT_EQ(layer.add_to(x, x).to_vector(), (x + x).to_vector());
  EXPECT_PRED2(contains, message_of([] { headway::Dropout bad(1.0); }), "probability is 1");
}

TEST(Layers, PositionsStartAtTheOffset) {
  const headway::SinusoidalPositions sines({.max_length = 10, .width = 4});
  const Tensor zeros = Tensor::zeros({1, 3, 4});
  const Tensor from_two = sines.forward(zeros, 2);
  EXPECT_NEAR(from_two.at({0, 0, 0}), std::sin(2.0), 1e-6);
  EXPECT_NEAR(from_two.at({0, 1, 1}), std::cos(3.0), 1e-6);
  EXPECT_NEAR(from_two.at({0, 1, 2}), std::sin(0.03), 1e-6);
  EXPECT_PRED2(contains, message_of([&] { sines.forward(zeros, 8); }), "positions 8 to 11");
  EXPECT_TRUE(sines.state_dict().empty());
  const headway::LearnedPositions learned({.max_length = 10, .width = 4});
  sum(learned.forward(zeros, 7)).backward();
  const Tensor gradient = learned.parameters()[0].grad();
  EXPECT_EQ(gradient.at({6, 0}), 0.0);
  EXPECT_EQ(gradient.at({7, 0}), 1.0);
}

TEST(Layers, FeedForwardPlainAndGated) {
  const Tensor x = Tensor::randn({2, 3, 4}, 1, DType::float64);
  const headway::FeedForward plain({.width = 4, .dtype = DType::float64});
  EXPECT_EQ(plain.state_dict().at("linear1.weight").shape().to_string(), "[16, 4]");
  EXPECT_EQ(plain.forward(x).shape().to_string(), "[2, 3, 4]");
  const headway::FeedForward gated({.width = 4,
                                    .hidden = 6,
                                    .activation = headway::Activation::silu,
                                    .gated = true,
                                    .bias = false,
                                    .dtype = DType::float64});
  const StateDict state = gated.state_dict();
  const Tensor expected = linear(silu(linear(x, state.at("linear1.weight"))) * linear(x, state.at("gate.weight")),
                                 state.at("linear2.weight"));
  const std::vector<double> a = gated.forward(x).to_vector(), e = expected.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], e[i], 1e-12);
}

TEST(Transformer, DecodingTokenByTokenGivesTheSame) {
  for (const bool norm_first : {false, true}) {
    const headway::NoGradGuard guard;
    const headway::Transformer model(
        {.layer = {.d_model = 8, .nhead = 2, .dim_feedforward = 16, .norm_first = norm_first, .dtype = DType::float64},
         .num_encoder_layers = 2,
         .num_decoder_layers = 2});
    model.eval();
    const Tensor source = Tensor::randn({3, 5, 8}, 1, DType::float64),
                 target = Tensor::randn({3, 6, 8}, 2, DType::float64);
    const auto padding = headway::Mask::keep(Tensor::from<bool>(
        {true, true, true, true, true, true, true, false, false, false, true, true, true, true, false}, {3, 5}));
    const Tensor whole = model
                             .forward({.source = source,
                                       .target = target,
                                       .source_padding_mask = padding,
                                       .memory_padding_mask = padding,
                                       .target_causal = headway::Causal::top_left})
                             .output;
    const Tensor by_lengths = model
                                  .forward({.source = source,
                                            .target = target,
                                            .source_lengths = {5, 2, 4},
                                            .target_causal = headway::Causal::top_left})
                                  .output;
    EXPECT_EQ(by_lengths.to_vector(), whole.to_vector());
    const Tensor memory = model.encoder().forward({.source = source, .padding_mask = padding}).output;
    headway::DecoderCache cache;
    for (int t = 0; t < 6; ++t) {
      const Tensor step =
          model.decoder()
              .forward({.target = target.slice(1, t, t + 1), .memory = memory, .memory_lengths = {5, 2, 4}}, cache)
              .output;
      const std::vector<double> a = step.to_vector(), e = whole.slice(1, t, t + 1).to_vector();
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], 1e-12) << "token " << t;
    }
    EXPECT_EQ(cache.length(), 6);
  }
}

TEST(Transformer, WeightsOfEveryLayer) {
  const headway::TransformerEncoder encoder(
      {.layer = {.d_model = 8, .nhead = 2, .dim_feedforward = 16, .dropout = 0.0}, .num_layers = 3});
  const Tensor source = Tensor::randn({2, 4, 8}, 1);
  const auto [output, weights] = encoder.forward({.source = source, .weights = headway::Weights::per_head});
  EXPECT_EQ(output.shape().to_string(), "[2, 4, 8]");
  ASSERT_EQ(weights.size(), 3u);
  EXPECT_EQ(weights[2].shape().to_string(), "[2, 2, 4, 4]");
  EXPECT_TRUE(encoder.forward({.source = source}).weights.empty());
  const headway::TransformerDecoder decoder(
      {.layer = {.d_model = 8, .nhead = 2, .dim_feedforward = 16, .dropout = 0.0}, .num_layers = 2});
  const auto decoded = decoder.forward({.target = Tensor::randn({2, 3, 8}, 1),
                                        .memory = Tensor::randn({2, 4, 8}, 2),
                                        .weights = headway::Weights::per_head});
  ASSERT_EQ(decoded.self_weights.size(), 2u);
  ASSERT_EQ(decoded.memory_weights.size(), 2u);
  EXPECT_EQ(decoded.self_weights[1].shape().to_string(), "[2, 2, 3, 3]");
  EXPECT_EQ(decoded.memory_weights[1].shape().to_string(), "[2, 2, 3, 4]");
}

// What a model's options say reaches its layers, and so do the weights of both sides.
TEST(Transformer, OptionsOfItsLayersAndAllWeights) {
  const headway::TransformerLayerOptions layer = {
      .d_model = 8, .nhead = 2, .dim_feedforward = 16, .dropout = 0.0, .attention_dropout = 0.5};
  const headway::Transformer model({.layer = layer, .num_encoder_layers = 1, .num_decoder_layers = 2});
  const Tensor x = Tensor::randn({2, 3, 8}, 1);
  const auto first = model.forward({.source = x, .target = x, .weights = headway::Weights::mean});
  EXPECT_NE(model.forward({.source = x, .target = x}).output.to_vector(), first.output.to_vector());
  ASSERT_EQ(first.encoder_weights.size(), 1u);
  ASSERT_EQ(first.decoder_weights.size(), 2u);
  ASSERT_EQ(first.cross_weights.size(), 2u);
  EXPECT_EQ(first.cross_weights[1].shape().to_string(), "[2, 3, 3]");
}

// One layer by itself gives its weights beside its output.
TEST(Transformer, WeightsOfOneLayer) {
  const headway::TransformerLayerOptions options = {.d_model = 8, .nhead = 2, .dim_feedforward = 16, .dropout = 0.0};
  const Tensor x = Tensor::randn({2, 3, 8}, 1), memory = Tensor::randn({2, 4, 8}, 2);
  const headway::TransformerEncoderLayer encoder(options);
  const auto [output, weights] =
      encoder.forward({.source = x, .source_lengths = {3, 1}, .weights = headway::Weights::per_head});
  EXPECT_EQ(output.shape().to_string(), "[2, 3, 8]");
  EXPECT_EQ(weights.at({1, 0, 2, 0}), 1.0);
  const headway::TransformerDecoderLayer decoder(options);
  const auto decoded =
      decoder.forward({.target = x, .memory = memory, .memory_lengths = 2, .weights = headway::Weights::mean});
  EXPECT_EQ(decoded.self_weights.shape().to_string(), "[2, 3, 3]");
  EXPECT_EQ(decoded.memory_weights.shape().to_string(), "[2, 3, 4]");
  EXPECT_EQ(decoded.memory_weights.at({1, 0, 2}), 0.0);
}

}  // namespace
