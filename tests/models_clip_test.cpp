// CLIP: directories, embeddings against the towers by themselves, the two rules of pooling, the loss and its gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "headway/autograd.h"
#include "headway/clip_model.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "headway/safetensors.h"
#include "models/clip_config.h"
#include "support/bits.h"
#include "support/files.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace {

using headway::ClipEmbeddings;
using headway::ClipModel;
using headway::ClipResult;
using headway::DType;
using headway::Shape;
using headway::Tensor;
using headway::Weights;
using headway_test::contains;
using headway_test::message_of;
using headway_test::same_bits;
using headway_test::TemporaryDirectory;
using Json = nlohmann::json;

Json small_config() {
  Json config = {{"model_type", "clip"}, {"projection_dim", 5}};
  config["text_config"] = {{"vocab_size", 20},         {"hidden_size", 8},        {"num_hidden_layers", 1},
                           {"num_attention_heads", 2}, {"intermediate_size", 12}, {"max_position_embeddings", 6},
                           {"eos_token_id", 9}};
  config["vision_config"] = {{"hidden_size", 12}, {"num_hidden_layers", 2}, {"num_attention_heads", 3},
                             {"image_size", 4},   {"patch_size", 2},        {"intermediate_size", 16}};
  return config;
}

ClipModel made(const Json& config = small_config(), DType dtype = DType::float32) {
  headway::set_random_seed(5);
  ClipModel model = ClipModel::from_config(config.dump(), dtype);
  const headway::NoGradGuard guard;
  std::uint64_t seed = 20;
  for (const auto& [name, parameter] : model.named_parameters()) {
    Tensor(parameter.detach()).copy_from(Tensor::uniform(parameter.shape(), -0.6, 0.6, ++seed));
  }
  model.eval();
  return model;
}

const Tensor kTexts = Tensor::from(std::vector<std::int64_t>{3, 5, 9, 1, 4, 9, 2, 12, 15, 6, 8, 9}, {3, 4});
Tensor pictures(std::int64_t count = 3) { return Tensor::randn({count, 3, 4, 4}, 6); }

TEST(ClipModel, SavedModelsAreTheSameWhenLoaded) {
  const ClipModel model = made();
  const ClipResult expected = model.forward({.tokens = kTexts, .pictures = pictures(2)});
  EXPECT_EQ(expected.logits_per_text.shape(), Shape({3, 2}));
  EXPECT_EQ(expected.logits_per_picture.shape(), Shape({2, 3}));
  const TemporaryDirectory directory, half;
  model.save(directory.path());
  const ClipModel loaded = ClipModel::load(directory.path());
  EXPECT_FALSE(loaded.is_training());
  const ClipResult result = loaded.forward({.tokens = kTexts, .pictures = pictures(2)});
  EXPECT_TRUE(same_bits(result.logits_per_text, expected.logits_per_text));
  EXPECT_EQ(Json::parse(loaded.config()), Json::parse(headway_test::read_bytes(directory / "config.json")));
  EXPECT_EQ(Json::parse(loaded.config()).at("architectures"), Json({"CLIPModel"}));
  model.save(half.path(), DType::float16);
  EXPECT_EQ(ClipModel::load(half.path()).parameters().front().dtype(), DType::float16);
  const ClipModel wide = ClipModel::load(half.path(), {.dtype = DType::float32, .mapped = false});
  EXPECT_TRUE(headway_test::near(wide.forward({.tokens = kTexts, .pictures = pictures(2)}).logits_per_text,
                                 expected.logits_per_text, 0.05));
}

TEST(ClipModel, ParametersAreThoseOfTheFiles) {
  const ClipModel model = made();
  std::map<std::string, std::string> expected, found;
  for (const auto& tensor : headway::internal::clip_tensors(model.options())) {
    expected[tensor.parameter] = tensor.shape.to_string();
  }
  for (const auto& [name, tensor] : model.state_dict()) found[name] = tensor.shape().to_string();
  EXPECT_EQ(found, expected);
}

TEST(ClipModel, EmbeddingsOfTheTowers) {
  const ClipModel model = made();
  const ClipEmbeddings texts = model.embed_texts(kTexts, {}, Weights::per_head);
  const ClipEmbeddings seen = model.embed_pictures(pictures(), Weights::per_head);
  EXPECT_EQ(texts.weights.size(), 1u);
  EXPECT_EQ(seen.weights.at(1).shape(), Shape({3, 3, 5, 5}));
  EXPECT_EQ(texts.weights.front().at({0, 0, 0, 1}), 0.0);  // causal
  for (std::int64_t i = 0; i < 3; ++i) {
    double square = 0;
    for (std::int64_t j = 0; j < 5; ++j) square += std::pow(seen.embeddings.at({i, j}), 2);
    EXPECT_NEAR(square, 1, 1e-6);
  }
  // The hidden states of a text's end token, projected.
  const headway::StateDict state = model.state_dict();
  const Tensor end = texts.hidden.select(0, 1).slice(0, 1, 2);  // of {4, 9, 2, 12}
  const Tensor projected = headway::linear(end, state.at("text_projection.weight"));
  EXPECT_TRUE(headway_test::near(texts.projected.slice(0, 1, 2), projected, 1e-6));
  const ClipResult all = model.forward({.tokens = kTexts, .pictures = pictures()});
  double cosine = 0;
  for (std::int64_t j = 0; j < 5; ++j) cosine += texts.embeddings.at({2, j}) * seen.embeddings.at({1, j});
  EXPECT_NEAR(all.logits_per_text.at({2, 1}), cosine * std::exp(state.at("logit_scale").item()), 1e-5);
  // What follows the end token does not matter, nor how padding is given.
  const Tensor longer = headway::concat({kTexts, Tensor::zeros({3, 2}, DType::int64)}, 1);
  EXPECT_TRUE(headway_test::near(model.embed_texts(longer).embeddings, texts.embeddings, 1e-6));
  EXPECT_TRUE(headway_test::near(model.embed_texts(longer, {4, 4, 4}).embeddings, texts.embeddings, 1e-6));
}

