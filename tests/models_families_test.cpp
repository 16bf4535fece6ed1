// Every family: from a config to a directory and back.
#include <gtest/gtest.h>

#include <set>

#include "headway/autograd.h"
#include "headway/random.h"
#include "headway/safetensors.h"
#include "headway/transformer_model.h"
#include "models/model_directory.h"
#include "support/bits.h"
#include "support/files.h"
#include "support/small_families.h"

namespace {

using headway::DType;
using headway::HeadKind;
using headway::ModelLoading;
using headway::ModelResult;
using headway::Tensor;
using headway::TransformerModel;
using headway_test::near;
using headway_test::same_bits;
using headway_test::small_families;
using headway_test::small_family;
using headway_test::small_input;
using headway_test::SmallFamily;
using headway_test::TemporaryDirectory;
using Json = nlohmann::json;

TransformerModel made(const std::string& config, DType dtype = DType::float32) {
  headway::set_random_seed(7);
  TransformerModel model = TransformerModel::from_config(config, dtype);
  // Values that differ where initial ones are all the same.
  const headway::NoGradGuard guard;
  std::uint64_t seed = 100;
  for (auto& [name, parameter] : model.named_parameters()) {
    if (parameter.rank() == 1)
      Tensor(parameter.detach()).copy_from(Tensor::uniform(parameter.shape(), 0.5, 1.5, ++seed));
  }
  model.eval();
  return model;
}

ModelResult run(const TransformerModel& model) {
  const headway::NoGradGuard guard;
  return model.forward(small_input(model));
}

std::set<std::string> names_in(const TemporaryDirectory& directory) {
  const std::vector<std::string> names = headway::SafeTensors::open(directory / "model.safetensors").names();
  return {names.begin(), names.end()};
}

Json config_in(const TemporaryDirectory& directory) {
  return Json::parse(headway_test::read_bytes(directory / "config.json"));
}

TEST(Families, SavedModelsAreTheSameWhenLoaded) {
  for (const SmallFamily& family : small_families()) {
    SCOPED_TRACE(family.name);
    const TransformerModel model = made(family.config());
    EXPECT_EQ(model.family(), family.name);
    EXPECT_EQ(model.options().head.kind, HeadKind::language_model);
    const TemporaryDirectory directory;
    model.save(directory.path());
    const TransformerModel loaded = TransformerModel::load(directory.path());
    EXPECT_FALSE(loaded.is_training());
    const ModelResult expected = run(model), result = run(loaded);
    EXPECT_TRUE(same_bits(result.logits, expected.logits));
    EXPECT_TRUE(same_bits(result.hidden, expected.hidden));
    EXPECT_EQ(result.logits.size(2), 30);
    EXPECT_EQ(config_in(directory).at("architectures"), Json({family.architecture}));
    EXPECT_EQ(config_in(directory).at("dtype"), "float32");
    EXPECT_EQ(Json::parse(loaded.config()), config_in(directory));
  }
}

TEST(Families, EveryFamilyIsTried) {
  std::vector<std::string> names = TransformerModel::families();
  std::erase(names, "gemma3");  // which is gemma3_text inside another config
  std::set<std::string> tried;
  for (const SmallFamily& family : small_families()) tried.insert(family.name);
  for (const SmallFamily& family : headway_test::small_feature_families()) tried.insert(family.name);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), tried);
}

TEST(Families, HeadsAreThoseOfTheArchitecture) {
  const std::vector<std::pair<const char*, HeadKind>> heads = {{"Model", HeadKind::none},
                                                               {"ForSequenceClassification", HeadKind::sequence},
                                                               {"ForTokenClassification", HeadKind::tokens},
                                                               {"ForQuestionAnswering", HeadKind::span}};
  const Json labels = {{"id2label", {{"0", "bad"}, {"2", "good"}, {"1", "fair"}}}};
  for (const SmallFamily& family : small_families()) {
    for (const auto& [ending, kind] : heads) {
      if (family.is_encoder_decoder() && kind != HeadKind::none) continue;
      SCOPED_TRACE(family.class_name + ending);
      const TransformerModel model = made(family.config(family.class_name + ending, labels));
      EXPECT_EQ(model.options().head.kind, kind);
      const TemporaryDirectory directory;
      model.save(directory.path());
      const TransformerModel loaded = TransformerModel::load(directory.path());
      const ModelResult expected = run(model), result = run(loaded);
      EXPECT_TRUE(same_bits(result.hidden, expected.hidden));
      EXPECT_TRUE(same_bits(result.logits, expected.logits));
      EXPECT_TRUE(same_bits(result.pooled, expected.pooled));
      const std::vector<std::string> expected_labels = {"bad", "fair", "good"};
      const bool classes = kind == HeadKind::sequence || kind == HeadKind::tokens;
      EXPECT_EQ(loaded.options().labels, classes ? expected_labels : std::vector<std::string>());
      EXPECT_EQ(result.logits.defined(), kind != HeadKind::none);
      if (kind == HeadKind::none) continue;
      EXPECT_EQ(result.logits.size(-1), classes ? 3 : 2);
    }
  }
}

