// Encoders that read features: patches of pictures and frames of sound against plain loops, gradients, checks.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headway/device.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "models/transformer_model_parts.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace headway_test {
namespace {

using headway::BlockOptions;
using headway::DType;
using headway::FrontKind;
using headway::ModelCache;
using headway::ModelInput;
using headway::ModelKind;
using headway::ModelResult;
using headway::PositionKind;
using headway::Shape;
using headway::Tensor;
using headway::TransformerModel;
using headway::TransformerModelOptions;
using headway::Weights;

BlockOptions block(std::int64_t width, bool decodes = false) {
  return {.width = width, .heads = 2, .hidden = 8, .causal = decodes, .cross_attention = decodes};
}

// Pictures of 2 channels, 4 x 6, in patches of 2 x 3: 4 patches and a class token.
TransformerModelOptions picture_options() {
  TransformerModelOptions options = {.kind = ModelKind::encoder};
  options.encoder = {.front = {.kind = FrontKind::patches,
                               .channels = 2,
                               .image_height = 4,
                               .image_width = 6,
                               .patch_height = 2,
                               .patch_width = 3},
                     .layers = {block(4)},
                     .width = 4,
                     .positions = PositionKind::learned,
                     .max_positions = 5,
                     .final_norm = true};
  options.head = {.kind = headway::HeadKind::sequence, .labels = 3};
  return options;
}

// 3 bins, at most 4 positions; a decoder of 7 words.
TransformerModelOptions sound_options(std::int64_t decoder_width = 4) {
  TransformerModelOptions options = {.kind = ModelKind::encoder_decoder, .vocab_size = 7};
  options.encoder = {.front = {.kind = FrontKind::sound, .bins = 3},
                     .layers = {block(4)},
                     .width = 4,
                     .positions = PositionKind::sinusoidal,
                     .max_positions = 4,
                     .sinusoid = headway::Sinusoid::whisper,
                     .final_norm = true};
  options.decoder = {.layers = {block(decoder_width, true)},
                     .width = decoder_width,
                     .positions = PositionKind::learned,
                     .max_positions = 5,
                     .final_norm = true};
  options.memory_projection = decoder_width != 4;
  options.head = {.kind = headway::HeadKind::language_model, .tied = true, .bias = false};
  return options;
}

TransformerModel made(const TransformerModelOptions& options, DType dtype = DType::float64) {
  headway::set_random_seed(3);
  const TransformerModel model =
      headway::internal::make_transformer_model(options, "test", "{}", "", dtype, /*with_initial_values=*/true);
  std::uint64_t seed = 40;
  for (const auto& [name, parameter] : model.named_parameters()) {
    Tensor(parameter.detach()).copy_from(Tensor::uniform(parameter.shape(), -0.7, 0.7, ++seed));
  }
  model.eval();
  return model;
}

Tensor pictures(std::int64_t batch = 2) { return Tensor::randn({batch, 2, 4, 6}, 5, DType::float64); }
Tensor sounds(std::int64_t frames, std::int64_t batch = 2) {
  return Tensor::randn({batch, 3, frames}, 6, DType::float64);
}
Tensor words(std::int64_t batch = 2) {
  return Tensor::from(std::vector<std::int64_t>{1, 4, 2, 6, 0, 3}, {2, 3}).slice(0, 0, batch);
}

// The model without its blocks, so that the hidden states are the front's rows and positions, normed.
TransformerModel only_front(TransformerModelOptions options) {
  options.kind = ModelKind::encoder;
  options.vocab_size = 0;
  options.head = {};
  options.memory_projection = false;
  options.decoder = {};
  options.encoder.layers = {};
  options.encoder.final_norm = false;
  return made(options);
}

TEST(PatchFront, AgainstPlainLoops) {
  const TransformerModel model = only_front(picture_options());
  const Tensor x = pictures();
  const Tensor hidden = model.forward({.features = x}).hidden;
  ASSERT_EQ(hidden.shape(), Shape({2, 5, 4}));
  headway::StateDict state = model.state_dict();
  const Tensor weight = state.at("encoder.front.projection.weight"), bias = state.at("encoder.front.projection.bias");
  const Tensor positions = state.at("encoder.positions.weight"), token = state.at("encoder.front.class_token");
  ASSERT_EQ(weight.shape(), Shape({4, 2 * 2 * 3}));
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t w = 0; w < 4; ++w) {
      EXPECT_NEAR(hidden.at({b, 0, w}), token.at({w}) + positions.at({0, w}), 1e-12);
      for (std::int64_t patch = 0; patch < 4; ++patch) {
        double sum = bias.at({w}) + positions.at({patch + 1, w});
        for (std::int64_t c = 0, i = 0; c < 2; ++c) {
          for (std::int64_t row = 0; row < 2; ++row) {
            for (std::int64_t column = 0; column < 3; ++column, ++i) {
              sum += weight.at({w, i}) * x.at({b, c, patch / 2 * 2 + row, patch % 2 * 3 + column});
            }
          }
        }
        EXPECT_NEAR(hidden.at({b, patch + 1, w}), sum, 1e-12) << patch;
      }
    }
  }
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

