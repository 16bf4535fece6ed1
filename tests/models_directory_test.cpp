// Model directories that are damaged, incomplete or of another kind, and how their files are mapped.
#include <gtest/gtest.h>
#include <unistd.h>

#include "headway/autograd.h"
#include "headway/optimizer.h"
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
using headway::ModelLoading;
using headway::Tensor;
using headway::TransformerModel;
using headway_test::contains;
using headway_test::message_of;
using headway_test::same_bits;
using headway_test::small_family;
using headway_test::TemporaryDirectory;
using Json = nlohmann::json;
using Tensors = std::map<std::string, Tensor>;

// A saved model that can be spoiled.
class ModelDirectory : public testing::Test {
 protected:
  void save(const std::string& family, const std::string& architecture = "") {
    headway::set_random_seed(3);
    const headway_test::SmallFamily small = small_family(family);
    TransformerModel::from_config(architecture.empty() ? small.config() : small.config(architecture))
        .save(directory_.path());
  }
  Json config() const { return Json::parse(headway_test::read_bytes(directory_ / "config.json")); }
  void set(const std::string& field, const Json& value) const {
    Json json = config();
    json[field] = value;
    headway_test::write_bytes(directory_ / "config.json", json.dump());
  }
  Tensors tensors() const { return headway::load_safetensors(directory_ / "model.safetensors"); }
  void write(const Tensors& tensors) const {
    headway::save_safetensors(directory_ / "model.safetensors", tensors, {{"format", "pt"}});
  }
  // What load() complains of.
  std::string complaint(const ModelLoading& loading = {}) const {
    return message_of([&] { TransformerModel::load(directory_.path(), loading); });
  }
  // The complaint about a field with another value, which is put back.
  std::string with(const std::string& field, const Json& value) const {
    const std::string before = headway_test::read_bytes(directory_ / "config.json");
    set(field, value);
    const std::string message = complaint();
    headway_test::write_bytes(directory_ / "config.json", before);
    return message;
  }

  TemporaryDirectory directory_;
};

TEST_F(ModelDirectory, NamesAllTensorsThatAreWrong) {
  save("llama");
  Tensors all = tensors();
  all.erase("model.layers.0.mlp.up_proj.weight");
  all.erase("model.layers.1.self_attn.k_proj.weight");
  all["model.layers.1.input_layernorm.weight"] = Tensor::zeros({13});
  all["model.layers.0.input_layernorm.weight"] = Tensor::zeros({12}, DType::int64);
  all["model.layers.2.input_layernorm.weight"] = Tensor::zeros({12});
  all["quantisation"] = Tensor::zeros({2});
  write(all);
  const std::string message = complaint();
  for (const char* part :
       {"missing: ", "model.layers.0.mlp.up_proj.weight [20, 12]", "model.layers.1.self_attn.k_proj.weight [12, 12]",
        "mis-shaped: ", "model.layers.1.input_layernorm.weight is float32[13], expected floats [12]",
        "model.layers.0.input_layernorm.weight is int64[12], expected floats [12]",
        "unexpected: ", "model.layers.2.input_layernorm.weight float32[12]", "quantisation float32[2]"}) {
    EXPECT_PRED2(contains, message, part);
  }
}

