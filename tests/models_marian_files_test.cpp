#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "headway/random.h"
#include "headway/safetensors.h"
#include "headway/translation_model.h"
#include "support/bits.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/small_translation_model.h"

namespace {

using headway::DType;
using headway::Tensor;
using headway::TranslationModel;
using headway_test::contains;
using headway_test::ids;
using headway_test::message_of;
using headway_test::same_bits;
using headway_test::small_options;
using headway_test::TemporaryDirectory;
using Json = nlohmann::json;
using Tensors = std::map<std::string, Tensor>;

TranslationModel make() {
  headway::set_random_seed(21);
  TranslationModel model(small_options());
  model.eval();
  return model;
}

Tensor logits_of(const TranslationModel& model) {
  model.eval();
  return model.forward({.source = ids({{5, 6, 7, 0}}), .target = ids({{19, 3, 4}})}).logits;
}

// A saved model that can be spoiled.
class MarianFiles : public testing::Test {
 protected:
  void SetUp() override { make().save(directory_.path()); }

  Json config() const { return Json::parse(headway_test::read_bytes(directory_ / "config.json")); }
  void set(const std::string& field, const Json& value) const {
    Json json = config();
    json[field] = value;
    headway_test::write_bytes(directory_ / "config.json", json.dump());
  }
  void remove(const std::string& field) const {
    Json json = config();
    json.erase(field);
    headway_test::write_bytes(directory_ / "config.json", json.dump());
  }

  Tensors tensors() const {
    const auto file = headway::SafeTensors::open(directory_ / "model.safetensors");
    Tensors all;
    for (const std::string& name : file.names()) all[name] = file.get(name).clone();
    return all;
  }
  template <typename Change>
  void change(const Change& change) const {
    Tensors all = tensors();
    change(all);
    headway::save_safetensors(directory_ / "model.safetensors", all, {{"format", "pt"}});
  }

  // What loading says, after the name of the file.
  std::string complaint() const {
    const std::string message = message_of([&] { TranslationModel::load(directory_.path()); });
    const std::string before = directory_.path().string() + "/";
    return message.starts_with(before) ? message.substr(before.size()) : message;
  }

  TemporaryDirectory directory_;
};

TEST_F(MarianFiles, ComeBackBitByBit) {
  const TranslationModel model = make(), loaded = TranslationModel::load(directory_.path());
  EXPECT_TRUE(same_bits(logits_of(model), logits_of(loaded)));
  EXPECT_EQ(loaded.options().decoder_ffn_dim, 40);
  EXPECT_EQ(loaded.options().max_position_embeddings, 32);
  EXPECT_EQ(loaded.options().pad_token_id, 19);
  EXPECT_TRUE(loaded.options().scale_embedding);
}

TEST_F(MarianFiles, HaveMarianNamesAndFields) {
  const Tensors all = tensors();
  EXPECT_EQ(all.at("model.shared.weight").shape(), headway::Shape({20, 16}));
  EXPECT_EQ(all.at("final_logits_bias").shape(), headway::Shape({1, 20}));
  EXPECT_EQ(all.at("model.decoder.layers.2.encoder_attn.v_proj.weight").shape(), headway::Shape({16, 16}));
  EXPECT_EQ(all.at("model.encoder.layers.1.fc2.weight").shape(), headway::Shape({16, 24}));
  EXPECT_EQ(all.size(), 2U + 2U * 16U + 3U * 26U);
  EXPECT_EQ(config().at("dtype"), "float32");
  EXPECT_EQ(config().at("activation_function"), "relu");
  const Json generation = Json::parse(headway_test::read_bytes(directory_ / "generation_config.json"));
  EXPECT_EQ(generation.at("bad_words_ids"), Json::parse("[[19]]"));
  EXPECT_EQ(generation.at("num_beams"), 4);
  EXPECT_TRUE(generation.at("forced_eos_token_id").is_null());
}

TEST_F(MarianFiles, SixteenBitsAreReadAsFloat32) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    make().save(directory_.path(), dtype);
    EXPECT_EQ(tensors().at("model.shared.weight").dtype(), dtype);
    EXPECT_EQ(config().at("dtype"), "float32");
    const TranslationModel loaded = TranslationModel::load(directory_.path());
    EXPECT_EQ(loaded.parameters().front().dtype(), DType::float32);
    EXPECT_TRUE(headway_test::near(logits_of(loaded), logits_of(make()), 0.05));
  }
}