// [frames][out] of [frames][in], by the definition.
std::vector<std::vector<double>> convolved(const std::vector<std::vector<double>>& x, const Tensor& weight,
                                           const Tensor& bias, std::size_t stride) {
  std::vector<std::vector<double>> result;
  for (std::size_t frame = 0; frame < x.size(); frame += stride) {
    std::vector<double>& row = result.emplace_back();
    for (std::int64_t out = 0; out < weight.size(0); ++out) {
      double sum = bias.at({out});
      for (std::size_t tap = 0; tap < 3; ++tap) {
        if (frame + tap < 1 || frame + tap - 1 >= x.size()) continue;
        for (std::int64_t in = 0; in < weight.size(1); ++in) {
          sum +=
              weight.at({out, in, static_cast<std::int64_t>(tap)}) * x[frame + tap - 1][static_cast<std::size_t>(in)];
        }
      }
      row.push_back(gelu(sum));
    }
  }
  return result;
}

TEST(SoundFront, AgainstPlainLoops) {
  const TransformerModel model = only_front(sound_options());
  const headway::StateDict state = model.state_dict();
  const Tensor table = headway::sinusoidal_positions(4, 4, headway::Sinusoid::whisper, DType::float64);
  EXPECT_NEAR(table.at({3, 1}), std::sin(3e-4), 1e-15);  // the last angle is position / 10000
  EXPECT_NEAR(table.at({3, 2}), std::cos(3.0), 1e-15);
  for (const std::int64_t frames : {1, 2, 5, 7, 8}) {
    const Tensor x = sounds(frames);
    const Tensor hidden = model.forward({.features = x}).hidden;
    ASSERT_EQ(hidden.shape(), Shape({2, (frames + 1) / 2, 4}));
    EXPECT_EQ(headway::front_positions(model.options().encoder.front, {3, frames}), (frames + 1) / 2);
    for (std::int64_t b = 0; b < 2; ++b) {
      std::vector<std::vector<double>> rows;
      for (std::int64_t frame = 0; frame < frames; ++frame) {
        rows.push_back({x.at({b, 0, frame}), x.at({b, 1, frame}), x.at({b, 2, frame})});
      }
      rows = convolved(rows, state.at("encoder.front.conv1.weight"), state.at("encoder.front.conv1.bias"), 1);
      rows = convolved(rows, state.at("encoder.front.conv2.weight"), state.at("encoder.front.conv2.bias"), 2);
      ASSERT_EQ(static_cast<std::int64_t>(rows.size()), hidden.size(1));
      for (std::int64_t t = 0; t < hidden.size(1); ++t) {
        for (std::int64_t w = 0; w < 4; ++w) {
          // The table of a model is float32.
          EXPECT_NEAR(hidden.at({b, t, w}),
                      rows[static_cast<std::size_t>(t)][static_cast<std::size_t>(w)] + table.at({t, w}), 1e-7);
        }
      }
    }
  }
}

