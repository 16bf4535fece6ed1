#include "tasks/sentence_modules.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"
#include "headway/safetensors.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

// Names in Pooling's config.json: those of today, and the flags of older versions, in the order in which these are
// concatenated.
struct PoolingName {
  TextPooling pooling;
  const char* name;
  const char* flag;
};
constexpr std::array<PoolingName, 6> kPoolingNames = {{
    {TextPooling::first, "cls", "pooling_mode_cls_token"},
    {TextPooling::max, "max", "pooling_mode_max_tokens"},
    {TextPooling::mean, "mean", "pooling_mode_mean_tokens"},
    {TextPooling::mean_root, "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    {TextPooling::weighted_mean, "weightedmean", "pooling_mode_weightedmean_tokens"},
    {TextPooling::last, "lasttoken", "pooling_mode_lasttoken"},
}};

constexpr std::array<std::pair<const char*, Activation>, 7> kDenseActivations = {{
    {"torch.nn.modules.linear.Identity", Activation::none},
    {"torch.nn.modules.activation.Tanh", Activation::tanh},
    {"torch.nn.modules.activation.ReLU", Activation::relu},
    {"torch.nn.modules.activation.GELU", Activation::gelu},
    {"torch.nn.modules.activation.SiLU", Activation::silu},
    {"torch.nn.modules.activation.Sigmoid", Activation::sigmoid},
    {"torch.nn.modules.activation.Identity", Activation::none},
}};

// A field of a config; `otherwise` where it is missing or null.
bool flag_of(const Json& config, const char* name, bool otherwise) {
  const Json* const value = config.find(name);
  return value == nullptr || value->is_null() ? otherwise : value->boolean();
}

TextPooling pooling_named(const std::string& name, const fs::path& file) {
  std::string known;
  for (const PoolingName& entry : kPoolingNames) {
    if (name == entry.name) return entry.pooling;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  fail(file.string(), ": pooling_mode is \"", name, "\", expected one of ", known);
}

void read_pooling(const fs::path& file, TextEncoderOptions& options) {
  const Json config = read_json(file);
  options.pooling.clear();
  if (const Json* const mode = config.find("pooling_mode"); mode != nullptr && mode->is_string()) {
    options.pooling.push_back(pooling_named(mode->string(), file));
  } else if (mode != nullptr && mode->is_array()) {
    for (const Json& name : mode->items()) options.pooling.push_back(pooling_named(name.string(), file));
  } else {
    for (const PoolingName& entry : kPoolingNames) {
      if (flag_of(config, entry.flag, false)) options.pooling.push_back(entry.pooling);
    }
  }
  if (options.pooling.empty()) options.pooling = {TextPooling::mean};
  options.include_prompt = flag_of(config, "include_prompt", true);
}

TextDense read_dense(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  const Json config = read_json(file);
  check(!flag_of(config, "use_residual", false), file.string(), ": use_residual is true, which is not supported");
  TextDense dense;
  const Json* const activation = config.find("activation_function");
  if (activation != nullptr && activation->is_string()) {
    const auto* const found = std::find_if(kDenseActivations.begin(), kDenseActivations.end(),
                                           [&](const auto& entry) { return activation->string() == entry.first; });
    check(found != kDenseActivations.end(), file.string(), ": activation_function is \"", activation->string(),
          "\", expected Identity, Tanh, ReLU, GELU, SiLU or Sigmoid of torch.nn");
    dense.activation = found->second;
  }
  const fs::path weights = folder / "model.safetensors";
  check(fs::exists(weights), weights.string(),
        ": is not there; a pytorch_model.bin is read by PyTorch alone: load and "
        "save the directory with sentence-transformers to have it converted");
  const SafeTensors tensors = SafeTensors::open(weights);
  dense.weight = tensors.get("linear.weight").to(DType::float32).contiguous();
  if (tensors.contains("linear.bias")) dense.bias = tensors.get("linear.bias").to(DType::float32).contiguous();
  check(dense.weight.rank() == 2, weights.string(), ": linear.weight is ", dense.weight, ", expected a matrix");
  return dense;
}

// Lengths and the case of texts, of the Transformer module.
void read_transformer_module(const fs::path& folder, TextEncoderOptions& options) {
  for (const char* const name : {"sentence_bert_config.json", "sentence_roberta_config.json",
                                 "sentence_distilbert_config.json", "sentence_xlm-roberta_config.json"}) {
    const fs::path file = folder / name;
    if (!fs::exists(file)) continue;
    const Json config = read_json(file);
    const Json* const length = config.find("max_seq_length");
    if (length != nullptr && !length->is_null()) {
      check(length->is_int64() && length->int64() > 0, file.string(), ": max_seq_length is ", length->text(),
            ", expected a number of tokens");
      options.max_length = length->int64();
    }
    options.lower_case = flag_of(config, "do_lower_case", false);
    return;
  }
}

void read_prompts(const fs::path& file, TextEncoderOptions& options) {
  if (!fs::exists(file)) return;
  const Json config = read_json(file);
  if (const Json* const prompts = config.find("prompts"); prompts != nullptr && prompts->is_object()) {
    for (const JsonField& field : prompts->fields()) {
      if (field.value.is_string()) options.prompts[field.name] = field.value.string();
    }
  }
  const Json* const usual = config.find("default_prompt_name");
  if (usual != nullptr && usual->is_string()) options.default_prompt = usual->string();
  check(options.default_prompt.empty() || options.prompts.contains(options.default_prompt), file.string(),
        ": default_prompt_name is \"", options.default_prompt, "\", which is not among the prompts");
}

std::string module_kind(const std::string& type) { return type.substr(type.rfind('.') + 1); }

Json module_entry(std::int64_t number, const std::string& path, const std::string& kind) {
  return Json{{"idx", number},
              {"name", std::to_string(number)},
              {"path", path},
              {"type", "sentence_transformers.models." + kind}};
}

void write_dense(const fs::path& folder, const TextDense& dense) {
  make_directories(folder);
  const char* activation = "";
  for (const auto& [name, kind] : kDenseActivations) {
    if (kind == dense.activation && *activation == '\0') activation = name;
  }
  const Json config = {{"in_features", dense.weight.size(1)},
                       {"out_features", dense.weight.size(0)},
                       {"bias", dense.bias.defined()},
                       {"activation_function", activation}};
  replace_file(folder / "config.json", config.text(2) + "\n");
  std::map<std::string, Tensor> tensors = {{"linear.weight", dense.weight}};
  if (dense.bias.defined()) tensors["linear.bias"] = dense.bias;
  save_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
}

}  // namespace

bool has_sentence_modules(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "modules.json", ignored);
}