TEST_F(MarianFiles, TiedCopiesAndSinusoidsMayBeThere) {
  const Tensor before = logits_of(TranslationModel::load(directory_.path()));
  change([](Tensors& all) {
    for (const char* name :
         {"lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}) {
      all[name] = all["model.shared.weight"];
    }
    all["model.encoder.embed_positions.weight"] = headway::sinusoidal_positions(32, 16, headway::Sinusoid::halves);
  });
  EXPECT_TRUE(same_bits(logits_of(TranslationModel::load(directory_.path())), before));
  change([](Tensors& all) { all.erase("model.shared.weight"); });
  EXPECT_TRUE(same_bits(logits_of(TranslationModel::load(directory_.path())), before));
  change([](Tensors& all) { all["lm_head.weight"] = headway::scale(all["lm_head.weight"], 2.0); });
  EXPECT_EQ(
      complaint(),
      "model.safetensors: tensor lm_head.weight differs from the other embeddings, and only one for source, target "
      "and output is supported");
}

TEST_F(MarianFiles, OtherPositionsAreRefused) {
  change([](Tensors& all) { all["model.decoder.embed_positions.weight"] = Tensor::randn({32, 16}, 1); });
  EXPECT_EQ(complaint(),
            "model.safetensors: tensor model.decoder.embed_positions.weight holds other positions than sines and "
            "cosines, which is not supported");
}

TEST_F(MarianFiles, ActivationsHaveSeveralNames) {
  const auto activation = [&](const std::string& name) {
    set("activation_function", name);
    return TranslationModel::load(directory_.path()).options().activation;
  };
  EXPECT_EQ(activation("gelu"), headway::Activation::gelu);
  EXPECT_EQ(activation("swish"), headway::Activation::silu);
  EXPECT_EQ(activation("silu"), headway::Activation::silu);
  set("activation_function", "sine");
  EXPECT_PRED2(contains, complaint(), "config.json: activation_function is \"sine\", expected one of relu, gelu, silu");
}

TEST_F(MarianFiles, MissingTensorsAreNamed) {
  change([](Tensors& all) { all.erase("model.decoder.layers.1.fc1.bias"); });
  EXPECT_EQ(complaint(), "model.safetensors: tensor model.decoder.layers.1.fc1.bias is not there, expected [40]");
}

TEST_F(MarianFiles, WrongShapesAreNamed) {
  change([](Tensors& all) { all["model.encoder.layers.0.fc1.weight"] = Tensor::zeros({24, 17}); });
  EXPECT_EQ(complaint(),
            "model.safetensors: tensor model.encoder.layers.0.fc1.weight is float32[24, 17], expected floats [24, 16]");
}

TEST_F(MarianFiles, IntegersAreNoWeights) {
  change([](Tensors& all) { all["final_logits_bias"] = Tensor::zeros({1, 20}, DType::int64); });
  EXPECT_EQ(complaint(), "model.safetensors: tensor final_logits_bias is int64[1, 20], expected floats [1, 20]");
}

TEST_F(MarianFiles, UnknownTensorsAreNamed) {
  change([](Tensors& all) { all["model.encoder.layer_norm.weight"] = Tensor::zeros({16}); });
  EXPECT_EQ(complaint(), "model.safetensors: tensor model.encoder.layer_norm.weight is not part of such a model");
}

TEST_F(MarianFiles, OtherModelsAreRefusedByField) {
  const auto with = [&](const char* field, const Json& value) {
    const Json before = config();
    set(field, value);
    const std::string message = complaint();
    headway_test::write_bytes(directory_ / "config.json", before.dump());
    return message;
  };
  EXPECT_EQ(with("normalize_before", true), "config.json: normalize_before is true, and only false is supported");
  EXPECT_EQ(with("share_encoder_decoder_embeddings", false),
            "config.json: share_encoder_decoder_embeddings is false, and only true is supported");
  EXPECT_EQ(with("model_type", "bart"), "config.json: model_type is \"bart\", expected \"marian\"");
  EXPECT_EQ(with("decoder_vocab_size", 21), "config.json: decoder_vocab_size is 21, expected vocab_size, 20");
  EXPECT_EQ(with("d_model", "16"), "config.json: d_model is \"16\", expected an integer");
  EXPECT_EQ(with("d_model", 16.5), "config.json: d_model is 16.5, expected an integer");
  EXPECT_EQ(with("d_model", -16), "config.json: d_model is -16, expected 2 to 65536");
  EXPECT_EQ(with("d_model", std::uint64_t{18446744073709551615U}),
            "config.json: d_model is 18446744073709551615, expected an integer");
  EXPECT_EQ(with("vocab_size", nullptr), "config.json: vocab_size is not there");
  EXPECT_EQ(with("encoder_layers", 1000000000), "config.json: encoder_layers is 1000000000, expected 0 to 1000");
  EXPECT_EQ(with("encoder_layers", 900),
            "model.safetensors: tensor model.encoder.layers.2.self_attn.q_proj.weight is "
            "not there, expected [16, 16]");
  EXPECT_EQ(with("encoder_attention_heads", 0), "config.json: encoder_attention_heads is 0, expected 1 to 16");
  EXPECT_EQ(with("max_position_embeddings", 100000000),
            "config.json: max_position_embeddings is 100000000, expected 1 to 65536");
  EXPECT_EQ(with("dropout", 1.5), "config.json: dropout is 1.5, expected 0 or more and less than 1");
  EXPECT_EQ(with("dropout", "x"), "config.json: dropout is \"x\", expected a number");
  EXPECT_EQ(with("scale_embedding", 1), "config.json: scale_embedding is 1, expected true or false");
  EXPECT_EQ(with("eos_token_id", 20), "config.json: eos_token_id is 20, expected 0 to 19");
}

TEST_F(MarianFiles, BrokenFilesAreNamed) {
  headway_test::write_bytes(directory_ / "config.json", "{\"d_model\": ");
  EXPECT_PRED2(contains, complaint(), "config.json: is not JSON");
  headway_test::write_bytes(directory_ / "config.json", "[1, 2]");
  EXPECT_EQ(complaint(), "config.json: is not a JSON object");
  std::filesystem::remove(directory_ / "config.json");
  EXPECT_EQ(complaint(), "config.json: no such file");
}

TEST_F(MarianFiles, MissingWeightsAreNamed) {
  std::filesystem::remove(directory_ / "model.safetensors");
  EXPECT_PRED2(contains, complaint(), "model.safetensors");
  headway_test::write_bytes(directory_ / "pytorch_model.bin", "x");
  EXPECT_PRED2(contains, complaint(), "has pytorch_model.bin, expected the weights in one file, model.safetensors");
  EXPECT_PRED2(contains, message_of([&] { TranslationModel::load(directory_ / "nowhere"); }), "no such directory");
}

TEST(MarianFilesSave, NamesADirectoryThatCannotBe) {
  const TemporaryDirectory directory;
  headway_test::write_bytes(directory / "file", "x");
  EXPECT_PRED2(contains, message_of([&] { make().save(directory / "file" / "model"); }), "cannot be made");
  EXPECT_EQ(message_of([&] { make().save(directory.path(), DType::int64); }),
            "TranslationModel::save: dtype is int64, expected a floating one");
}

}  // namespace