Tensor loss_of(const TransformerModel& model, ModelInput input) {
  const ModelResult result = model.forward(input);
  return headway::sum(headway::tanh(result.logits));
}

void check_model_gradients(const TransformerModel& model, const ModelInput& input) {
  std::vector<std::string> names;
  std::vector<Tensor> values;
  for (const auto& [name, parameter] : model.named_parameters()) {
    names.push_back(name);
    values.push_back(parameter.detach().clone());
  }
  values.push_back(input.features);
  check_gradients(
      [&](const std::vector<Tensor>& all) {
        for (std::size_t i = 0; i < names.size(); ++i) model.set_parameter(names[i], all[i]);
        ModelInput call = input;
        call.features = all.back();
        return loss_of(model, call);
      },
      values, {.elements = 4});
}

TEST(PatchFront, Gradients) { check_model_gradients(made(picture_options()), {.features = pictures()}); }

TEST(SoundFront, Gradients) {
  check_model_gradients(made(sound_options(6)), {.features = sounds(6), .lengths = {3, 2}, .target = words()});
}

// Frames behind the end of an entry, which are an even number, change nothing where their positions do not count.
TEST(SoundFront, LengthsHidePadding) {
  const TransformerModel model = made(sound_options());
  const Tensor long_sound = sounds(8, 1), short_sound = sounds(6, 1);
  // Zeros, as the convolutions have them beyond the end.
  const Tensor padded = headway::concat({short_sound, Tensor::zeros({1, 3, 2}, DType::float64)}, 2);
  const ModelResult both = model.forward({.features = headway::concat({long_sound, padded}),
                                          .lengths = {4, 3},
                                          .target = words(),
                                          .weights = Weights::per_head});
  const ModelResult first = model.forward({.features = long_sound, .target = words().slice(0, 0, 1)});
  const ModelResult second = model.forward({.features = short_sound, .target = words().slice(0, 1, 2)});
  for (std::int64_t t = 0; t < 3; ++t) {
    for (std::int64_t word = 0; word < 7; ++word) {
      EXPECT_NEAR(both.logits.at({0, t, word}), first.logits.at({0, t, word}), 1e-12);
      EXPECT_NEAR(both.logits.at({1, t, word}), second.logits.at({0, t, word}), 1e-12);
    }
  }
  EXPECT_EQ(both.cross_weights.front().shape(), Shape({2, 2, 3, 4}));
  EXPECT_EQ(both.cross_weights.front().at({1, 0, 0, 3}), 0.0);
}

TEST(SoundFront, ACacheChangesNothing) {
  for (const std::int64_t decoder_width : {4, 6}) {
    const TransformerModel model = made(sound_options(decoder_width));
    const Tensor x = sounds(8), target = words();
    const ModelResult whole = model.forward({.features = x, .target = target});
    const Tensor memory = model.encode({.features = x}).hidden;
    EXPECT_EQ(memory.shape(), Shape({2, 4, decoder_width}));
    ModelCache cache;
    for (std::int64_t t = 0; t < 3; ++t) {
      const ModelResult step = model.decode({.tokens = target.slice(1, t, t + 1)}, cache, memory);
      for (std::int64_t word = 0; word < 7; ++word) {
        EXPECT_NEAR(step.logits.at({1, 0, word}), whole.logits.at({1, t, word}), 1e-12);
      }
    }
  }
}

TEST(Fronts, FeaturesOfOtherDtypesAreConverted) {
  const TransformerModel model = made(picture_options(), DType::float32);
  const Tensor logits = model.forward({.features = pictures()}).logits;
  const Tensor same = model.forward({.features = pictures().to(DType::float32)}).logits;
  EXPECT_EQ(logits.dtype(), DType::float32);
  EXPECT_EQ(logits.to_vector(), same.to_vector());
}

std::string complaint(const TransformerModel& model, const ModelInput& input) {
  return message_of([&] { model.forward(input); });
}