TEST_F(ModelDirectory, ContradictoryConfigsAreRefusedByTheirFields) {
  save("bert");
  EXPECT_PRED2(contains, with("num_attention_heads", 5),
               "config.json: num_attention_heads is 5, which does not divide hidden_size, 12");
  EXPECT_PRED2(contains, with("hidden_size", -12), "config.json: hidden_size is -12, expected 1 to 16777216");
  EXPECT_PRED2(contains, with("hidden_size", "12"), "config.json: hidden_size is \"12\", expected an integer");
  EXPECT_PRED2(contains, with("intermediate_size", std::int64_t{1} << 40), "config.json: intermediate_size is ");
  EXPECT_PRED2(contains, with("num_hidden_layers", 1 << 20), "config.json: num_hidden_layers is 1048576");
  EXPECT_PRED2(contains, with("vocab_size", 31),
               "bert.embeddings.word_embeddings.weight is float32[30, 12], expected floats [31, 12] by vocab_size");
  EXPECT_PRED2(contains, with("num_hidden_layers", 3),
               "missing: bert.encoder.layer.2.attention.self.query.weight [12, 12]");
  EXPECT_PRED2(contains, with("num_hidden_layers", 1), "unexpected: bert.encoder.layer.1.");
  EXPECT_PRED2(contains, with("hidden_act", "mish"),
               "config.json: hidden_act is \"mish\", expected one of relu, gelu, silu");
  EXPECT_PRED2(contains, with("hidden_dropout_prob", 1.5), "hidden_dropout_prob is 1.5, expected 0 or more and less");
  EXPECT_PRED2(contains, with("layer_norm_eps", 0), "layer_norm_eps is 0, expected a number above 0");
  EXPECT_PRED2(contains, with("is_decoder", true), "is_decoder is true, and only false is supported");
  EXPECT_PRED2(contains, with("position_embedding_type", "relative_key"),
               "position_embedding_type is \"relative_key\"");
  EXPECT_PRED2(contains, with("architectures", {"BertForNextSentencePrediction"}),
               "architectures is [\"BertForNextSentencePrediction\"], expected BertModel, BertForMaskedLM, or ");
  EXPECT_PRED2(contains, with("architectures", "BertModel"), "architectures is \"BertModel\", expected a list of ");
}

TEST_F(ModelDirectory, SizesThatNoMemoryHoldsAreRefused) {
  Json config = {{"model_type", "llama"}, {"hidden_size", 1 << 24}, {"num_attention_heads", 1 << 10}};
  EXPECT_PRED2(contains, message_of([&] { TransformerModel::from_config(config.dump()); }), "which no memory holds");
  config = {{"model_type", "llama"}, {"hidden_size", 1 << 18}, {"num_hidden_layers", 1000}, {"num_attention_heads", 8}};
  EXPECT_PRED2(contains, message_of([&] { TransformerModel::from_config(config.dump()); }), "which no memory holds");
}

TEST_F(ModelDirectory, UnknownFamiliesAreToldTheKnownOnes) {
  save("bert");
  const std::string message = with("model_type", "rwkv");
  EXPECT_PRED2(contains, message, "config.json: model_type is \"rwkv\", expected one of bert, ");
  for (const std::string& name : TransformerModel::families()) EXPECT_PRED2(contains, message, name);
  EXPECT_PRED2(contains, with("model_type", nullptr), "model_type is null, expected one of ");
}

TEST_F(ModelDirectory, OtherWeightsAreRefused) {
  save("gpt2");
  std::filesystem::remove(directory_ / "model.safetensors");
  EXPECT_PRED2(contains, complaint(), "has neither model.safetensors nor model.safetensors.index.json");
  headway_test::write_bytes(directory_ / "pytorch_model.bin", "x");
  const std::string message = complaint();
  EXPECT_PRED2(contains, message, "has pytorch_model.bin, expected model.safetensors; convert it with: python -c \"");
  EXPECT_PRED2(contains, message, "save_pretrained('" + directory_.path().string() + "')");
  EXPECT_PRED2(contains, message_of([&] { TransformerModel::load(directory_ / "none"); }), "no such directory");
}

TEST_F(ModelDirectory, DamagedFilesAreRefused) {
  save("gpt2");
  const std::string bytes = headway_test::read_bytes(directory_ / "model.safetensors");
  headway_test::write_bytes(directory_ / "model.safetensors", bytes.substr(0, bytes.size() - 8));
  EXPECT_PRED2(contains, complaint(), "truncated");
  headway_test::write_bytes(directory_ / "model.safetensors", bytes);
  headway_test::write_bytes(directory_ / "config.json", "{\"model_type\": ");
  EXPECT_PRED2(contains, complaint(), "config.json");
  headway_test::write_bytes(directory_ / "config.json", "[]");
  EXPECT_PRED2(contains, complaint(), "config.json: is not a JSON object");
  std::filesystem::remove(directory_ / "config.json");
  EXPECT_PRED2(contains, complaint(), "config.json");
}