// Configs with eos_token_id 2 take the token with the greatest id.
TEST(ClipModel, OlderConfigsPoolTheGreatestId) {
  Json config = small_config();
  config["text_config"]["eos_token_id"] = 2;
  const ClipModel model = made(config);
  const ClipEmbeddings texts = model.embed_texts(kTexts);
  const Tensor greatest = texts.hidden.select(0, 1).slice(0, 3, 4);  // 12 of {4, 9, 2, 12}
  const Tensor projected = headway::linear(greatest, model.state_dict().at("text_projection.weight"));
  EXPECT_TRUE(headway_test::near(texts.projected.slice(0, 1, 2), projected, 1e-6));
}

TEST(ClipModel, LossAndGradients) {
  const Tensor logits = Tensor::from<double>({2, 1, 0, 0, 3, 1, 1, 0, 1}, {3, 3});
  const Tensor targets = Tensor::from(std::vector<std::int64_t>{0, 1, 2}, {3});
  const double expected = (headway::cross_entropy(logits, targets).item() +
                           headway::cross_entropy(logits.transpose(0, 1).contiguous(), targets).item()) /
                          2;
  EXPECT_NEAR(ClipModel::contrastive_loss(logits).item(), expected, 1e-12);

  const ClipModel model = made(small_config(), DType::float64);
  std::vector<std::string> names;
  std::vector<Tensor> values;
  for (const auto& [name, parameter] : model.named_parameters()) {
    names.push_back(name);
    values.push_back(parameter.detach().clone());
  }
  headway_test::check_gradients(
      [&](const std::vector<Tensor>& all) {
        for (std::size_t i = 0; i < names.size(); ++i) model.set_parameter(names[i], all[i]);
        return ClipModel::contrastive_loss(model.forward({.tokens = kTexts, .pictures = pictures()}).logits_per_text);
      },
      values, {.elements = 2});
}

TEST(ClipModel, BadInput) {
  const ClipModel model = made();
  EXPECT_PRED2(contains, message_of([&] {
                 model.embed_pictures(Tensor::zeros({1, 3, 6, 4}));
               }),
               "features are pictures of 6 x 4, and the model reads 4 x 4 (height x width)");
  EXPECT_PRED2(contains, message_of([&] {
                 model.embed_texts(Tensor::zeros({1, 7}, DType::int64));
               }),
               "tokens has a text of 7 tokens, and the model has 6 positions");
  EXPECT_PRED2(contains, message_of([&] {
                 model.embed_texts(Tensor::full({1, 2}, 20, DType::int64));
               }),
               "tokens has 20 at [0, 0], expected 0 to 19");
  EXPECT_PRED2(contains, message_of([&] {
                 model.embed_texts(Tensor::zeros({2, 0}, DType::int64));
               }),
               "expected at least one token");
  EXPECT_EQ(message_of([] {
              ClipModel::contrastive_loss(Tensor::zeros({2, 3}));
            }),
            "ClipModel::contrastive_loss: logits_per_text is float32[2, 3], expected as many texts as pictures");
}

TEST(ClipModel, BadFiles) {
  const auto refusal = [](const char* field, const Json& value) {
    Json config = small_config();
    config[field] = value;
    return message_of([&] { ClipModel::from_config(config.dump()); });
  };
  EXPECT_EQ(refusal("model_type", "bert"), "config.json: model_type is \"bert\", expected \"clip\"");
  EXPECT_EQ(refusal("architectures", {"CLIPTextModel"}),
            "config.json: architectures is [\"CLIPTextModel\"], expected CLIPModel");
  EXPECT_PRED2(contains, refusal("vision_config", {{"patch_size", 100}}), "patch_size is 100");
  const TemporaryDirectory directory;
  made().save(directory.path());
  std::map<std::string, Tensor> tensors = headway::load_safetensors(directory / "model.safetensors");
  EXPECT_TRUE(tensors.contains("vision_model.pre_layrnorm.weight"));
  tensors.erase("logit_scale");
  tensors["text_projection.weight"] = Tensor::zeros({5, 9});
  tensors["more"] = Tensor::zeros({1});
  tensors["text_model.embeddings.position_ids"] = Tensor::zeros({1, 6}, DType::int64);  // a buffer of older files
  headway::save_safetensors(directory / "model.safetensors", tensors);
  EXPECT_EQ(message_of([&] { ClipModel::load(directory.path()); }),
            directory.path().string() +
                ": the tensors are not those of config.json; missing: logit_scale []; mis-shaped: "
                "text_projection.weight is float32[5, 9], expected floats [5, 8]; unexpected: more float32[1]");
  EXPECT_PRED2(contains, message_of([&] { ClipModel::load(directory.path(), {.new_head = headway::HeadKind::none}); }),
               "new_head is given");
}

}  // namespace