TEST(Fronts, BadFeatures) {
  const TransformerModel picture = made(picture_options()), sound = made(sound_options());
  const std::string name = "TransformerModel::forward: ";
  EXPECT_EQ(complaint(picture, {}), name + "features is not given, expected floats [batch, 2, 4, 6]");
  EXPECT_EQ(complaint(picture, {.tokens = words()}),
            name + "tokens is given, and the model reads features of pictures");
  EXPECT_EQ(complaint(picture, {.features = pictures().select(0, 0)}),
            name + "features is float64[2, 4, 6], expected floats [batch, 2, 4, 6]");
  EXPECT_EQ(complaint(picture, {.features = Tensor::zeros({1, 2, 4, 6}, DType::int64)}),
            name + "features is int64[1, 2, 4, 6], expected floats [batch, 2, 4, 6]");
  EXPECT_EQ(complaint(picture, {.features = Tensor::zeros({1, 3, 4, 6})}),
            name + "features is float32[1, 3, 4, 6], which has 3 channels, and the model reads 2");
  EXPECT_EQ(complaint(picture, {.features = Tensor::zeros({1, 2, 6, 4})}),
            name + "features are pictures of 6 x 4, and the model reads 4 x 6 (height x width)");
  EXPECT_EQ(complaint(picture, {.features = pictures(), .lengths = {3, 3}}),
            name + "lengths is given, and pictures have all of their patches");
  EXPECT_EQ(complaint(sound, {.features = Tensor::zeros({2, 4, 6}), .target = words()}),
            name + "features is float32[2, 4, 6], which has 4 bins, and the model reads 3");
  EXPECT_EQ(complaint(sound, {.features = Tensor::zeros({2, 3, 0}), .target = words()}),
            name + "features is float32[2, 3, 0], expected at least one frame");
  EXPECT_EQ(complaint(sound, {.features = Tensor::zeros({2, 3, 9}), .target = words()}),
            name + "features is float32[2, 3, 9], which makes 5 positions, and the model has 4");
  EXPECT_EQ(
      complaint(sound, {.features = sounds(4), .padding_mask = headway::Mask::keep(words() > 0), .target = words()}),
      name + "padding_mask, packed, token_types or positions is given, expected features and lengths alone");
  EXPECT_PRED2(contains, complaint(sound, {.features = sounds(4), .lengths = {2, 3}, .target = words()}), "lengths");
  TransformerModelOptions text = picture_options();
  text.encoder.front = {};
  text.vocab_size = 7;
  EXPECT_EQ(complaint(made(text), {.tokens = words(), .features = pictures()}),
            name + "features is given, and the model reads tokens");
}

TEST(Fronts, BadOptions) {
  TransformerModelOptions odd = picture_options();
  odd.encoder.front.patch_width = 4;
  EXPECT_EQ(
      message_of([&] { made(odd); }),
      "TransformerModel: pictures of 4 x 6 are cut into patches of 2 x 4, expected a size that the patches divide");
  odd.encoder.front.patch_width = 0;
  EXPECT_EQ(message_of([&] { made(odd); }), "TransformerModel: patch_width is 0, expected 1 to 6");
  TransformerModelOptions silent = sound_options();
  silent.encoder.front.bins = 0;
  EXPECT_EQ(message_of([&] { made(silent); }), "TransformerModel: bins is 0, expected more than 0");
}

TEST(FrontsOnADevice, AgreeWithTheCpu) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const TransformerModel model = made(sound_options(), DType::float32),
                         picture = made(picture_options(), DType::float32);
  const Tensor expected = model.forward({.features = sounds(5), .target = words()}).logits;
  const Tensor labels = picture.forward({.features = pictures()}).logits;
  model.to(headway::Device::cuda());
  picture.to(headway::Device::cuda());
  const std::vector<double> actual =
      model.forward({.features = sounds(5), .target = words()}).logits.to(headway::Device::cpu()).to_vector();
  const std::vector<double> seen =
      picture.forward({.features = pictures()}).logits.to(headway::Device::cpu()).to_vector();
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected.to_vector()[i], 1e-4);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], labels.to_vector()[i], 1e-4);
}

}  // namespace
}  // namespace headway_test