TEST_F(ModelDirectory, SeveralFilesAreReadByTheirIndex) {
  save("llama");
  const Tensors all = tensors();
  const Tensor expected = TransformerModel::load(directory_.path()).state_dict().at("decoder.norm.weight");
  Tensors parts[2];
  Json map = Json::object();
  int next = 0;
  for (const auto& [name, tensor] : all) {
    parts[next % 2][name] = tensor.clone();
    map[name] = next % 2 == 0 ? "model-1.safetensors" : "model-2.safetensors";
    ++next;
  }
  std::filesystem::remove(directory_ / "model.safetensors");
  headway::save_safetensors(directory_ / "model-1.safetensors", parts[0]);
  headway::save_safetensors(directory_ / "model-2.safetensors", parts[1]);
  const auto index = [&](const Json& weight_map) {
    headway_test::write_bytes(directory_ / "model.safetensors.index.json", Json{{"weight_map", weight_map}}.dump());
  };
  index(map);
  const TransformerModel model = TransformerModel::load(directory_.path());
  EXPECT_TRUE(same_bits(model.state_dict().at("decoder.norm.weight"), expected));

  for (const char* name : {"../model-1.safetensors", "/etc/model.safetensors", "sub/model-1.safetensors", "..", ""}) {
    Json other = map;
    other["model.norm.weight"] = name;
    index(other);
    EXPECT_PRED2(contains, complaint(), "expected the name of a safetensors file beside it") << name;
  }
  Json more = map;
  more["more.weight"] = "model-1.safetensors";
  index(more);
  EXPECT_PRED2(contains, complaint(), "tensors that are in none of its files: more.weight");
  index(Json::array());
  EXPECT_PRED2(contains, complaint(), "weight_map is not there");
}

TEST_F(ModelDirectory, BuffersAndOldNamesAreRead) {
  save("bert", "BertForSequenceClassification");
  const Tensor expected = TransformerModel::load(directory_.path()).state_dict().at("encoder.embedding_norm.weight");
  Tensors all = tensors();
  all["bert.embeddings.position_ids"] = Tensor::zeros({1, 24}, DType::int64);
  all["bert.embeddings.LayerNorm.gamma"] = all.at("bert.embeddings.LayerNorm.weight");
  all["bert.embeddings.LayerNorm.beta"] = all.at("bert.embeddings.LayerNorm.bias");
  all.erase("bert.embeddings.LayerNorm.weight");
  all.erase("bert.embeddings.LayerNorm.bias");
  write(all);
  const TransformerModel model = TransformerModel::load(directory_.path());
  EXPECT_TRUE(same_bits(model.state_dict().at("encoder.embedding_norm.weight"), expected));
  EXPECT_TRUE(model.options().pooler);

  // The classifier is part of the model, unless it is replaced.
  all.erase("classifier.weight");
  write(all);
  EXPECT_PRED2(contains, complaint(), "missing: classifier.weight [2, 12]");
  EXPECT_EQ(complaint({.new_head = HeadKind::span}), "no error");
}

TEST_F(ModelDirectory, EmbeddingsUnderOtherNames) {
  save("t5");
  Tensors all = tensors();
  all["encoder.embed_tokens.weight"] = all.at("shared.weight");
  all["decoder.embed_tokens.weight"] = all.at("shared.weight");
  write(all);
  EXPECT_EQ(complaint(), "no error");
  all.erase("shared.weight");
  write(all);
  EXPECT_EQ(complaint(), "no error");
  all["decoder.embed_tokens.weight"] = Tensor::zeros({30, 12});
  write(all);
  EXPECT_PRED2(contains, complaint(), "tensor decoder.embed_tokens.weight differs from the other embeddings");
}