SentenceModules read_sentence_modules(const fs::path& directory) {
  const fs::path file = directory / "modules.json";
  const Json modules = read_json(file);
  check(modules.is_array() && !modules.items().empty(), file.string(), ": is not a list of modules");
  SentenceModules read = {directory, {}};
  read.options.pooling.clear();
  for (std::size_t i = 0; i < modules.items().size(); ++i) {
    const std::string kind = module_kind(modules.items()[i].at("type").string());
    const fs::path folder = directory / modules.items()[i].at("path").string();
    check((kind == "Transformer") == (i == 0), file.string(), ": module ", i, " is ", kind,
          ", expected a Transformer first and no other");
    check(!read.options.normalize || kind == "Normalize" || kind == "Dropout", file.string(), ": ", kind,
          " follows Normalize, which is not supported");
    if (kind == "Transformer") {
      read.transformer = folder;
      read_transformer_module(folder, read.options);
    } else if (kind == "Pooling") {
      read_pooling(folder / "config.json", read.options);
    } else if (kind == "Dense") {
      read.options.dense.push_back(read_dense(folder));
    } else if (kind == "Normalize") {
      read.options.normalize = true;
    } else {
      check(kind == "Dropout", file.string(), ": module ", i, " is ", kind,
            ", expected Transformer, Pooling, Dense, Normalize or Dropout");
    }
  }
  check(!read.options.pooling.empty(), file.string(), ": has no Pooling module, so tokens do not become one vector");
  read_prompts(directory / "config_sentence_transformers.json", read.options);
  return read;
}

void write_sentence_modules(const fs::path& directory, const TextEncoderOptions& options, std::int64_t hidden_width) {
  make_directories(directory / "1_Pooling");
  Json modules = Json::array(), pooling = {{"word_embedding_dimension", hidden_width}};
  modules.push_back(module_entry(0, "", "Transformer"));
  modules.push_back(module_entry(1, "1_Pooling", "Pooling"));
  Json modes = Json::array();
  for (const TextPooling chosen : options.pooling) {
    for (const PoolingName& entry : kPoolingNames) {
      if (entry.pooling == chosen) modes.push_back(entry.name);
    }
  }
  for (const PoolingName& entry : kPoolingNames) {
    pooling.set(entry.flag,
                std::find(options.pooling.begin(), options.pooling.end(), entry.pooling) != options.pooling.end());
  }
  pooling.set("pooling_mode", modes.items().size() == 1 ? modes.items().front() : modes);
  pooling.set("include_prompt", options.include_prompt);
  replace_file(directory / "1_Pooling" / "config.json", pooling.text(2) + "\n");
  std::int64_t number = 2;
  for (const TextDense& dense : options.dense) {
    const std::string path = std::to_string(number) + "_Dense";
    write_dense(directory / path, dense);
    modules.push_back(module_entry(number++, path, "Dense"));
  }
  if (options.normalize) {
    const std::string path = std::to_string(number) + "_Normalize";
    make_directories(directory / path);
    modules.push_back(module_entry(number, path, "Normalize"));
  }
  const Json lengths = {{"max_seq_length", options.max_length > 0 ? Json(options.max_length) : Json()},
                        {"do_lower_case", options.lower_case}};
  replace_file(directory / "sentence_bert_config.json", lengths.text(2) + "\n");
  Json prompts = Json::object();
  for (const auto& [name, prompt] : options.prompts) prompts.set(name, prompt);
  const Json usual = options.default_prompt.empty() ? Json() : Json(options.default_prompt);
  const Json sentence = {{"prompts", prompts}, {"default_prompt_name", usual}, {"similarity_fn_name", "cosine"}};
  replace_file(directory / "config_sentence_transformers.json", sentence.text(2) + "\n");
  replace_file(directory / "modules.json", modules.text(2) + "\n");
}

}  // namespace headway::inline v0::internal
