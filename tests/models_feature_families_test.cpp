// Families that read pictures and sound: from a config to a directory and back, and what is refused.
#include <gtest/gtest.h>

#include <set>

#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "headway/safetensors.h"
#include "headway/transformer_model.h"
#include "models/model_directory.h"
#include "support/bits.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/small_families.h"

namespace {

using headway::DType;
using headway::HeadKind;
using headway::ModelResult;
using headway::Shape;
using headway::Tensor;
using headway::TransformerModel;
using headway_test::message_of;
using headway_test::near;
using headway_test::same_bits;
using headway_test::small_feature_families;
using headway_test::small_input;
using headway_test::SmallFamily;
using headway_test::TemporaryDirectory;
using Json = nlohmann::json;

TransformerModel made(const std::string& config) {
  headway::set_random_seed(7);
  TransformerModel model = TransformerModel::from_config(config);
  const headway::NoGradGuard guard;
  std::uint64_t seed = 100;
  for (const auto& [name, parameter] : model.named_parameters()) {
    Tensor(parameter.detach()).copy_from(Tensor::uniform(parameter.shape(), -0.5, 0.5, ++seed));
  }
  model.eval();
  return model;
}

ModelResult run(const TransformerModel& model) {
  const headway::NoGradGuard guard;
  return model.forward(small_input(model));
}

SmallFamily family_named(const std::string& name) {
  for (SmallFamily& family : small_feature_families()) {
    if (family.name == name) return std::move(family);
  }
  return {};
}

TEST(FeatureFamilies, SavedModelsAreTheSameWhenLoaded) {
  for (const SmallFamily& family : small_feature_families()) {
    SCOPED_TRACE(family.name);
    const TransformerModel model = made(family.config());
    const TemporaryDirectory directory, half_directory;
    model.save(directory.path());
    const TransformerModel loaded = TransformerModel::load(directory.path());
    const ModelResult expected = run(model), result = run(loaded);
    ASSERT_TRUE(result.logits.defined());
    EXPECT_TRUE(same_bits(result.logits, expected.logits));
    const Json config = Json::parse(headway_test::read_bytes(directory / "config.json"));
    EXPECT_EQ(config.at("architectures"), Json({family.architecture}));
    EXPECT_EQ(Json::parse(loaded.config()), config);

    model.save(half_directory.path(), DType::float16);
    const TransformerModel half = TransformerModel::load(half_directory.path());
    for (const auto& [name, parameter] : half.named_parameters()) EXPECT_EQ(parameter.dtype(), DType::float16) << name;
    const TransformerModel wide = TransformerModel::load(half_directory.path(), {.dtype = DType::float32});
    EXPECT_TRUE(near(run(wide).logits, expected.logits, 0.05));
  }
}

TEST(FeatureFamilies, ParametersAreThoseThatTheFilesAreCheckedAgainst) {
  for (const SmallFamily& family : small_feature_families()) {
    SCOPED_TRACE(family.name);
    const TransformerModel model = made(family.config());
    std::map<std::string, std::string> expected, found;
    for (const auto& [name, shape] : headway::internal::parameter_shapes(model.options())) {
      expected[name] = shape.to_string();
    }
    for (const auto& [name, tensor] : model.state_dict()) found[name] = tensor.shape().to_string();
    EXPECT_EQ(found, expected);
  }
}

TEST(FeatureFamilies, BaseModelsAreReadWithAndWithoutPrefix) {
  for (const char* name : {"vit", "deit", "whisper"}) {
    SCOPED_TRACE(name);
    const SmallFamily family = family_named(name);
    const TransformerModel model = made(family.config());
    const TemporaryDirectory directory, second;
    model.save(directory.path());
    const TransformerModel bare = TransformerModel::load(directory.path(), {.new_head = HeadKind::none});
    EXPECT_TRUE(same_bits(run(bare).hidden, run(model).hidden));
    bare.save(second.path());
    EXPECT_TRUE(same_bits(run(TransformerModel::load(second.path())).hidden, run(model).hidden));
  }
  const TransformerModel pooled = made(family_named("vit").config("ViTModel"));
  EXPECT_EQ(run(pooled).pooled.shape(), Shape({2, 12}));
}

TEST(FeatureFamilies, NewClasses) {
  const TemporaryDirectory directory, saved;
  made(family_named("vit").config()).save(directory.path());
  const TransformerModel tuned = TransformerModel::load(
      directory.path(), {.mapped = false, .new_head = HeadKind::sequence, .new_labels = {"cat", "dog", "owl"}});
  EXPECT_EQ(run(tuned).logits.shape(), Shape({2, 3}));
  tuned.save(saved.path());
  EXPECT_EQ(TransformerModel::load(saved.path()).options().labels.at(2), "owl");
  EXPECT_PRED2(headway_test::contains,
               message_of([&] { TransformerModel::load(directory.path(), {.new_head = HeadKind::tokens}); }),
               "vit reads pictures, and has no other head than that of a picture's classes");
}

// Keys and values of GPT-2's cross-attention are one matrix [in, out] in the file.
TEST(FeatureFamilies, KeysAndValuesAreJoined) {
  const TemporaryDirectory directory;
  const TransformerModel model = made(family_named("vision-encoder-decoder").config());
  model.save(directory.path());
  const auto file = headway::SafeTensors::open(directory / "model.safetensors");
  const headway::StateDict state = model.state_dict();
  const Tensor both = headway::concat({state.at("decoder.layers.1.cross.key.weight").transpose(0, 1),
                                       state.at("decoder.layers.1.cross.value.weight").transpose(0, 1)},
                                      1);
  EXPECT_TRUE(same_bits(file.get("decoder.transformer.h.1.crossattention.c_attn.weight"), both));
  EXPECT_EQ(file.get("encoder.embeddings.position_embeddings").shape(), Shape({1, 5, 12}));
  EXPECT_EQ(file.get("encoder.embeddings.patch_embeddings.projection.weight").shape(), Shape({12, 2, 2, 3}));
}

std::string refusal(const std::string& name, const Json& more) {
  const SmallFamily family = family_named(name);
  return message_of([&] { TransformerModel::from_config(family.config(family.architecture, more)); });
}

TEST(FeatureFamilies, BadConfigs) {
  EXPECT_EQ(refusal("vit", {{"patch_size", 5}}),
            "config.json: patch_size is 5, expected a size that divides image_size, 4 x 6");
  EXPECT_EQ(refusal("vit", {{"image_size", {4, 6, 8}}}),
            "config.json: image_size is [4,6,8], expected one number of pixels, or a height and a width");
  EXPECT_EQ(
      refusal("vit", {{"architectures", {"ViTForMaskedImageModeling"}}}),
      "config.json: architectures is [\"ViTForMaskedImageModeling\"], expected ViTModel or ViTForImageClassification");
  EXPECT_EQ(refusal("whisper", {{"num_mel_bins", 0}}), "config.json: num_mel_bins is 0, expected 1 to 65536");
  EXPECT_EQ(refusal("whisper", {{"d_model", 6}, {"encoder_attention_heads", 4}}),
            "config.json: encoder_attention_heads is 4, which does not divide d_model, 6");
  const Json bert = {{"decoder", {{"model_type", "bert"}}}};
  EXPECT_EQ(refusal("vision-encoder-decoder", bert), "config.json: decoder: model_type is \"bert\", expected \"gpt2\"");
  const Json alone = {{"decoder", {{"model_type", "gpt2"}, {"vocab_size", 30}}}};
  EXPECT_EQ(refusal("vision-encoder-decoder", alone),
            "config.json: decoder: add_cross_attention is not there, expected true");
  EXPECT_EQ(refusal("vision-encoder-decoder", {{"encoder", nullptr}}),
            "config.json: encoder: model_type is not there, expected \"vit\"");
}

}  // namespace