TEST_F(ModelDirectory, StoredPositionsMustBeSinusoids) {
  save("pegasus");
  EXPECT_EQ(complaint(), "no error");
  Tensors all = tensors();
  all["model.encoder.embed_positions.weight"] = Tensor::zeros({24, 12});
  write(all);
  EXPECT_PRED2(contains, complaint(), "model.encoder.embed_positions.weight holds other positions");
}

TEST_F(ModelDirectory, GenerationConfigIsKept) {
  save("gpt2");
  headway_test::write_bytes(directory_ / "generation_config.json", "{\"eos_token_id\": [2, 3]}");
  const TransformerModel model = TransformerModel::load(directory_.path());
  EXPECT_EQ(model.generation_config(), "{\"eos_token_id\": [2, 3]}");
  const TemporaryDirectory second;
  model.save(second.path());
  EXPECT_EQ(headway_test::read_bytes(second / "generation_config.json"), "{\"eos_token_id\": [2, 3]}");
}

TEST_F(ModelDirectory, NewLabelsNeedAHeadOfClasses) {
  save("bert");
  EXPECT_PRED2(contains, complaint({.new_labels = {"a"}}), "new_labels has 1 labels, expected none");
  EXPECT_PRED2(contains, complaint({.new_head = HeadKind::tokens, .new_labels = {"a", "a"}}), "new_labels has a twice");
  save("t5");
  EXPECT_PRED2(contains, complaint({.new_head = HeadKind::sequence}), "t5 is an encoder-decoder");
}

TEST_F(ModelDirectory, MappedParametersAreNotWrittenTo) {
  save("llama");
  const TransformerModel mapped = TransformerModel::load(directory_.path());
  for (const auto& [name, tensor] : mapped.named_parameters()) EXPECT_TRUE(tensor.is_read_only()) << name;
  EXPECT_PRED2(contains, message_of([&] { headway::AdamW optimizer(mapped); }), "constant memory");

  const TransformerModel own = TransformerModel::load(directory_.path(), {.mapped = false});
  for (const auto& [name, tensor] : own.named_parameters()) {
    EXPECT_FALSE(tensor.is_read_only()) << name;
    EXPECT_TRUE(tensor.requires_grad()) << name;
    EXPECT_TRUE(same_bits(tensor.detach(), mapped.state_dict().at(name)));
  }
  // Saving into the directory that is mapped replaces the file; the mapping stays as it was.
  const headway::NoGradGuard guard;
  Tensor(own.state_dict().at("decoder.norm.weight")).fill(3.0);
  own.save(directory_.path());
  EXPECT_EQ(mapped.state_dict().at("decoder.norm.weight").to_vector().front(), 1.0);
  EXPECT_EQ(TransformerModel::load(directory_.path()).state_dict().at("decoder.norm.weight").to_vector().front(), 3.0);
}

// The process's own memory and that of mapped files, in bytes.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_F(ModelDirectory, OpeningAMappedModelTakesNoMemory) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps memory of its own";
#endif
  const Json config = {{"model_type", "llama"},       {"hidden_size", 512},       {"intermediate_size", 1408},
                       {"num_hidden_layers", 2},      {"num_attention_heads", 8}, {"vocab_size", 32000},
                       {"tie_word_embeddings", false}};
  const auto plan = headway::internal::plan_model(headway::internal::ModelConfig::parse(config.dump(), "config.json"));
  Tensors zeros;
  for (const auto& tensor : headway::internal::file_tensors(plan.options, *plan.family)) {
    zeros[(tensor.in_head ? "" : "model.") + tensor.pieces.front()] = Tensor::zeros(tensor.shape, DType::bfloat16);
  }
  write(zeros);
  zeros.clear();
  headway_test::write_bytes(directory_ / "config.json", config.dump());
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(directory_ / "model.safetensors"));
  ASSERT_GT(bytes, std::int64_t{70} << 20);
  const std::int64_t before = resident_bytes();
  const TransformerModel model = TransformerModel::load(directory_.path());
  EXPECT_LT(resident_bytes() - before, bytes / 10);
  EXPECT_EQ(model.named_parameters().front().tensor.dtype(), DType::bfloat16);
}

}  // namespace