TEST(Families, ParametersAreThoseThatTheFilesAreCheckedAgainst) {
  for (const SmallFamily& family : small_families()) {
    for (const std::string& architecture : {family.architecture, family.class_name + "Model"}) {
      SCOPED_TRACE(architecture);
      const TransformerModel model = made(family.config(architecture));
      std::map<std::string, std::string> expected, found;
      for (const auto& [name, shape] : headway::internal::parameter_shapes(model.options())) {
        expected[name] = shape.to_string();
      }
      for (const auto& [name, tensor] : model.state_dict()) found[name] = tensor.shape().to_string();
      EXPECT_EQ(found, expected);
    }
  }
}

TEST(Families, BaseModelsAreReadWithAndWithoutPrefix) {
  for (const SmallFamily& family : small_families()) {
    SCOPED_TRACE(family.name);
    const TemporaryDirectory directory;
    const TransformerModel model = made(family.config());
    model.save(directory.path());
    const ModelResult expected = run(model);
    // The head is left out.
    const TransformerModel bare = TransformerModel::load(directory.path(), {.new_head = HeadKind::none});
    EXPECT_TRUE(same_bits(run(bare).hidden, expected.hidden));
    EXPECT_FALSE(run(bare).logits.defined());
    // Without a prefix, as a bare model is written.
    const TemporaryDirectory second;
    bare.save(second.path());
    EXPECT_EQ(config_in(second).at("architectures"), Json({family.class_name + "Model"}));
    EXPECT_TRUE(same_bits(run(TransformerModel::load(second.path())).hidden, expected.hidden));
  }
}

TEST(Families, EncodersWithoutAHeadInTheirFilesHaveNone) {
  const SmallFamily family = small_family("bert");
  const TemporaryDirectory directory;
  const TransformerModel bare = made(family.config("BertModel"));
  bare.save(directory.path());
  Json config = config_in(directory);
  config["architectures"] = {"BertForMaskedLM"};
  headway_test::write_bytes(directory / "config.json", config.dump());
  const TransformerModel loaded = TransformerModel::load(directory.path());
  EXPECT_EQ(loaded.options().head.kind, HeadKind::none);
  EXPECT_TRUE(same_bits(run(loaded).pooled, run(bare).pooled));
  EXPECT_EQ(Json::parse(loaded.config()).at("architectures"), Json({"BertModel"}));
}

TEST(Families, NewHeadsReplaceThoseOfTheFile) {
  for (const SmallFamily& family : small_families()) {
    if (family.is_encoder_decoder()) continue;
    SCOPED_TRACE(family.name);
    const TemporaryDirectory directory;
    const TransformerModel model = made(family.config());
    model.save(directory.path());
    const TransformerModel tuned = TransformerModel::load(
        directory.path(),
        {.mapped = false, .new_head = HeadKind::sequence, .new_labels = {"sad", "calm", "glad", "angry"}});
    const ModelResult result = run(tuned);
    EXPECT_TRUE(same_bits(result.hidden, run(model).hidden));
    EXPECT_EQ(result.logits.shape(), headway::Shape({2, 4}));
    EXPECT_EQ(tuned.options().labels.at(2), "glad");
    // New values, not zeros.
    const std::vector<double> values = tuned.state_dict().at("head.output.weight").to_vector();
    EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](double value) { return value != 0; }));

    const TemporaryDirectory saved;
    tuned.save(saved.path());
    const Json config = config_in(saved);
    EXPECT_EQ(config.at("architectures"), Json({family.class_name + "ForSequenceClassification"}));
    EXPECT_EQ(config.at("id2label").at("3"), "angry");
    EXPECT_EQ(config.at("label2id").at("calm"), 1);
    EXPECT_TRUE(same_bits(run(TransformerModel::load(saved.path())).logits, result.logits));
  }
}

TEST(Families, ParametersKeepTheDtypeOfTheFiles) {
  for (const char* name : {"bert", "gpt2", "llama", "t5", "marian"}) {
    SCOPED_TRACE(name);
    const SmallFamily family = small_family(name);
    const TemporaryDirectory directory;
    const TransformerModel model = made(family.config());
    model.save(directory.path(), DType::bfloat16);
    EXPECT_EQ(config_in(directory).at("dtype"), "bfloat16");
    const TransformerModel half = TransformerModel::load(directory.path());
    for (const auto& [parameter, tensor] : half.named_parameters()) EXPECT_EQ(tensor.dtype(), DType::bfloat16);
    const TransformerModel wide = TransformerModel::load(directory.path(), {.dtype = DType::float32});
    for (const auto& [parameter, tensor] : wide.named_parameters()) EXPECT_EQ(tensor.dtype(), DType::float32);
    EXPECT_TRUE(near(run(wide).logits, run(model).logits, 0.05));
    EXPECT_TRUE(near(run(half).logits.to(DType::float32), run(wide).logits, 0.1));
  }
}

TEST(Families, TiedOutputsAreWrittenOnce) {
  const TemporaryDirectory directory;
  made(small_family("gpt2").config()).save(directory.path());
  EXPECT_FALSE(names_in(directory).contains("lm_head.weight"));
  EXPECT_TRUE(names_in(directory).contains("transformer.h.1.attn.c_attn.weight"));

  // A file that has it twice is read too; one with another output is not tied.
  std::map<std::string, Tensor> tensors = headway::load_safetensors(directory / "model.safetensors");
  tensors["lm_head.weight"] = tensors.at("transformer.wte.weight");
  headway::save_safetensors(directory / "model.safetensors", tensors);
  EXPECT_TRUE(TransformerModel::load(directory.path()).options().head.tied);
  tensors["lm_head.weight"] = Tensor::randn({30, 12}, 3);
  headway::save_safetensors(directory / "model.safetensors", tensors);
  const TransformerModel untied = TransformerModel::load(directory.path());
  EXPECT_FALSE(untied.options().head.tied);
  EXPECT_TRUE(same_bits(untied.state_dict().at("head.output.weight"), tensors.at("lm_head.weight")));
}

TEST(Families, MatricesOfGpt2AreTransposedInTheFile) {
  const TemporaryDirectory directory;
  const TransformerModel model = made(small_family("gpt2").config());
  model.save(directory.path());
  const auto file = headway::SafeTensors::open(directory / "model.safetensors");
  const Tensor ours = model.state_dict().at("decoder.layers.1.attention.qkv.weight");
  EXPECT_TRUE(same_bits(file.get("transformer.h.1.attn.c_attn.weight"), ours.transpose(0, 1)));
}

TEST(Families, ProjectionsOfMarianAreJoined) {
  const TemporaryDirectory directory;
  const TransformerModel model = made(small_family("marian").config());
  model.save(directory.path());
  const auto file = headway::SafeTensors::open(directory / "model.safetensors");
  const Tensor ours = model.state_dict().at("encoder.layers.1.attention.qkv.weight");
  EXPECT_TRUE(same_bits(file.get("model.encoder.layers.1.self_attn.k_proj.weight"), ours.slice(0, 12, 24)));
}

TEST(Families, TextPartOfAConfigWithImages) {
  const SmallFamily family = small_family("gemma3_text");
  const TransformerModel model = made(family.config());
  const TemporaryDirectory directory;
  model.save(directory.path());
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : headway::load_safetensors(directory / "model.safetensors")) {
    tensors["language_model." + name] = tensor;
  }
  tensors["vision_tower.weight"] = Tensor::zeros({3});
  headway::save_safetensors(directory / "model.safetensors", tensors);
  const Json config = {
      {"model_type", "gemma3"}, {"architectures", {"Gemma3ForConditionalGeneration"}}, {"text_config", family.fields}};
  headway_test::write_bytes(directory / "config.json", config.dump());
  const TransformerModel loaded = TransformerModel::load(directory.path());
  EXPECT_EQ(loaded.family(), "gemma3_text");
  EXPECT_TRUE(same_bits(run(loaded).logits, run(model).logits));
}

TEST(Families, ConfigsKeepWhatIsNotOurs) {
  const SmallFamily family = small_family("llama");
  const TransformerModel model =
      made(family.config(family.architecture, {{"mine", {1, "two"}}, {"torch_dtype", "float16"}}));
  const Json config = Json::parse(model.config());
  EXPECT_EQ(config.at("mine"), Json({1, "two"}));
  EXPECT_EQ(config.at("torch_dtype"), "float32");
  EXPECT_FALSE(config.contains("dtype"));
}

TEST(Families, RotaryParametersInOldAndNewFiles) {
  const SmallFamily family = small_family("llama");
  Json fields = family.fields;
  Json scaling = fields.at("rope_scaling");
  scaling["rope_theta"] = fields.at("rope_theta");
  fields.erase("rope_scaling");
  fields.erase("rope_theta");
  fields["rope_parameters"] = scaling;
  const SmallFamily newer = {family.name, family.class_name, family.architecture, fields};
  const auto of = [](const SmallFamily& one) {
    return *TransformerModel::from_config(one.config()).options().decoder.layers.at(1).rotary;
  };
  EXPECT_EQ(of(family).base, 500.0);
  EXPECT_EQ(of(newer).base, 500.0);
  EXPECT_EQ(of(family).scaling.kind, headway::RotaryScaling::Kind::llama3);
  EXPECT_EQ(of(newer).scaling.kind, headway::RotaryScaling::Kind::llama3);
  EXPECT_EQ(of(newer).scaling.original_length, 12);
}

TEST(Families, OutputBiasOfBartIsNotTrained) {
  const TemporaryDirectory directory;
  const TransformerModel model = made(small_family("bart").config());
  model.state_dict().at("head.output.bias").copy_from(Tensor::randn({30}, 5));
  model.save(directory.path());
  const TransformerModel loaded = TransformerModel::load(directory.path());
  EXPECT_TRUE(same_bits(loaded.state_dict().at("head.output.bias"), model.state_dict().at("head.output.bias")));
  for (const auto& [name, tensor] : loaded.named_parameters()) EXPECT_NE(name, "head.output.bias");
}

}  // namespace
